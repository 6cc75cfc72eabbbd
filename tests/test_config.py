"""Configurations to TOML and back, and the errors a person gets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import config
from trellis.config import setting
from trellis.errors import ConfigError
from trellis.models import CRFConfig


@dataclass(frozen=True)
class Inner:
    size: int = setting(3, "how large")


@dataclass(frozen=True)
class Outer:
    rate: float = setting(0.5, "how fast\nin two lines")
    name: str | None = setting(None, "what it is called")
    kind: Literal["a", "b"] = setting("a", "which")
    words: tuple[str, ...] = setting(("x",), "some words")
    weights: dict[str, float] | None = setting(None, "by name")  # noqa: RUF009
    inner: Inner = setting(Inner(), "a part")  # noqa: RUF009


def test_every_setting_is_written_under_its_explanation():
    text = config.to_toml(Outer())
    assert "# how fast\n# in two lines\nrate = 0.5\n" in text
    assert "# what it is called\n# name is not set\n" in text
    assert "# a part\n[inner]\n# how large\nsize = 3\n" in text


@given(
    st.floats(allow_nan=False),
    st.none() | st.text(),
    st.lists(st.text(max_size=5), max_size=3),
    st.none() | st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=3),
    st.integers(-(2**62), 2**62),
)
def test_toml_round_trip_keeps_every_value(rate, name, words, weights, size):
    original = Outer(rate, name, "b", tuple(words), weights, Inner(size))
    assert config.from_toml(Outer, config.to_toml(original)) == original


def test_the_crf_settings_round_trip_through_a_file(tmp_path):
    settings = CRFConfig(features="ready", c1=0.25, label_weights={"O": 0.5}, patience=3)
    config.save(settings, tmp_path / "crf.toml")
    assert config.load(CRFConfig, tmp_path / "crf.toml") == settings


def test_what_is_left_out_takes_its_default():
    assert config.from_toml(Outer, "rate = 2") == Outer(rate=2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rat = 1.0", r"Outer has no setting 'rat'; did you mean 'rate'\?"),
        ("[inner]\nsise = 1", r"Inner has no setting 'inner.sise'; did you mean 'size'\?"),
        ("rate = 'fast'", "setting 'rate' must be float, got 'fast'"),
        ("rate = true", "setting 'rate' must be float, got True"),
        ("kind = 'c'", "setting 'kind' must be 'a' or 'b', got 'c'"),
        ("words = [1]", r"setting 'words\[0\]' must be str, got 1"),
        ("[inner]\nsize = 1.5", "setting 'inner.size' must be int, got 1.5"),
        ("rate = ", "is not TOML"),
    ],
)
def test_mistakes_are_named_with_what_was_expected(text, message):
    with pytest.raises(ConfigError, match=message):
        config.from_toml(Outer, text)


def test_a_missing_file_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(Outer, tmp_path / "nowhere.toml")


def test_paths_become_text():
    assert config.to_dict(Outer(name=str(Path("a/b"))))["name"] == "a/b"
