"""English as annotated corpora split it, and each convention switched."""

from dataclasses import fields, replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trellis.text import Conventions, WordSplitter, tokenize

SPLIT = {
    "It's Ann's.": "It 's Ann 's .",
    "They don't, can't and won’t.": "They do n't , ca n't and wo n’t .",
    "We're sure I'd've gone.": "We 're sure I 'd 've gone .",
    "I cannot; you're gonna.": "I can not ; you 're gon na .",
    "the U.S. and the U.K.": "the U.S. and the U.K.",
    "AT&T paid $5.": "AT&T paid $ 5 .",
    "On 1996-08-30 3.5% rose to 1,000.5.": "On 1996-08-30 3.5 % rose to 1,000.5 .",
    "Call 555-1234 at 10:30.": "Call 555-1234 at 10:30 .",
    "See http://example.org/a?b=c, or www.example.com.": "See http://example.org/a?b=c , or www.example.com .",
    "(mail ann.lee@example.org)": "( mail ann.lee@example.org )",
    "@user likes #tag!!!": "@user likes #tag !!!",
    "nice :) really ;-) <3": "nice :) really ;-) <3",
    "ok 👍🏽👨‍👩‍👧!": "ok 👍🏽 👨‍👩‍👧 !",
    "Mr. Smith vs. Dr. Lee, etc.": "Mr. Smith vs. Dr. Lee , etc.",
    "well-known and/or": "well-known and / or",
    'He said "yes"...': 'He said " yes " ...',
    "O'Neill's o'clock": "O'Neill 's o'clock",
    "report.pdf, e.g. this": "report.pdf , e.g. this",
    "我喜欢Python3": "我 喜 欢 Python3",
}


@pytest.mark.parametrize(("text", "tokens"), SPLIT.items())
def test_english_is_split_as_annotators_do(text: str, tokens: str) -> None:
    assert list(tokenize(text, "english").tokens) == tokens.split(" ")


SWITCHED = {
    "clitics": ("it's", ["it", "'s"], ["it's"]),
    "contractions": ("cannot", ["can", "not"], ["cannot"]),
    "hyphens": ("well-known", ["well", "-", "known"], ["well-known"]),
    "slashes": ("and/or", ["and", "/", "or"], ["and/or"]),
    "dots": ("end.Next", ["end", ".", "Next"], ["end.Next"]),
    "ranges": ("10-15", ["10", "-", "15"], ["10-15"]),
    "units": ("5pm", ["5", "pm"], ["5pm"]),
    "percent": ("3.5%", ["3.5", "%"], ["3.5%"]),
    "money": ("$5", ["$", "5"], ["$5"]),
    "handles": ("@user", ["@", "user"], ["@user"]),
    "hashtags": ("#tag", ["#", "tag"], ["#tag"]),
    "runs": ("!!!", ["!", "!", "!"], ["!!!"]),
    "initials": ("J.", ["J", "."], ["J."]),
    "abbreviations": ("Mr.", ["Mr", "."], ["Mr."]),
    "emoticons": (":)", [":", ")"], [":)"]),
    "prefixes": ("non-human", ["non", "-", "human"], ["non-human"]),
}


@pytest.mark.parametrize("switch", [item.name for item in fields(Conventions)])
def test_every_switch_splits_or_keeps(switch: str) -> None:
    text, split, whole = SWITCHED[switch]
    base = Conventions(hyphens=True, ranges=True) if switch in ("prefixes", "ranges") else Conventions()
    assert WordSplitter(replace(base, **{switch: True})).split(text) == split
    assert WordSplitter(replace(base, **{switch: False})).split(text) == whole


def test_exceptions_override_the_rules_inside_a_chunk_too() -> None:
    words = WordSplitter(exceptions={"dont": ("do", "nt"), "Yahoo!": ("Yahoo!",), "B&W": ("B", "&", "W")})
    assert words.split("(dont use Yahoo!, B&W)") == ["(", "do", "nt", "use", "Yahoo!", ",", "B", "&", "W", ")"]


def test_chunks_are_remembered_only_up_to_a_bound(monkeypatch) -> None:
    monkeypatch.setattr("trellis.text.tokenizers._MOST_CHUNKS", 3)
    words = WordSplitter()
    for i in range(20):
        assert words.split(f"it's{i} a{i}!") == [f"it's{i}", f"a{i}", "!"]
    assert len(words._known) <= 3
    words.split("x" * 1000)
    assert "x" * 1000 not in words._known


@pytest.mark.parametrize(
    "text", ["a" * 50_000, "a-" * 20_000, "a." * 20_000, "1-" * 20_000, "'" * 20_000, "@a." * 9_000]
)
def test_long_chunks_take_linear_time(text: str) -> None:
    assert "".join(WordSplitter().split(text)) == text
    assert "".join(WordSplitter(Conventions(hyphens=True, dots=True, units=True)).split(text)) == text


SPACES = "".join(chr(code) for code in range(0x110000) if chr(code).isspace())


@given(
    st.text(alphabet=f"abdnoOtxXDcC0198.,;:!?()\"'’-@#/é你😀\ud800_{SPACES}", max_size=30),
    st.builds(Conventions, **dict.fromkeys([field.name for field in fields(Conventions)], st.booleans())),
    st.lists(st.text(alphabet='abdnot019.,!é"', min_size=1, max_size=4), max_size=3),
)
def test_easy_words_are_what_the_rules_make_of_them(text: str, conventions: Conventions, exceptions: list[str]) -> None:
    words = WordSplitter(conventions, {whole: tuple(whole) for whole in exceptions})
    assert words.split(text) == [token for chunk in text.split() for token in words.pieces(chunk)]


@pytest.mark.parametrize("chunk", ["cannot", "Gonna,", "etc.", "Mr.", "J.", "x", "12.", "a" * 40, "dont", "Ok!", "é,"])
def test_words_that_look_easy_follow_the_rules(chunk: str) -> None:
    words = WordSplitter(exceptions={"dont": ("do", "nt"), "ok": ("o", "k"), "Ok!": ("Ok!",)})
    assert tuple(words.split(chunk)) == words.pieces(chunk)


def test_every_kind_of_white_space_ends_a_word() -> None:
    assert WordSplitter().split(SPACES.join(["", "one", "two,", "you’re", ""])) == ["one", "two", ",", "you", "’re"]
    assert [WordSplitter().split(f"a{space}b") for space in SPACES] == [["a", "b"]] * len(SPACES)


def test_ideographs_in_a_row_take_linear_time() -> None:
    for text in ("我" * 300_000, "我a" * 150_000):  # for hours if it were quadratic
        assert "".join(WordSplitter().split(text)) == text
