"""What needs no spaCy; tests/engines has the rest."""

import importlib
import sys
from importlib.metadata import entry_points

import pytest

from trellis.compat import spacy as components
from trellis.compat.spacy import registered
from trellis.errors import ConfigError


@pytest.mark.parametrize("group", ["spacy_factories", "spacy_tokenizers"])
def test_entry_points_name_what_is_there(group: str) -> None:
    own = [point for point in entry_points(group=group) if point.value.startswith("trellis.")]
    assert own
    assert {point.attr for point in own} <= set(dir(importlib.import_module("trellis.compat.spacy")))


def test_without_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    registered.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "spacy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match=r"trellis.compat.spacy needs spacy: pip install 'trellis-crf\[spacy\]'"):
        components.trellis_ner  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'trellis\.compat\.spacy' has no attribute 'nonsense'"):
        components.nonsense  # noqa: B018
