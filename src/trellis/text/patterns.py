"""The patterns of characters as readers see them, and of words by their letters."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain

from trellis.lazy import cached

UNSPACED = "々-〇ぁ-ゟ㐀-䶿一-鿿豈-\ufaff\U00020000-\U0003ffff"
"""Ideographs and hiragana, which are written without spaces, as the inside of a character class."""
_ZWJ = "\u200d"


_MARKS = {"Mn", "Mc", "Me"}
# Ideographs and Hangul syllables, among which there are none, are passed over.
_MAY_BE_MARKS = (range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xD7B0, 0x20000), range(0xE0100, 0xE01F0))


class Patterns:
    """Patterns that are compiled when they are first asked for, and the parts that other patterns are made of."""

    def __init__(self, extend: str) -> None:
        pair = "[\U0001f1e6-\U0001f1ff]{2}|[\ud800-\udbff][\udc00-\udfff]"
        letter = rf"[^\W{UNSPACED}]"
        self.extend = extend
        # Possessive repeats (*+) never backtrack: others keep a record of each round, at 180 bytes.
        self.visible = rf"(?:{pair}|\S)[{extend}]*+(?:{_ZWJ}(?:(?:{pair}|\S)[{extend}]*+)?+)*+"
        """Source of one character as a reader sees it, white space excluded."""
        self.run = f"{letter}++(?:[{extend}{_ZWJ}]++{letter}*+)*+"
        """Source of letters, digits and underscores with their marks."""

    @cached
    def special(self) -> re.Pattern[str]:
        """Finds what may join characters: in a text without it, each code point is one character."""
        return re.compile(f"[{self.extend}{_ZWJ}\ud800-\udfff\U0001f1e6-\U0001f1ff]")

    @cached
    def character(self) -> re.Pattern[str]:
        """One character as a reader sees it, white space excluded."""
        return re.compile(self.visible)

    @cached
    def grapheme(self) -> re.Pattern[str]:
        """One character as a reader sees it."""
        return re.compile(rf"{self.visible}|\s[{self.extend}]*+")

    @cached
    def word(self) -> re.Pattern[str]:
        """One word, number or other character."""
        inner = rf"(?:(?<=\d)[.,](?=\d)|['’](?=[^\W\d_{UNSPACED}]))"
        return re.compile(f"{self.run}(?:{inner}{self.run})*+|{self.visible}")


@lru_cache(maxsize=1)
def patterns() -> Patterns:
    """The patterns, made on first use since they need the list of all combining marks."""
    # Extenders: marks (variation selectors among them), ZWNJ, skin tones, and the tag characters of flags.
    return Patterns(f"{_mark_ranges()}\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f")


def _mark_ranges() -> str:
    """Every combining mark (general category M), as the inside of a character class."""
    codes = list(chain(*_MAY_BE_MARKS))
    kinds = map(unicodedata.category, map(chr, codes))
    marks = [code for code, kind in zip(codes, kinds, strict=True) if kind in _MARKS]
    starts = [code for code, before in zip(marks, [-1, *marks], strict=False) if code != before + 1]
    ends = [code for code, after in zip(marks, [*marks[1:], -1], strict=True) if code != after - 1]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))
