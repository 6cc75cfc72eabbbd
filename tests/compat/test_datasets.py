"""What needs no `datasets`; tests/engines has the rest."""

import sys

import pytest

from trellis import Sentence
from trellis.compat.datasets import label_names, to_dataset
from trellis.errors import ConfigError


def test_names_begin_with_o_and_keep_types_together() -> None:
    sentences = [Sentence(["a", "b"], ["I-PER", "B-LOC"]), Sentence(["c", "d"], ["O", "B-PER"]), Sentence(["e"])]
    assert label_names(sentences) == ["O", "B-LOC", "B-PER", "I-PER"]


def test_without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"to_dataset needs datasets: pip install 'trellis-crf\[datasets\]'"):
        to_dataset([])
