"""A `Sentence` is what every reader yields and every tagger accepts.

It has tokens and, if known, their tags, the raw text with the character offsets of the tokens, further columns, and the
file and lines it was read from.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from itertools import accumulate

from trellis.errors import DataError, number_of

Offsets = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens in order, with everything else that is known about them; sequences are kept as tuples.

    Where a sentence came from (`path`, `lines`) takes no part in comparing two sentences.
    """

    tokens: Sequence[str]
    tags: Sequence[str] | None = None
    text: str | None = None
    offsets: Sequence[Offsets] | None = None
    """(start, end) of each token in `text`: ``text[start:end] == token``."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    """Further columns by name, each as long as the tokens."""
    path: str | None = field(default=None, compare=False)
    lines: Sequence[int] = field(default=(), compare=False)
    """The line, from 1, of each token; a single number if one line holds the whole sentence."""
    frame: object = field(default=None, compare=False, repr=False)
    """What else a reader found around the tokens, for the writer of the same format."""

    def __post_init__(self) -> None:
        if type(self.tokens) is not tuple:
            object.__setattr__(self, "tokens", _as_tuple(self.tokens, "tokens"))
        if self.tags is not None:
            self._take_tags(self.tags)
        if self.columns:
            self._check_columns()
        if self.offsets is not None:
            self._check_offsets()

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def where(self) -> str:
        """``file:line`` for messages, as far as known; empty if nothing is known."""
        return ":".join(str(part) for part in (self.path, self.line_of(0)) if part is not None)

    def line_of(self, position: int) -> int | None:
        """The line of the token at `position`, or None for a sentence that came from no file."""
        if len(self.lines) > 1:
            return self.lines[position]
        return self.lines[0] if self.lines else None

    def with_tags(self, tags: Sequence[str] | None) -> Sentence:
        """A copy of the sentence with other tags. Only these are checked; the rest was checked before."""
        other = self._changed()
        if tags is None:
            object.__setattr__(other, "tags", None)
        else:
            other._take_tags(tags)
        return other

    @classmethod
    def in_text(cls, tokens: tuple[str, ...], text: str, offsets: tuple[Offsets, ...]) -> Sentence:
        """A sentence whose offsets are known to be right: they are not checked."""
        sentence, put = object.__new__(cls), object.__setattr__
        values: tuple[object, ...] = (tokens, None, text, offsets, {}, None, (), None)
        for name, value in zip(_FIELDS, values, strict=True):
            put(sentence, name, value)
        return sentence

    def _changed(self, **values: object) -> Sentence:
        """A copy of the sentence with other values, which are known to fit: nothing is checked again."""
        other = object.__new__(type(self))
        for name in _FIELDS:
            object.__setattr__(other, name, values[name] if name in values else getattr(self, name))
        return other

    def _take_tags(self, tags: Sequence[str]) -> None:
        values = tags if type(tags) is tuple else _as_tuple(tags, "tags")
        object.__setattr__(self, "tags", values)
        if len(values) != len(self.tokens):
            raise DataError(self._mismatch("tags", len(values)))

    def with_text(self, separator: str = " ") -> Sentence:
        """A copy of the sentence with a text and offsets; if it has none, the text is its tokens, separated."""
        if self.text is not None and self.offsets is not None:
            return self
        ends = list(accumulate(len(token) + len(separator) for token in self.tokens))
        stops = [end - len(separator) for end in ends]
        offsets = tuple((stop - len(token), stop) for token, stop in zip(self.tokens, stops, strict=True))
        return self._changed(text=separator.join(self.tokens), offsets=offsets)

    def _repr_html_(self) -> str:
        """Tokens with their tags above them, each type in its colour, for notebooks."""
        if self.tags is None:
            return f"<div>{escape(' '.join(self.tokens))}</div>"
        pairs = zip(self.tokens, self.tags, strict=True)
        return f'<div style="line-height:2.4">{" ".join(_ruby(token, tag) for token, tag in pairs)}</div>'

    def _check_columns(self) -> None:
        for name, values in self.columns.items():
            if len(values) != len(self.tokens):
                raise DataError(self._mismatch(f"values in column {name!r}", len(values)))
        if any(type(values) is not tuple for values in self.columns.values()):
            columns = {name: _as_tuple(values, f"column {name!r}") for name, values in self.columns.items()}
            object.__setattr__(self, "columns", columns)

    def _check_offsets(self) -> None:
        assert self.offsets is not None
        pairs = tuple([pair if type(pair) is tuple else (pair[0], pair[1]) for pair in self.offsets])
        object.__setattr__(self, "offsets", pairs)
        if self.text is None:
            raise DataError(f"{self._prefix}offsets without the text they point into")
        if len(self.offsets) != len(self.tokens):
            raise DataError(self._mismatch("offsets", len(self.offsets)))
        for (start, end), token in zip(self.offsets, self.tokens, strict=True):
            if not 0 <= start <= end <= len(self.text) or self.text[start:end] != token:
                marked = self.text[max(start, 0) : max(end, 0)]
                raise DataError(
                    f"{self._prefix}offsets ({start}, {end}) give {marked!r:.80}, not the token {token!r:.80}"
                )

    @property
    def _prefix(self) -> str:
        return f"{self.where}: " if self.where else ""

    def _mismatch(self, what: str, count: int) -> str:
        tokens = number_of(len(self.tokens), "token")
        return f"{self._prefix}{count} {what} for {tokens}: {' '.join(self.tokens[:8])!r:.80}"


_FIELDS = tuple(item.name for item in fields(Sentence))


def hue(label: str) -> int:
    """An angle on the colour wheel for a type of span, the same in every run and on every screen."""
    # The factor keeps usual types (PER, LOC, ORG, DATE, MISC; NP, VP, PP) at least 40 degrees apart.
    return zlib.crc32(label.encode("utf-8", "surrogatepass")) * 59 % 360


def _ruby(token: str, tag: str) -> str:
    """One token under its tag; tags of one type (B-PER, I-PER, PER-E) share a colour, O has none."""
    kind = re.sub(r"^[BIESMLU]-|-[BIESMLU]$", "", tag)
    colour = "" if tag == "O" else f' style="background:hsl({hue(kind)},70%,85%);color:#111"'
    return f"<ruby{colour}>{escape(token)}<rt>{'' if tag == 'O' else escape(tag)}</rt></ruby>"


def _as_tuple(values: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise DataError(f"{what} must be a sequence of strings, got the string {values[:40]!r}")
    return tuple(values)


# Full-width and half-width forms as one: ``２０２６`` and ``2026``, ``，`` and ``,``, ``ｶ`` and ``カ``.

_MOST_TOKENS = 100_000  # that are remembered
_LONGEST_TOKEN = 64
# One character for one, so that offsets stay: the block "Halfwidth and Fullwidth Forms" without what becomes two.
FOLDED_POINTS = {
    code: ord(folded)
    for code in range(0xFF01, 0xFFEF)
    if len(folded := unicodedata.normalize("NFKC", chr(code))) == 1 and ord(folded) != code
}
"""Code point of a full-width or half-width form -> code point of the usual one."""


class FoldedTokens(dict[str, str]):
    """Each token with its folded form, which `fold` computes when it is first looked up."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        self._fold = fold

    def __missing__(self, token: str) -> str:
        folded = self._fold(token)
        if len(token) <= _LONGEST_TOKEN:
            if len(self) >= _MOST_TOKENS:
                self.clear()
            self[token] = folded
        return folded


def fold_width(text: str) -> str:
    """The text with each full-width or half-width form replaced by the usual one; its length stays.

    >>> fold_width("２０２６年，ｶ")
    '2026年,カ'
    """
    return text if text.isascii() else text.translate(FOLDED_POINTS)


_FOLDED = FoldedTokens(fold_width)


def fold_tokens(tokens: Sequence[str]) -> Sequence[str]:
    """`fold_width` of each token; the sequence itself if nothing changes."""
    return tokens if "".join(tokens).isascii() else list(map(_FOLDED.__getitem__, tokens))
