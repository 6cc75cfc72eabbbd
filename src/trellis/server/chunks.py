"""Where a body in chunks ends: the parser of HTTP does not say, and what follows must be kept apart."""

from __future__ import annotations

_ENOUGH = 64  # bytes of a line that say how long its chunk is, or that it is not empty


class ChunkEnd:
    """Follows the chunks of one body; what is wrong with them is for the parser to say."""

    __slots__ = ("_in_trailers", "_left", "_line")

    def __init__(self) -> None:
        self._left, self._line, self._in_trailers = 0, b"", False

    def extent(self, data: bytes) -> int:
        """How many of these bytes, the next ones, belong to the body."""
        place = 0
        while place < len(data):
            if self._left:  # of a chunk and the end of its last line
                step = min(self._left, len(data) - place)
                self._left, place = self._left - step, place + step
                continue
            end = data.find(b"\n", place)
            self._line = (self._line + data[place : end if end >= 0 else len(data)])[:_ENOUGH]
            if end < 0:
                break
            place, line, self._line = end + 1, self._line.strip(), b""
            if self._in_trailers and not line:
                return place
            if not self._in_trailers:
                self._begin(line)
        return len(data)

    def _begin(self, line: bytes) -> None:
        """A chunk of a size; the last one has none, and trailers follow it."""
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            size = 1
        self._in_trailers = size == 0
        self._left = max(size, 0) + len(b"\r\n") if size else 0
