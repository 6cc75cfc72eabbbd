"""A file whose broken lines are handed on, in their order, beside what could be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from trellis.corpus._source import LONGEST, OnError, Source
from trellis.errors import CorpusError, DataError

T = TypeVar("T")
_SIZE_OF_ERROR = 500


class RelayingSource(Source):
    """A file whose broken lines are kept for whoever wants to pass them on, in their order."""

    def __init__(self, path: str, *, encoding: str = "utf-8", on_error: OnError = "raise") -> None:
        self._broken: list[CorpusError] = []
        self._size = 0
        super().__init__(path, encoding=encoding, on_error=on_error)

    def fail(self, problem: str, line: int, text: str, whole: str | None = None) -> None:
        """Raise, or keep the error with the whole of what cannot be used, as long as not too much is kept."""
        super().fail(problem, line, text, whole)
        error = CorpusError(problem, path=self.name, line=line, text=text, whole=whole)
        self._broken.append(error)
        self._size += len(error.whole) + _SIZE_OF_ERROR
        if self._size > LONGEST:
            count = len(self._broken)
            raise DataError(f"{count:,} pieces in a row cannot be read: is it another format? The last: {error}")

    def relayed(self, items: Iterable[T]) -> Iterator[T | CorpusError]:
        """What is read from this file, with what is broken between it, in order."""
        for item in items:
            yield from self._take_broken()
            yield item
        yield from self._take_broken()

    def _take_broken(self) -> list[CorpusError]:
        """What was kept since the last time."""
        broken, self._broken, self._size = self._broken, [], 0
        return broken
