"""The errors of reading and writing corpora, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NoReturn

from trellis.errors import LONGEST_SHOWN, CorpusError, DataError, shortened, shown
from trellis.tags import Scheme, Style, validate_tags
from trellis.text import Sentence


class LineError(Exception):
    """What is wrong with a line, for the reader that knows file and number to report."""


class LeftOut(Exception):  # noqa: N818 - nothing is wrong
    """A record that is not gold, with the reason by which the report counts it."""


def refuse(sentence: Sentence, problem: str) -> NoReturn:
    """Raise that a sentence cannot be written, saying where it came from or else how it begins."""
    place = sentence.where or f"sentence {shortened(' '.join(sentence.tokens[:LONGEST_SHOWN]))!r}"
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


def names_of(fields: Iterable[object]) -> str:
    """The names of fields, the first ten of them where there are more."""
    names = [shown(field) for field in islice(fields, 11)]
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "") or "none"
