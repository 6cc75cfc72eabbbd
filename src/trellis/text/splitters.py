"""Splitters: the ways of making tokens of raw text, each of which can be stored with a model.

words        by the conventions of a corpus (`trellis.text.conventions`), or plainly by letters
characters   one by one, as a reader sees them
whitespace   what stands between white space
regex        the matches of a regular expression
function     a function of the user's
file         the words of a file of Hugging Face's `tokenizers`
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from trellis import _native
from trellis.errors import DataError, shown, warn
from trellis.lazy import cached
from trellis.text import plain
from trellis.text.conventions import ABBREVIATIONS, CONTRACTIONS, Conventions, pattern
from trellis.text.patterns import UNSPACED
from trellis.text.sentence import Offsets, Sentence

Tokenizer = Callable[[str], list[Offsets]]

COMPOUND = re.compile(f"[{UNSPACED}]{{2}}")
"""Ideographs or hiragana side by side, of which rules make one token each."""
_TAKEN_APART = (
    "the model was trained on words of several ideographs, but raw text is split into single ones: segment it first "
    "(trellis.Pipeline, trellis tag --pipe SEGMENTER MODEL), or give the model words"
)
_LONGEST_CHUNK = 48  # characters of a chunk that is remembered
_MOST_CHUNKS = 50_000
_LONGEST_EXCEPTION = 6  # tokens that an exception may join


class Splitter(ABC):
    """Makes tokens of raw text; `name` says how."""

    name: str
    separator: str = " "
    """What stands between tokens that came without a text."""
    covers: bool = True
    """Whether there is nothing but white space between tokens, so that `sentence_in` finds them in their text."""

    @abstractmethod
    def split(self, text: str) -> list[str]:
        """The tokens, in order."""

    def sentence(self, text: str) -> Sentence:
        """The tokens with their offsets in the text."""
        return sentence_in(text, self.split(text))

    def offsets(self, text: str) -> list[Offsets]:
        """The ``(start, end)`` of each token."""
        return list(self.sentence(text).offsets or ())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `trellis.text.splitter_from_dict` makes the same splitter."""

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Splitter) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.name)


class Plain(Splitter):
    """One of the splitters that know no conventions: words, characters or whitespace."""

    _WAYS: ClassVar[dict[str, Callable[[str], list[str]]]] = {
        "words": plain.split_words,
        "characters": plain.split_characters,
        "whitespace": plain.split_whitespace,
    }

    def __init__(self, name: str) -> None:
        self.name = name
        self.separator = "" if name == "characters" else " "

    def split(self, text: str) -> list[str]:
        """The tokens."""
        return self._WAYS[self.name](text)

    def to_dict(self) -> dict[str, Any]:
        """The name."""
        return {"name": self.name}

    def __reduce__(self) -> tuple[Any, ...]:
        return Plain, (self.name,)


class WordSplitter(Splitter):
    """Words by the conventions of a corpus, with exceptions.

    Text is split at white space first, and the tokens of each chunk are remembered: running text repeats itself.
    """

    name = "words"

    def __init__(
        self,
        conventions: Conventions | None = None,
        exceptions: Mapping[str, Sequence[str]] | None = None,
        *,
        compounds: bool = False,
    ) -> None:
        self.conventions = conventions or Conventions()
        self.compounds = compounds
        """Whether the corpus has words of several ideographs, which no rule finds in running text."""
        self.exceptions = {text: tuple(pieces) for text, pieces in (exceptions or {}).items()}
        self._known: dict[str, tuple[str, ...]] = {}
        self._easy = _native.EasyWords()
        for word in {*CONTRACTIONS, *ABBREVIATIONS, *self.exceptions}:
            self._easy.exclude(word.lower().encode("utf-8", "backslashreplace"))

    def split(self, text: str) -> list[str]:
        """The tokens of each chunk, one chunk after another."""
        if self.compounds and not text.isascii() and COMPOUND.search(text):
            warn(_TAKEN_APART)
        tokens = self._easy.split(text, self._known, self.pieces)
        if tokens is not None:
            return tokens
        return [token for chunk in text.split() for token in self.pieces(chunk)]

    def pieces(self, chunk: str) -> tuple[str, ...]:
        """The tokens of a text without white space, by the rules."""
        pieces = self._pieces(chunk)
        firsts = self._ascii_firsts if chunk.isascii() else self._firsts
        found = tuple(pieces if firsts.isdisjoint(pieces) else self._corrected(pieces, firsts))
        if len(chunk) <= _LONGEST_CHUNK:
            if len(self._known) >= _MOST_CHUNKS:
                self._known.clear()
            self._known[chunk] = found
        return found

    def _pieces(self, chunk: str) -> list[str]:
        """The tokens before the exceptions."""
        return (self._ascii if chunk.isascii() else self._any).findall(chunk)

    @cached
    def _firsts(self) -> set[str]:
        """The first pieces of all exceptions."""
        return {self._pieces(text)[0] for text in self.exceptions}

    @cached
    def _ascii_firsts(self) -> set[str]:
        """Those of exceptions that an ASCII text can have; the pattern of other texts is slow to make."""
        return {self._pieces(text)[0] for text in self.exceptions if text.isascii()}

    @cached
    def _ascii(self) -> re.Pattern[str]:
        return pattern(self.conventions, ascii_only=True)

    @cached
    def _any(self) -> re.Pattern[str]:
        return pattern(self.conventions, ascii_only=False)

    def _corrected(self, pieces: list[str], firsts: set[str]) -> list[str]:
        """The tokens after the exceptions: the longest runs of pieces that spell one are replaced by it."""
        corrected, i = list[str](), 0
        while i < len(pieces):
            ends = range(min(len(pieces), i + _LONGEST_EXCEPTION), i, -1) if pieces[i] in firsts else ()
            end = next((end for end in ends if "".join(pieces[i:end]) in self.exceptions), i)
            corrected += self.exceptions["".join(pieces[i:end])] if end > i else (pieces[i],)
            i = max(end, i + 1)
        return corrected

    def to_dict(self) -> dict[str, Any]:
        """The conventions and the exceptions."""
        exceptions = [list(pieces) for pieces in self.exceptions.values()]
        return {
            "name": self.name,
            "conventions": dataclasses.asdict(self.conventions),
            "exceptions": exceptions,
            "compounds": self.compounds,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(WordSplitter, compounds=self.compounds), (self.conventions, self.exceptions)


def sentence_in(text: str, tokens: Sequence[str]) -> Sentence:
    """The sentence of these tokens of a text, each searched for behind the one before.

    Raises ValueError if one is not there.
    """
    return Sentence.in_text(tuple(tokens), text, _native.find_tokens(text, tokens))


def located(sentence: Sentence) -> Sentence:
    """The same sentence with the offsets of its tokens in its text, if it has a text without them.

    Each token is searched for behind the one before. A `DataError` names the first that is not there.
    """
    if sentence.text is None or sentence.offsets is not None:
        return sentence
    try:
        return sentence._changed(offsets=_native.find_tokens(sentence.text, sentence.tokens))
    except ValueError:
        raise DataError(_not_there(sentence.text, sentence.tokens)) from None


def _not_there(text: str, tokens: Sequence[str]) -> str:
    number = end = 0
    while (start := text.find(tokens[number], end)) >= 0:
        end = start + len(tokens[number])
        number += 1
    return (
        f"expected the tokens in the text, one behind another, found no {shown(tokens[number])} (token {number}) "
        f"behind character {end} of {shown(text)}; leave out the text, or give its own tokens"
    )


def sentence_at(text: str, offsets: Sequence[Offsets]) -> Sentence:
    """The sentence of the tokens at these offsets, which must not overlap."""
    end = 0
    for start, stop in offsets:
        if not end <= start <= stop <= len(text):
            raise DataError(
                f"a tokenizer gave the offsets ({start}, {stop}) after {end} in a text of {len(text)} characters"
            )
        end = stop
    return Sentence(tuple(text[start:stop] for start, stop in offsets), text=text, offsets=tuple(offsets))
