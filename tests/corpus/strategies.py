"""Sentences to write and read back: odd characters often, separators never; and ways to compress files."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import zstandard
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from trellis.corpus import sentence_from_words
from trellis.text import Sentence, tokenize

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
# What a careless reader takes for a line end or a separator.
ODD = "\u0085\u2028\u2029\u00a0\u2003\u202f\x0b\x0c\x1c\x1d\x1e\u200b\u200d\ufeff\u0301\U0001f44d"
ENCODABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r")


def cells(exclude: str = "") -> SearchStrategy[str]:
    character = st.one_of(ENCODABLE, st.sampled_from(f"{ODD}ab中#-/")).filter(lambda c: c not in exclude)
    return st.one_of(st.text(character, min_size=1, max_size=6), st.sampled_from(["#", "#x", "O", "B-PER", "_"]))


@st.composite
def sentences(
    draw: st.DrawFn,
    token: SearchStrategy[str],
    tag: SearchStrategy[str] | None = None,
    columns: tuple[str, ...] = (),
    min_size: int = 1,
) -> Sentence:
    tokens = draw(st.lists(token, min_size=min_size, max_size=5))
    size = len(tokens)

    def column(cell: SearchStrategy[str]) -> list[str]:
        return draw(st.lists(cell, min_size=size, max_size=size))

    tags = None if tag is None else column(tag)
    return Sentence(tokens, tags, columns={name: column(token) for name in columns})


@st.composite
def segmented(draw: st.DrawFn) -> Sentence:
    return sentence_from_words(draw(st.lists(cells(" \u3000"), max_size=5)))


@st.composite
def annotated(draw: st.DrawFn, tokenizer: str) -> Sentence:
    """A text tokenized, with spans that do not overlap written as IOB2."""
    text = draw(st.text(st.one_of(st.characters(), st.sampled_from(f"{ODD} \n中a1.")), max_size=20))
    sentence = tokenize(text, tokenizer)
    tags: list[str] = []
    while len(tags) < len(sentence):
        room = len(sentence) - len(tags)
        label = draw(st.sampled_from(["O", "PER", "LOC-X"]))
        length = draw(st.integers(1, room))
        tags += ["O"] * length if label == "O" else [f"B-{label}"] + [f"I-{label}"] * (length - 1)
    return sentence.with_tags(draw(st.sampled_from([tags, None])))
