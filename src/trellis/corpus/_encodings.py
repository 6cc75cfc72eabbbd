"""Which encoding text that is not in the one expected is probably in, so that an error can suggest it.

Each candidate must decode the bytes, and nearly all that is not ASCII must then be what texts in it consist of: the few
thousand most frequent characters of Chinese, syllables of Korean, letters of Russian, accents within Latin words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SAMPLE = 1 << 14
_MOSTLY = 0.85
_FEW = 4  # characters that are not ASCII, fewer of which show no script
_MARKS = re.compile(r"[\u2013\u2014\u2018-\u201d\u2026\u3000-\u3011\uff00-\uff65«»€·°§]")
_WORD = re.compile(r"[^\W\d_]*[^\W\d_\x00-\x7f][^\W\d_]*")

Usual = Callable[[str, str], bool]
"""Whether a character is one that texts in the encoding consist of."""


def suggest_encoding(data: bytes) -> str | None:
    """The encoding of text that begins so, where one fits well."""
    fits = {name: _share(data[:_SAMPLE], name, usual) for name, usual in _CANDIDATES.items()}
    best = max(fits, key=lambda name: fits[name])
    return best if fits[best] >= _MOSTLY else None


def _share(data: bytes, encoding: str, usual: Usual) -> float:
    """The share of what is usual in this encoding, among the characters that are not ASCII."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if error.end < len(data) - 3:  # else it is the end of the sample that cuts a character
            return 0.0
        text = data[: error.start].decode(encoding)
    others = [character for character in text if character > "\x7f"]
    is_western = encoding == "cp1252"
    if not others or (len(others) < _FEW and not is_western):
        return 0.0
    if encoding in _LETTERS and _is_latin(text) != is_western:
        return 0.0
    return sum(usual(character, encoding) or bool(_MARKS.match(character)) for character in others) / len(others)


def _is_latin(text: str) -> bool:
    """Whether the words with letters that are not ASCII consist of other letters for the most part."""
    letters = "".join(_WORD.findall(text))
    return 2 * sum(map(str.isascii, letters)) >= len(letters)


def _frequent(low: int, high: int) -> Usual:
    """Characters of two bytes, the first in this range, where a standard has the frequent ones; and kana."""

    def usual(character: str, encoding: str) -> bool:
        code = character.encode(encoding, "replace")
        is_kana = encoding in ("shift_jis", "euc_jp") and "\u3041" <= character <= "\u30fe"
        return is_kana or (len(code) == 2 and low <= code[0] <= high and character > "\u2fff")

    return usual


def _between(first: str, last: str) -> Usual:
    return lambda character, _: first <= character <= last


_LETTERS = ("cp1251", "koi8-r", "cp1252")
_CANDIDATES: dict[str, Usual] = {
    "utf-8": lambda *_: True,
    "euc_kr": _between("\uac00", "\ud7a3"),
    "gb18030": _frequent(0xB0, 0xD7),
    "big5": _frequent(0xA4, 0xC6),
    "shift_jis": _frequent(0x88, 0x97),
    "euc_jp": _frequent(0xB0, 0xCF),
    "cp1251": _between("а", "я"),
    "koi8-r": _between("а", "я"),
    "cp1252": lambda character, _: character.isalpha() and character != "ÿ",  # 0xff stands for anything but that
}
