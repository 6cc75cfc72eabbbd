"""Sentences and the tokenizers that make them from raw text.

A `Sentence` is what every reader yields and every tagger accepts: tokens and, if known, their tags,
the raw text with the character offsets of the tokens, further columns, and the file and lines it was read
from.

A tokenizer is a function from a text to the ``(start, end)`` offsets of its tokens, in order and without
overlap, so that ``text[start:end]`` is the token, always. Three are here:

    whitespace   "It's 3.5 km."  ->  It's | 3.5 | km.
    words        "It's 3.5 km."  ->  It's | 3.5 | km | .          (ideographs and hiragana one by one)
    characters   "café 👍🏽"       ->  c | a | f | é | 👍🏽           (what a reader sees as one character)
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from html import escape
from itertools import accumulate

from trellis.errors import DataError

Offsets = tuple[int, int]
Tokenizer = Callable[[str], list[Offsets]]


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
        """The same sentence with other tags. Only these are checked; the rest was checked before."""
        other = self._changed()
        if tags is None:
            object.__setattr__(other, "tags", None)
        else:
            other._take_tags(tags)
        return other

    def _changed(self, **values: object) -> Sentence:
        """The same sentence with other values, which are known to fit: nothing is checked again."""
        other = object.__new__(type(self))
        for name in _FIELDS:
            object.__setattr__(other, name, values[name] if name in values else getattr(self, name))
        return other

    def _take_tags(self, tags: Sequence[str]) -> None:
        own = tags if type(tags) is tuple else _as_tuple(tags, "tags")
        object.__setattr__(self, "tags", own)
        if len(own) != len(self.tokens):
            raise DataError(self._mismatch("tags", len(own)))

    def with_text(self, separator: str = " ") -> Sentence:
        """The same sentence with a text and offsets; if it has none, the text is its tokens, separated."""
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
        object.__setattr__(self, "offsets", tuple((start, end) for start, end in self.offsets))
        if self.text is None:
            raise DataError(f"{self._prefix}offsets without the text they point into")
        if len(self.offsets) != len(self.tokens):
            raise DataError(self._mismatch("offsets", len(self.offsets)))
        for (start, end), token in zip(self.offsets, self.tokens, strict=True):
            if not 0 <= start <= end <= len(self.text) or self.text[start:end] != token:
                found = self.text[max(start, 0) : max(end, 0)]
                place = f"{self._prefix}offsets ({start}, {end})"
                raise DataError(f"{place} give {found!r:.80}, not the token {token!r:.80}")

    @property
    def _prefix(self) -> str:
        return f"{self.where}: " if self.where else ""

    def _mismatch(self, what: str, count: int) -> str:
        return f"{self._prefix}{count} {what} for {len(self.tokens)} tokens: {' '.join(self.tokens[:8])!r:.80}"


_FIELDS = tuple(item.name for item in fields(Sentence))


def hue(label: str) -> int:
    """An angle on the colour wheel for a type of span, the same in every run and on every screen."""
    return zlib.crc32(label.encode("utf-8", "surrogatepass")) * 137 % 360


def _ruby(token: str, tag: str) -> str:
    """One token under its tag; tags of one type (B-PER, I-PER, PER-E) share a colour, O has none."""
    kind = re.sub(r"^[BIESMLU]-|-[BIESMLU]$", "", tag)
    colour = "" if tag == "O" else f' style="background:hsl({hue(kind)},70%,85%);color:#111"'
    return f"<ruby{colour}>{escape(token)}<rt>{'' if tag == 'O' else escape(tag)}</rt></ruby>"


def _as_tuple(values: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise DataError(f"{what} must be a sequence of strings, got the string {values[:40]!r}")
    return tuple(values)


def tokenize(text: str, tokenizer: str | Tokenizer = "words") -> Sentence:
    """The text as a sentence of tokens with offsets; `tokenizer` is a name in `TOKENIZERS` or a function."""
    if callable(tokenizer):
        offsets = tokenizer(text)
        return Sentence(tuple(text[start:end] for start, end in offsets), text=text, offsets=offsets)
    return sentence_in(text, split_text(text, tokenizer))


def split_text(text: str, tokenizer: str) -> list[str]:
    """The tokens of a text without their offsets, in a third of the time; see `sentence_in`."""
    get_tokenizer(tokenizer)
    if tokenizer == "whitespace":
        return text.split()
    patterns = _patterns()
    if tokenizer == "words":
        return patterns.word.findall(text)
    return list("".join(text.split())) if patterns.special.search(text) is None else patterns.character.findall(text)


def sentence_in(text: str, tokens: Sequence[str]) -> Sentence:
    """The sentence of tokens that `split_text` made of a text: there is only white space between them."""
    offsets, end = [], 0
    for token in tokens:
        start = text.find(token, end)
        end = start + len(token)
        offsets.append((start, end))
    return Sentence(tuple(tokens))._changed(text=text, offsets=tuple(offsets))


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """The tokenizer of that name, or the function itself."""
    if callable(tokenizer):
        return tokenizer
    if tokenizer not in TOKENIZERS:
        raise DataError(f"unknown tokenizer {tokenizer!r}: expected one of {', '.join(TOKENIZERS)}")
    return TOKENIZERS[tokenizer]


def whitespace(text: str) -> list[Offsets]:
    """Everything between white space of any kind (Unicode's, so NBSP and the ideographic space too)."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def characters(text: str) -> list[Offsets]:
    """Each character as a reader sees it, without white space.

    Kept whole: combining marks and variation selectors with their base, emoji joined by ZWJ or with a skin
    tone, pairs of regional indicators (flags), and the two halves of a surrogate pair; a lone surrogate is a
    token by itself.
    """
    patterns = _patterns()
    if patterns.special.search(text) is None:
        return [(i, i + 1) for i, character in enumerate(text) if not character.isspace()]
    return [match.span() for match in patterns.character.finditer(text)]


def graphemes(text: str) -> list[Offsets]:
    """Like `characters`, with white space kept: the pieces join to the text again."""
    patterns = _patterns()
    if patterns.special.search(text) is None:
        return [(i, i + 1) for i in range(len(text))]
    return [match.span() for match in patterns.grapheme.finditer(text)]


def words(text: str) -> list[Offsets]:
    """Words and numbers, and each punctuation mark or symbol by itself.

    Inner apostrophes stay (``don't``), and so do points and commas between digits (``1,000.5``); hyphens
    split. Ideographs and hiragana, written without spaces, come one by one; other scripts without spaces
    (Thai, Khmer) as runs.
    """
    return [match.span() for match in _patterns().word.finditer(text)]


TOKENIZERS: dict[str, Tokenizer] = {"words": words, "characters": characters, "whitespace": whitespace}

_UNSPACED = "々-〇ぁ-ゟ㐀-䶿一-鿿豈-\ufaff\U00020000-\U0003ffff"
_ZWJ = "\u200d"


@dataclass(frozen=True, slots=True)
class _Patterns:
    special: re.Pattern[str]
    """Finds what may join characters: in a text without it, each code point is one character."""
    character: re.Pattern[str]
    grapheme: re.Pattern[str]
    word: re.Pattern[str]


@lru_cache(maxsize=1)
def _patterns() -> _Patterns:
    """The patterns, made on first use since they need the list of all combining marks."""
    # Extenders: marks (variation selectors among them), ZWNJ, skin tones, and the tag characters of flags.
    extend = f"{_mark_ranges()}\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
    pair = "[\U0001f1e6-\U0001f1ff]{2}|[\ud800-\udbff][\udc00-\udfff]"
    # Possessive repeats (*+) never backtrack: others keep a record of each round, at 180 bytes.
    visible = rf"(?:{pair}|\S)[{extend}]*+(?:{_ZWJ}(?:(?:{pair}|\S)[{extend}]*+)?+)*+"
    letter = rf"[^\W{_UNSPACED}]"
    run = f"{letter}++(?:[{extend}{_ZWJ}]++{letter}*+)*+"
    inner = rf"(?:(?<=\d)[.,](?=\d)|['’](?=[^\W\d_{_UNSPACED}]))"
    return _Patterns(
        special=re.compile(f"[{extend}{_ZWJ}\ud800-\udfff\U0001f1e6-\U0001f1ff]"),
        character=re.compile(visible),
        grapheme=re.compile(rf"{visible}|\s[{extend}]*+"),
        word=re.compile(f"{run}(?:{inner}{run})*+|{visible}"),
    )


def _mark_ranges() -> str:
    """Every combining mark (general category M), as the inside of a character class."""
    marks = [code for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)) if _is_mark(chr(code))]
    starts = [code for code, before in zip(marks, [-1, *marks], strict=False) if code != before + 1]
    ends = [code for code, after in zip(marks, [*marks[1:], -1], strict=True) if code != after - 1]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")
