"""Sentences of a longer text, English or Chinese, with their places in it.

A sentence ends after ``.``, ``!``, ``?`` or ``…`` and closing quotes or brackets, if white space follows, unless the
point belongs to a title, an initial or an abbreviation; after ``。``, ``！``, ``？`` and ``；`` always; and at a blank
line. A line end alone ends a sentence only in Chinese: other texts may be wrapped.
"""

from __future__ import annotations

import re

from trellis.text.conventions import ABBREVIATIONS, UNSPACED, word_list
from trellis.text.sentence import Offsets

_CLOSING = "\"'”’»)\\]}」』）】》〉"
_OPENING = "\"'“‘«([{「『（【《〈¿¡#@*-"
_CANDIDATE = re.compile(
    rf"(?P<wide>[。！？；]+[{_CLOSING}]*)"
    rf"|(?P<mark>[.!?…]+[{_CLOSING}]*)(?=\s+(?P<next>[{_OPENING}]*\w[\w'’]*)|\s*$)"
    rf"|\n[^\S\n]*\n\s*"
    rf"|(?<=[{UNSPACED}，、：])[^\S\n]*\n|\n(?=[^\S\n]*[{UNSPACED}])"
)
_WORD_BEFORE = re.compile(r"[\w.'’-]*$")
_TITLES = frozenset(
    word_list("Mr Mrs Ms Dr Prof Gen Col Sgt Capt Lt Sen Rep Gov Rev Hon Pres St Mt Ft vs cf e.g i.e approx")
)
_STARTERS = frozenset(
    word_list(
        "The A An In On At It He She They We I You This That These Those There But And Or So If When While As For From "
        "With After Before By To What Who Why How Where His Her Its Their My Our Your No Not Yes"
    )
)
_LONGEST_WORD = 40  # characters before a point that are looked at


def split_sentences(text: str) -> list[Offsets]:
    """The ``(start, end)`` of each sentence, without the white space around it."""
    ends = [match.end() for match in _CANDIDATE.finditer(text) if _is_end(text, match)]
    places, start = [], 0
    for end in [*ends, len(text)]:
        part = text[start:end]
        first, last = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        if first < last:
            places.append((first, last))
        start = end
    return places


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Whether a sentence ends there: not after a title or an initial, nor where a quotation goes on in lower case."""
    mark, following = match["mark"], match["next"]
    if mark is None or following is None:
        return True
    begins = following.lstrip(_OPENING)
    if mark[-1] in _CLOSING and begins[0].islower():
        return False
    if not mark.startswith(".") or mark.startswith(".."):
        return not (mark.startswith(("..", "…")) and begins[0].islower())
    before = _WORD_BEFORE.search(text, max(0, match.start() - _LONGEST_WORD), match.start())
    return _is_full_stop(before[0] if before else "", begins)


def _is_full_stop(before: str, begins: str) -> bool:
    """Whether a point between these words ends a sentence."""
    if before in _TITLES or (len(before) == 1 and before.isupper() and before != "I"):
        return False
    if before in ABBREVIATIONS or "." in before or before.lower() == "no":
        return begins in _STARTERS
    return True
