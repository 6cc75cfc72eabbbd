"""Full-width and half-width forms as one: ``２０２６`` and ``2026``, ``，`` and ``,``, ``ｶ`` and ``カ``."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_MOST_TOKENS = 100_000  # that are remembered
_LONGEST_TOKEN = 64
# One character for one, so that offsets stay: the block "Halfwidth and Fullwidth Forms" without what becomes two.
_FORMS = {
    code: folded
    for code in range(0xFF01, 0xFFEF)
    if len(folded := unicodedata.normalize("NFKC", chr(code))) == 1 and ord(folded) != code
}


FOLDED_POINTS = {code: ord(folded) for code, folded in _FORMS.items()}
"""The same by code points, for native code."""


class _Folded(dict[str, str]):
    """The folded form of each token, found when it is first asked for."""

    def __missing__(self, token: str) -> str:
        folded = fold_width(token)
        if len(token) <= _LONGEST_TOKEN:
            if len(self) >= _MOST_TOKENS:
                self.clear()
            self[token] = folded
        return folded


_FOLDED = _Folded()


def fold_width(text: str) -> str:
    """The text with each full-width or half-width form replaced by the usual one; its length stays.

    >>> fold_width("２０２６年，ｶ")
    '2026年,カ'
    """
    return text if text.isascii() else text.translate(_FORMS)


def fold_tokens(tokens: Sequence[str]) -> Sequence[str]:
    """The same for each token; the sequence itself if nothing changes."""
    return tokens if "".join(tokens).isascii() else list(map(_FOLDED.__getitem__, tokens))
