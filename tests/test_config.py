"""Configurations to TOML and back, and the errors a person gets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import CRF, HMM, NeuralTagger, config
from trellis.config import setting
from trellis.errors import ConfigError


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


def test_a_choice_that_may_be_unset_is_refused_by_its_values():
    with pytest.raises(ConfigError, match=r"setting 'smoothing' must be .*'witten_bell'.* or None, got 'foo'"):
        HMM(smoothing="foo")


def test_settings_without_a_name_are_refused_at_once():
    with pytest.raises(ConfigError, match="settings are given by name, or as a CRFConfig, got 'ner'"):
        CRF("ner")
    with pytest.raises(ConfigError, match="as a NeuralConfig, got"):
        NeuralTagger({"head": "crf"})


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


def test_assignments_change_single_settings_the_last_one_winning():
    found = config.override(Outer(), ["rate=2", "name = Ada", "inner.size=7", 'words=["a", "b"]', "kind=b", "rate=3.5"])
    assert found == Outer(3.5, "Ada", "b", ("a", "b"), None, Inner(7))
    assert config.override(Outer(name="x"), ["name="]) == Outer()
    assert config.override(Outer(weights={"a": 1.0}), ["weights.b=2"]).weights == {"a": 1.0, "b": 2.0}
    assert config.override(Outer(), []) == Outer()


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rat=1", r"^Outer has no setting 'rat'; did you mean 'rate'\?$"),
        ("size=1", r"^Outer has no setting 'size'; did you mean 'inner.size'\?$"),
        ("inner.sise=1", r"^Outer has no setting 'inner.sise'; did you mean 'inner.size'\?$"),
        ("iner.size=1", r"^Outer has no setting 'iner.size'; did you mean 'inner.size'\?$"),
        ("rate.x=1", "^Outer has no setting 'rate.x'"),
        ("rate=fast", "^setting 'rate' must be float, got 'fast'$"),
        ("inner.size=1.5", "^setting 'inner.size' must be int, got 1.5$"),
        ("rate=", "^setting 'rate' must be float, got None$"),
        ("rate", "^expected key=value, got 'rate'$"),
        ("=3", "^expected key=value, got '=3'$"),
    ],
)
def test_assignments_that_are_refused(assignment, message):
    with pytest.raises(ConfigError, match=message):
        config.override(Outer(), [assignment])


def test_a_file_comes_on_top_of_what_is_there(tmp_path):
    (tmp_path / "c.toml").write_text("rate = 2\n[inner]\nsize = 9\n")
    assert config.layered(Outer(name="kept"), tmp_path / "c.toml") == Outer(rate=2.0, name="kept", inner=Inner(9))
    (tmp_path / "c.toml").write_text("[inner]\nsise = 9\n")
    with pytest.raises(ConfigError, match=r"c.toml: Inner has no setting 'inner.sise'; did you mean 'size'\?"):
        config.layered(Outer(), tmp_path / "c.toml")


def test_the_keys_are_dotted():
    assert list(config.flat(Outer())) == ["rate", "name", "kind", "words", "weights", "inner.size"]


def test_a_file_takes_the_place_of_the_old_one_or_leaves_it(tmp_path):
    path = tmp_path / "crf.toml"
    path.write_text("old")
    with pytest.raises(ConfigError, match=r"nowhere/crf\.toml cannot be written: No such file or directory"):
        config.save(Outer(), tmp_path / "nowhere" / "crf.toml")
    with pytest.raises(ConfigError, match="cannot be said in TOML"):
        config.save(Outer(inner=Inner(None)), path)
    assert path.read_text() == "old"
    config.save(Outer(), path)
    assert config.load(Outer, path) == Outer()
    assert [file.name for file in tmp_path.iterdir()] == ["crf.toml"]


def test_values_beyond_reason_are_refused_in_few_words():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, "x" * 10**6, 10**400):
        with pytest.raises(ConfigError) as found:
            config.from_dict(Outer, {"rate": value})
        assert len(str(found.value)) < 300
    with pytest.raises(ConfigError, match=r"has no setting 'x+\.\.\.x+'"):
        config.from_dict(Outer, {"x" * 10**5: 1})
    for text in ("a = " + "[" * 100_000, "a = " + "9" * 5000):
        with pytest.raises(ConfigError, match="configuration is not TOML"):
            config.from_toml(Outer, text)


def test_what_is_unset_although_it_has_a_default_survives_toml():
    @dataclass(frozen=True)
    class Clipped:
        clip: float | None = setting(5.0, "longest gradient; unset: never")

    text = config.to_toml(Clipped(None))
    assert 'clip = "unset"' in text
    assert config.from_toml(Clipped, text) == Clipped(None)
    assert config.from_toml(Clipped, "") == Clipped(5.0)
