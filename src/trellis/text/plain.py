"""Text as characters, as words by their letters, and as what stands between white space."""

from __future__ import annotations

import re

from trellis.text.patterns import patterns
from trellis.text.sentence import Offsets

_SINGLE = [(i, i + 1) for i in range(1024)]
"""The offsets of single characters, as one object for all sentences: a corpus of characters has millions."""


def whitespace(text: str) -> list[Offsets]:
    """Everything between white space of any kind (Unicode's, so NBSP and the ideographic space too)."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def characters(text: str) -> list[Offsets]:
    """Each character as a reader sees it, without white space.

    Kept whole: combining marks and variation selectors with their base, emoji joined by ZWJ or with a skin
    tone, pairs of regional indicators (flags), and the two halves of a surrogate pair; a lone surrogate is a
    token by itself.
    """
    known = patterns()
    if known.special.search(text) is None:
        return [(i, i + 1) for i, character in enumerate(text) if not character.isspace()]
    return [match.span() for match in known.character.finditer(text)]


def graphemes(text: str) -> list[Offsets]:
    """Like `characters`, with white space kept: the pieces join to the text again."""
    known = patterns()
    if known.special.search(text) is None:
        return [*_SINGLE[: len(text)], *((i, i + 1) for i in range(len(_SINGLE), len(text)))]
    return [match.span() for match in known.grapheme.finditer(text)]


def words(text: str) -> list[Offsets]:
    """Words and numbers, and each punctuation mark or symbol by itself.

    Inner apostrophes stay (``don't``), and so do points and commas between digits (``1,000.5``); hyphens
    split. Ideographs and hiragana, written without spaces, come one by one; other scripts without spaces
    (Thai, Khmer) as runs.
    """
    return [match.span() for match in patterns().word.finditer(text)]


def split_whitespace(text: str) -> list[str]:
    """The tokens of `whitespace`."""
    return text.split()


def split_words(text: str) -> list[str]:
    """The tokens of `words`."""
    return patterns().word.findall(text)


def split_characters(text: str) -> list[str]:
    """The tokens of `characters`."""
    known = patterns()
    return list("".join(text.split())) if known.special.search(text) is None else known.character.findall(text)
