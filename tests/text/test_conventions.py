"""English as annotated corpora split it, and each convention switched."""

from dataclasses import fields, replace

import pytest

from trellis.text import Conventions, Words, tokenize

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


@pytest.mark.parametrize("text", [*SPLIT, "a b\n\n c\t", "", "  "])
def test_offsets_point_at_the_tokens_and_only_white_space_lies_between(text: str) -> None:
    sentence = tokenize(text, "english")
    end = 0
    for (start, stop), token in zip(sentence.offsets, sentence.tokens, strict=True):
        assert text[start:stop] == token
        assert not text[end:start].strip()
        end = stop
    assert not text[end:].strip()


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
    assert Words(replace(base, **{switch: True})).split(text) == split
    assert Words(replace(base, **{switch: False})).split(text) == whole


def test_exceptions_override_the_rules_inside_a_chunk_too() -> None:
    words = Words(exceptions={"dont": ("do", "nt"), "Yahoo!": ("Yahoo!",), "B&W": ("B", "&", "W")})
    assert words.split("(dont use Yahoo!, B&W)") == ["(", "do", "nt", "use", "Yahoo!", ",", "B", "&", "W", ")"]


def test_chunks_are_remembered_only_up_to_a_bound(monkeypatch) -> None:
    monkeypatch.setattr("trellis.text.splitters._MOST_CHUNKS", 3)
    words = Words()
    for i in range(20):
        assert words.split(f"it's{i} a{i}!") == [f"it's{i}", f"a{i}", "!"]
    assert len(words._known) <= 3
    words.split("x" * 1000)
    assert "x" * 1000 not in words._known


@pytest.mark.parametrize(
    "text", ["a" * 50_000, "a-" * 20_000, "a." * 20_000, "1-" * 20_000, "'" * 20_000, "@a." * 9_000]
)
def test_long_chunks_take_linear_time(text: str) -> None:
    assert "".join(Words().split(text)) == text
    assert "".join(Words(Conventions(hyphens=True, dots=True, units=True)).split(text)) == text
