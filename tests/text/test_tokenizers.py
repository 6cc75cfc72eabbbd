from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.errors import DataError
from trellis.text import (
    TOKENIZERS,
    Sentence,
    characters,
    fold_tokens,
    fold_width,
    graphemes,
    split_sentences,
    splitter,
    tokenize,
    whitespace,
    words,
)

# Every code point, lone surrogates too, with the troublesome ones often.
TEXTS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(" \t\n\u00a0\u0085\u2028\u3000\u200b\u200c\u200d\ufe0f\u0301\u20e3a1中の'’.,_-"),
        st.sampled_from("\ud83d\ude00\U0001f1e8\U0001f1f3\U0001f44d\U0001f3fd\U000e0100\ud800\udfff"),
    ),
    max_size=40,
)

UNHURRIED = settings(deadline=None)  # the first call makes the patterns


def pieces(text: str, tokenizer: str) -> list[str]:
    return list(tokenize(text, tokenizer).tokens)


@pytest.mark.parametrize("name", TOKENIZERS)
@UNHURRIED
@given(text=TEXTS)
def test_offsets_give_the_tokens_in_order_and_leave_out_only_white_space(name: str, text: str) -> None:
    sentence = tokenize(text, name)
    assert sentence.offsets is not None
    assert [text[start:end] for start, end in sentence.offsets] == list(sentence.tokens)
    end = 0
    for start, stop in sentence.offsets:
        assert end <= start < stop
        assert not text[end:start].strip()
        end = stop
    assert not text[end:].strip()


@pytest.mark.parametrize("name", TOKENIZERS)
@UNHURRIED
@given(text=TEXTS)
def test_tokens_found_without_offsets_are_the_same_and_get_the_same_offsets(name: str, text: str) -> None:
    offsets = TOKENIZERS[name](text)
    assert splitter(name).split(text) == [text[start:end] for start, end in offsets]
    assert tokenize(text, name) == tokenize(text, TOKENIZERS[name])


@UNHURRIED
@given(text=TEXTS)
def test_graphemes_join_to_the_text(text: str) -> None:
    assert "".join(text[start:end] for start, end in graphemes(text)) == text


@UNHURRIED
@given(text=TEXTS)
def test_characters_are_the_graphemes_without_white_space(text: str) -> None:
    visible = "".join(text[start:end] for start, end in characters(text))
    assert visible == "".join(text.split())


@pytest.mark.parametrize(
    "whole",
    [
        "e\u0301",  # combining acute
        "\u0928\u094d",  # Devanagari consonant and virama
        "\u845b\U000e0100",  # ideograph with a variation selector
        "\u2764\ufe0f",  # heart with an emoji selector
        "1\ufe0f\u20e3",  # keycap
        "\U0001f44d\U0001f3fd",  # thumb with a skin tone
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # family joined by ZWJ
        "\U0001f1e8\U0001f1f3",  # flag of two regional indicators
        "\ud83d\ude00",  # both halves of a surrogate pair
        "\ud800",  # a lone surrogate
    ],
)
def test_characters_keeps_whole_what_reads_as_one_character(whole: str) -> None:
    assert pieces(f"中{whole}文", "characters") == ["中", whole, "文"]


def test_two_flags_in_a_row_are_two_characters() -> None:
    assert len(characters("\U0001f1e8\U0001f1f3\U0001f1ef\U0001f1f5")) == 2


WORDS = {
    "numbers and apostrophes stay, punctuation splits": (
        "It's 3.5 km, isn’t it? (1,000.5) 'so'...",
        "It's 3.5 km , isn’t it ? ( 1,000.5 ) ' so ' . . .",
    ),
    "hyphens and hashes split, underscores stay": ("a-b #tag @user_name", "a - b # tag @ user_name"),
    "ideographs, hiragana one by one, katakana as runs": (
        "我爱NLP。です、カタカナ",
        "我 爱 NLP 。 で す 、 カタカナ",
    ),
    "marks stay inside a word": ("हिन्दी cafe\u0301s", "हिन्दी cafe\u0301s"),
}


@pytest.mark.parametrize(("text", "tokens"), WORDS.values(), ids=WORDS.keys())
def test_words_are_split_plainly(text: str, tokens: str) -> None:
    assert pieces(text, "words") == tokens.split(" ")


def test_whitespace_splits_at_every_unicode_space() -> None:
    assert pieces(" a\u00a0b\u3000c\u2028d\u0085e ", "whitespace") == ["a", "b", "c", "d", "e"]


def test_tokenizers_of_an_empty_text_give_nothing() -> None:
    assert whitespace("") == characters("") == words("") == graphemes("") == []


def test_a_sentence_keeps_sequences_as_tuples_and_compares_without_its_origin() -> None:
    sentence = Sentence(["a", "b"], ["X", "Y"], columns={"pos": ["N", "V"]}, path="f", lines=[3, 4])
    assert sentence == Sentence(("a", "b"), ("X", "Y"), columns={"pos": ("N", "V")})
    assert hash(sentence) == hash(Sentence(("a", "b"), ("X", "Y")))
    assert len(sentence) == 2
    assert pickle.loads(pickle.dumps(sentence)) == sentence


def test_a_sentence_cannot_be_changed_but_be_given_other_tags() -> None:
    sentence = Sentence(["a"], ["X"])
    with pytest.raises(AttributeError):
        sentence.tags = ("Y",)  # type: ignore[misc]
    assert sentence.with_tags(["Y"]).tags == ("Y",)
    assert sentence.with_tags(None).tags is None
    with pytest.raises(DataError, match="2 tags for 1 token"):
        sentence.with_tags(["Y", "Y"])
    with pytest.raises(DataError, match="tags must be a sequence of strings"):
        sentence.with_tags("Y")


def test_other_tags_leave_everything_else_as_it_was() -> None:
    sentence = Sentence(["a", "b"], ["X", "X"], "a b", [(0, 1), (2, 3)], {"pos": ["N", "V"]}, "file", [3, 4])
    other = sentence.with_tags(["Y", "Z"])
    expected = Sentence(["a", "b"], ["Y", "Z"], "a b", [(0, 1), (2, 3)], {"pos": ["N", "V"]}, "file", [3, 4])
    assert other == expected
    assert (other.where, other.lines, other.path) == ("file:3", expected.lines, "file")
    assert sentence.tags == ("X", "X")


def test_lines_are_one_a_token_or_one_for_all() -> None:
    assert Sentence(["a", "b"], lines=[3, 5], path="f").line_of(1) == 5
    assert Sentence(["a", "b"], lines=[3], path="f").line_of(1) == 3
    assert Sentence(["a", "b"]).line_of(1) is None
    assert Sentence(["a", "b"], lines=[3, 5], path="f").where == "f:3"
    assert Sentence([]).where == ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sentence(["a", "b"], ["X"], path="f", lines=[7, 8]), "f:7: 1 tags for 2 tokens: 'a b'"),
        (lambda: Sentence(["a"], columns={"pos": []}), "0 values in column 'pos' for 1 token: 'a'"),
        (lambda: Sentence("abc"), "tokens must be a sequence of strings, got the string 'abc'"),
        (lambda: Sentence(["a"], "X"), "tags must be a sequence of strings, got the string 'X'"),
        (lambda: Sentence(["a"], offsets=[(0, 1)]), "offsets without the text they point into"),
        (lambda: Sentence(["a"], text="a", offsets=[]), "0 offsets for 1 token: 'a'"),
        (lambda: Sentence(["b"], text="ab", offsets=[(0, 1)]), "offsets (0, 1) give 'a', not the token 'b'"),
        (lambda: Sentence(["b"], text="ab", offsets=[(-1, 2)]), "offsets (-1, 2) give 'ab', not the token 'b'"),
    ],
)
def test_a_sentence_that_does_not_fit_together_is_an_error(make: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == message


SENTENCES = {
    "He left. She stayed! Why? Nobody knows...": ["He left.", "She stayed!", "Why?", "Nobody knows..."],
    "Mr. Smith met J. Doe in the U.S. in May.": ["Mr. Smith met J. Doe in the U.S. in May."],
    "It ended at 5 p.m. The end.": ["It ended at 5 p.m.", "The end."],
    "It rose 3.5 points. 1996 was good.": ["It rose 3.5 points.", "1996 was good."],
    '"Really?" she asked. "Yes." He left.': ['"Really?" she asked.', '"Yes."', "He left."],
    "no capitals here. none at all.": ["no capitals here.", "none at all."],
    "A heading\n\nA wrapped\nline. And more": ["A heading", "A wrapped\nline.", "And more"],
    "我来了。你呢？“好的！”他说；走吧": ["我来了。", "你呢？", "“好的！”", "他说；", "走吧"],
    "第一行\n第二行\n": ["第一行", "第二行"],
    "": [],
    " \n\t ": [],
}


@pytest.mark.parametrize(("text", "sentences"), SENTENCES.items())
def test_sentences_end_where_readers_say(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@pytest.mark.parametrize(
    "text", [". " * 20_000, "a.b" * 20_000, "\n" * 20_000, "。" * 20_000, "a" * 50_000, "! a" * 9_000]
)
def test_everything_but_white_space_is_in_a_sentence_and_time_is_linear(text: str) -> None:
    places = split_sentences(text)
    assert "".join("".join(text[a:b] for a, b in places).split()) == "".join(text.split())


def test_forms_become_the_usual_ones_and_the_length_stays() -> None:
    text = "２０２６年ＡＢｃ，ｶﾞ￥！漢字 abc"
    assert fold_width(text) == "2026年ABc,カ\u3099¥!漢字 abc" or len(fold_width(text)) == len(text)
    assert fold_width("２０２６年，") == "2026年,"
    assert len(fold_width("".join(map(chr, range(0xFF00, 0xFFFF))))) == 0xFF


def test_tokens_that_need_no_change_are_left_alone() -> None:
    tokens = ["a", "b"]
    assert fold_tokens(tokens) is tokens
    assert list(fold_tokens(["Ａ", "漢", "ｂc"])) == ["A", "漢", "bc"]
