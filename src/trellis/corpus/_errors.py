"""The errors of reading and writing corpora, each with its place."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from itertools import islice
from typing import NoReturn

from trellis.errors import DataError
from trellis.tags import Scheme, Style, validate_tags
from trellis.text import Sentence

_LONGEST_SHOWN = 120
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


class CorpusError(DataError):
    """A line that cannot be read as what the format wants, with its `path`, `line` (from 1) and `text`.

    `whole` is all that is lost with it: the lines of its sentence, or the line itself.
    """

    def __init__(self, problem: str, *, path: str, line: int, text: str, whole: str | None = None) -> None:
        super().__init__(f"{path}:{line}: {problem}: {_shortened(text)!r}")
        self.problem = problem
        self.path = path
        self.line = line
        self.text = text
        self.whole = text if whole is None else whole


class LineError(Exception):
    """What is wrong with a line, for the reader that knows file and number to report."""


def refuse(sentence: Sentence, problem: str) -> NoReturn:
    """Raise that a sentence cannot be written, saying where it came from or else how it begins."""
    place = sentence.where or f"sentence {_shortened(' '.join(sentence.tokens[:_LONGEST_SHOWN]))!r}"
    raise DataError(f"{place}: {problem}")


def refuse_illegal(sentence: Sentence, scheme: Scheme, style: Style = Style.PREFIX) -> None:
    """Raise the first step of the tags that the scheme forbids, with its line."""
    for violation in validate_tags(sentence.tags or (), scheme, style=style):
        line = sentence.line_of(violation.position)
        problem = f"the tags are not legal {scheme.value}: {violation.reason}"
        if line is None or sentence.path is None:
            refuse(sentence, problem)
        text = f"{sentence.tokens[violation.position]} {violation.tag}"
        raise CorpusError(problem, path=sentence.path, line=line, text=text)


def shown(value: object) -> str:
    """The `repr` of a value from outside, shortened where it is long or nested deeply."""
    try:
        return _SHORT.repr(value)
    except Exception:  # a `repr` of the caller's, or an integer of too many digits
        return f"a value of type {type(value).__name__}"


def names_of(fields: Iterable[object]) -> str:
    """The names of fields, the first ten of them where there are more."""
    names = [shown(field) for field in islice(fields, 11)]
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "") or "none"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
