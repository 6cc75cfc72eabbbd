"""Sentences as they are read, one by one, in memory that does not grow with their file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trellis.corpus._binary import DOCBIN
from trellis.corpus._files import StrPath
from trellis.corpus._formats import Format, get_format, guess_format
from trellis.corpus._source import OnError, ReadReport, Source
from trellis.errors import DataError
from trellis.text import Sentence


@dataclass(frozen=True, slots=True)
class Stream:
    """Sentences as they are read, once; the report grows as they are."""

    report: ReadReport
    _sentences: Iterator[Sentence]

    @classmethod
    def of(cls, form: Format, source: Source, options: dict[str, Any]) -> Stream:
        """What a format reads from an opened file, with options of its own."""
        check_options(form.read, options, f"reading {form.name}")
        if source.data is not None and form.name != "spacy":
            raise DataError(f"{source.name}: expected {form.name}, found {DOCBIN}")
        return cls(source.report, form.read(source, **options))

    @property
    def format(self) -> str:
        """The format the file was taken for; ``report.reason`` says why."""
        return self.report.format

    def __iter__(self) -> Iterator[Sentence]:
        return self._sentences


def iterate(
    path: StrPath,
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    **options: Any,
) -> Stream:
    """Read the sentences of a file one by one, in memory that does not grow with it."""
    chosen = None if format is None else get_format(format)
    source = Source(path, encoding=encoding, on_error=on_error)
    reason = "it was asked for"
    if chosen is None:
        chosen, reason = guess_format(source)
    source.report.format, source.report.reason = chosen.name, reason
    return Stream.of(chosen, source, options)


def check_options(function: Callable[..., Any], options: dict[str, Any], doing: str) -> None:
    """Refuse options that a reader or writer does not have."""
    parameters = inspect.signature(function).parameters.values()
    allowed = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in allowed:
            raise DataError(f"{doing} knows no option {name!r}, only {', '.join(allowed)}")
