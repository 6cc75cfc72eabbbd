"""The patterns of characters as readers see them, and of words by their letters."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

UNSPACED = "々-〇ぁ-ゟ㐀-䶿一-鿿豈-\ufaff\U00020000-\U0003ffff"
"""Ideographs and hiragana, which are written without spaces, as the inside of a character class."""
_ZWJ = "\u200d"


@dataclass(frozen=True, slots=True)
class Patterns:
    """Compiled patterns, and the parts that other patterns are made of."""

    special: re.Pattern[str]
    """Finds what may join characters: in a text without it, each code point is one character."""
    character: re.Pattern[str]
    grapheme: re.Pattern[str]
    word: re.Pattern[str]
    visible: str
    """Source of one character as a reader sees it, white space excluded."""
    run: str
    """Source of letters, digits and underscores with their marks."""


@lru_cache(maxsize=1)
def patterns() -> Patterns:
    """The patterns, made on first use since they need the list of all combining marks."""
    # Extenders: marks (variation selectors among them), ZWNJ, skin tones, and the tag characters of flags.
    extend = f"{_mark_ranges()}\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
    pair = "[\U0001f1e6-\U0001f1ff]{2}|[\ud800-\udbff][\udc00-\udfff]"
    # Possessive repeats (*+) never backtrack: others keep a record of each round, at 180 bytes.
    visible = rf"(?:{pair}|\S)[{extend}]*+(?:{_ZWJ}(?:(?:{pair}|\S)[{extend}]*+)?+)*+"
    letter = rf"[^\W{UNSPACED}]"
    run = f"{letter}++(?:[{extend}{_ZWJ}]++{letter}*+)*+"
    inner = rf"(?:(?<=\d)[.,](?=\d)|['’](?=[^\W\d_{UNSPACED}]))"
    return Patterns(
        special=re.compile(f"[{extend}{_ZWJ}\ud800-\udfff\U0001f1e6-\U0001f1ff]"),
        character=re.compile(visible),
        grapheme=re.compile(rf"{visible}|\s[{extend}]*+"),
        word=re.compile(f"{run}(?:{inner}{run})*+|{visible}"),
        visible=visible,
        run=run,
    )


def _mark_ranges() -> str:
    """Every combining mark (general category M), as the inside of a character class."""
    marks = [code for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)) if _is_mark(chr(code))]
    starts = [code for code, before in zip(marks, [-1, *marks], strict=False) if code != before + 1]
    ends = [code for code, after in zip(marks, [*marks[1:], -1], strict=True) if code != after - 1]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")
