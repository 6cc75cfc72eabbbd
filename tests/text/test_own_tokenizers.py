"""Tokenizers that users bring, and how they are stored."""

import json
import pickle
import sys

import pytest
import tokenizers

from trellis.errors import ConfigError, DataError, StoreError
from trellis.text import WordSplitter, learned_words, splitter, splitter_from_dict, tokenizer
from trellis.untrusted import Fields


@tokenizer
def halves(text: str) -> list[tuple[int, int]]:
    """Two tokens of equal length."""
    return [(0, len(text) // 2), (len(text) // 2, len(text))]


def unmarked(text: str) -> list[str]:
    """White space."""
    return text.split()


def stored(given) -> dict:
    return json.loads(json.dumps(given.to_dict()))


def again(values: dict):
    return splitter_from_dict(Fields(values, "model: the tokenizer"))


@pytest.mark.parametrize(
    "given",
    [
        splitter("words"),
        splitter("characters"),
        splitter("english"),
        splitter(r"regex:\w+"),
        splitter(halves),
        learned_words([["dont"], ["do", "nt"], ["it", "'s"]]),
        WordSplitter(exceptions={"dont": ("do", "nt")}),
    ],
    ids=str,
)
def test_every_splitter_comes_back_from_its_description(given) -> None:
    text = "I dont know: it's 3.5% well-known."
    for copy in (again(stored(given)), pickle.loads(pickle.dumps(given))):
        assert copy == given
        assert copy.sentence(text) == given.sentence(text)


def test_matches_of_a_pattern_are_the_tokens_and_the_rest_is_skipped() -> None:
    found = splitter(r"regex:\w+|\$|").sentence("Ann - owes $5")
    assert found.tokens == ("Ann", "owes", "$", "5")
    assert found.offsets == ((0, 3), (6, 10), (11, 12), (12, 13))


HOPELESS = "a" * 33 + "b"  # for (a|aa)+$, millions of ways to fail


def test_a_pattern_has_limited_time_for_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trellis.text.tokenizers._SECONDS", 0.02)
    stored = again({"name": "regex", "pattern": "(a|aa)+$"})
    assert stored.split("aaa") == ["aaa"]
    for split in (stored.split, stored.sentence):
        with pytest.raises(
            DataError, match=r"'\(a\|aa\)\+\$' needs more than 0.0203 seconds for a text of 34 characters"
        ):
            split(HOPELESS)


def test_the_limit_of_a_tokenizer_file_is_an_error_of_ours() -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": False}
    stored = again({"name": "file", "description": json.dumps({"version": "1.0", "pre_tokenizer": split})})
    with pytest.raises(DataError, match="cannot split a text of 34 characters"):
        stored.split(HOPELESS)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "is not a regular expression"),
        ("a" * 20_000, "20000 characters"),
        ("(?:a{1000}){1000}", "multiply to more than 100,000"),
        ("(?x)a{ 1000000000 }", "multiply to more than 100,000"),
        ("(?R)", "is not a regular expression"),
    ],
)
def test_a_bad_pattern_is_named(pattern: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        splitter(f"regex:{pattern}")


def test_a_function_may_give_tokens_or_offsets() -> None:
    assert splitter(unmarked).sentence(" a  b").offsets == ((1, 2), (4, 5))
    assert splitter(halves).sentence("abcd").tokens == ("ab", "cd")


def test_what_a_function_gives_is_checked() -> None:
    with pytest.raises(DataError, match="returned tokens that the text does not have"):
        splitter(lambda text: ["x"]).sentence("abc")
    with pytest.raises(DataError, match=r"gave the offsets \(1, 9\) after 0 in a text of 3 characters"):
        splitter(lambda text: [(1, 9)]).sentence("abc")
    with pytest.raises(DataError, match=r"gave the offsets \(0, 2\) after 3"):
        splitter(lambda text: [(1, 3), (0, 2)]).sentence("abc")


def test_a_function_that_no_other_program_could_find_is_not_stored() -> None:
    for function in (unmarked, lambda text: [], str.split):
        with pytest.raises(ConfigError, match="cannot be stored with a model"):
            splitter(function).to_dict()


def test_a_stored_function_is_called_only_if_it_is_marked_and_its_module_was_imported() -> None:
    for place in ("os:system", "subprocess:getoutput", "not.there:at_all", f"{__name__}:unmarked", "shutil:", ""):
        with pytest.raises(StoreError, match="import its module before you open the model"):
            again({"name": "function", "function": place})
    assert "antigravity" not in sys.modules
    with pytest.raises(StoreError):
        again({"name": "function", "function": "antigravity:fly"})
    assert "antigravity" not in sys.modules  # a file names it, and nothing was imported


def test_a_function_by_name_is_imported_for_the_user_who_asks() -> None:
    assert splitter(f"{__name__}:halves").sentence("abcd").tokens == ("ab", "cd")
    with pytest.raises(ConfigError, match="cannot be imported"):
        splitter("not.there:at_all")
    with pytest.raises(ConfigError, match="is not a function"):
        splitter("sys:maxsize")


BAD = [
    ({"name": "bpe"}, "must be one of"),
    ({}, "lacks the field 'name'"),
    ({"name": "regex", "pattern": "("}, "not a regular expression"),
    ({"name": "words", "conventions": {"clitics": 1}, "exceptions": []}, "must be true or false"),
    ({"name": "words", "conventions": {}, "exceptions": [["a", 1]]}, "must be a list of strings"),
    ({"name": "words", "conventions": {}, "exceptions": [[]]}, "must be a list of strings"),
    ({"name": "words", "conventions": {}, "exceptions": [["", " "]]}, "must be a list of strings"),
    ({"name": "file", "description": "{"}, "cannot be read"),
]


@pytest.mark.parametrize(("values", "problem"), BAD)
def test_a_damaged_description_is_an_error(values: dict, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        again(values)


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "it": 1}, unk_token="[UNK]"))
        made.normalizer = tokenizers.normalizers.Lowercase()
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        made.save(str(tmp_path / "own.json"))
        return tmp_path / "own.json"

    def test_words_are_those_of_the_pre_tokenizer(self, path) -> None:
        found = splitter(str(path)).sentence("It's  Ünder $5")
        assert found.tokens == ("It", "'", "s", "Ünder", "$", "5")

    def test_it_is_stored_without_its_vocabulary(self, path) -> None:
        given = splitter(str(path))
        assert again(stored(given)) == given == pickle.loads(pickle.dumps(given))
        assert '"it"' not in given.to_dict()["description"]

    def test_byte_level_words_have_no_space_in_front(self, path) -> None:
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.save(str(path))
        assert splitter(str(path)).sentence("Ann met  Bob").tokens == ("Ann", "met", "Bob")

    def test_what_is_no_tokenizer_is_refused(self, path) -> None:
        path.write_text("[]")
        with pytest.raises(ConfigError, match="cannot be read"):
            splitter(str(path))
        path.write_text('{"version": "1.0"}')
        with pytest.raises(ConfigError, match="no pre_tokenizer"):
            splitter(str(path))
        with pytest.raises(ConfigError, match="No such file"):
            splitter(str(path.with_name("other.json")))
