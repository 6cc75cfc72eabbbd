"""Where sentences of a longer text begin and end."""

import pytest

from trellis.text import split_sentences

CASES = {
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


@pytest.mark.parametrize(("text", "sentences"), CASES.items())
def test_sentences_end_where_readers_say(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@pytest.mark.parametrize(
    "text", [". " * 20_000, "a.b" * 20_000, "\n" * 20_000, "。" * 20_000, "a" * 50_000, "! a" * 9_000]
)
def test_everything_but_white_space_is_in_a_sentence_and_time_is_linear(text: str) -> None:
    places = split_sentences(text)
    assert "".join("".join(text[a:b] for a, b in places).split()) == "".join(text.split())
