"""Files of word vectors: telling their formats apart, and picking the wanted rows out of them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

import numpy as np

from trellis.arrays import Float32Array
from trellis.errors import DataError

StrPath = str | os.PathLike[str]
Rows = tuple[dict[bytes, int], Float32Array]
"""Row of each word found, and the rows."""

_BLOCK = 1 << 20
_LEAST_KEPT, _MOST_NUMBERS = 100_000, 20_000_000
_LINES_LOOKED_AT = 100
_LONGEST_WORD = 10_000
_SHOWN = 60
# What a file begins with that is not read, and what to do about it.
_FOREIGN = {
    b"PK\x03\x04": "a zip archive: unpack it and give the file inside",
    b"\xba\x16\x4f\x2f": "a fastText model (.bin): give the .vec file of its vectors",
    b"\x80\x02": "a Python pickle, which is never loaded: save the vectors in word2vec's format",
    b"\x93NUMPY": "a NumPy array, which has no words: save the vectors in word2vec's format",
}


def read_rows(path: StrPath, keys: set[bytes], first: int | None = 0) -> tuple[dict[bytes, int], Float32Array, str]:
    """The row of each word found or among the first, the rows, and the format that the file was taken for.

    If `first` is None, these are as many as `usual_count` says.
    """
    with _open(path) as file:
        source = _Source(file, os.fspath(path))
        layout = _Layout.of(source)
        first = usual_count(layout.size) if first is None else first
        rows, array = (_read_binary if layout.binary else _read_text)(source, layout, keys, first)
    return rows, array, layout.format


def usual_count(size: int) -> int:
    """How many words to keep from the top of a file with vectors of that size: 100,000, or more within 80 MB.

    >>> usual_count(50), usual_count(300)
    (400000, 100000)
    """
    return max(_LEAST_KEPT, _MOST_NUMBERS // size)


@contextmanager
def _open(path: StrPath) -> Iterator[IO[bytes]]:
    """The bytes of a file, unzipped if they are gzip."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below; errors of the caller are not caught here
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: {error.strerror or error}") from error
    with file:
        yield cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if file.peek(2)[:2] == b"\x1f\x8b" else file


class _Source:
    """A file that is read once from start to end; its head can be looked at first."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self._file = file
        self.head = self._read().removeprefix(b"\xef\xbb\xbf")
        if not self.head.strip():
            raise DataError(f"{name}: the file is empty, it has no vectors")
        for mark, kind in _FOREIGN.items():
            if self.head.startswith(mark):
                raise DataError(f"{name}: expected word vectors, found {kind}")

    def blocks(self) -> Iterator[bytes]:
        yield self.head
        while block := self._read():
            yield block

    def _read(self) -> bytes:
        try:
            return self._file.read(_BLOCK)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: {error}") from error


@dataclass(frozen=True)
class _Layout:
    """What the head of a file says: its format, the length of its vectors, and its header."""

    size: int
    count: int | None
    """How many words the header promises; None without a header."""
    binary: bool
    body: int
    """Where the vectors begin, in bytes."""

    @property
    def format(self) -> str:
        return "word2vec binary" if self.binary else "glove" if self.count is None else "word2vec text"

    @staticmethod
    def of(source: _Source) -> _Layout:
        """Two whole numbers alone on the first line are a header, unless all vectors have one number."""
        first, _, rest = source.head.partition(b"\n")
        header, lines = _header(first), _whole_lines(rest)
        if header is not None and _is_binary(lines, rest, header[1]):
            return _Layout(header[1], header[0], binary=True, body=len(first) + 1)
        size = _size(lines or [_stripped(first)])
        if header is None or (lines and size == 1 != header[1]):
            return _Layout(_checked(_size(_whole_lines(source.head)), source.name, first), None, binary=False, body=0)
        if lines and size > header[1]:
            problem = f"the header promises vectors of {header[1]} numbers, most lines have {size}"
            raise _line_error(source.name, 1, problem, first)
        return _Layout(header[1], header[0], binary=False, body=len(first) + 1)


def _checked(size: int, name: str, first: bytes) -> int:
    if size < 1:
        raise _line_error(name, 1, "expected a word and its numbers, separated by spaces", first)
    return size


def _header(line: bytes) -> tuple[int, int] | None:
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) == 0:
        return None
    return int(fields[0]), int(fields[1])


def _whole_lines(head: bytes) -> list[bytes]:
    """The first lines, without a last one that the end of the head cuts off."""
    lines = head.split(b"\n", _LINES_LOOKED_AT)
    if len(lines) > 1:
        lines.pop()
    return [line for line in map(_stripped, lines) if line]


def _size(lines: list[bytes]) -> int:
    """How many numbers most lines have after a word; of two equally common answers the smaller.

    Words with spaces, which have more fields, and broken lines, which have fewer, are both rare.
    """
    counts = Counter(line.count(b" ") for line in lines)
    return min(counts, key=lambda fields: (-counts[fields], fields))


def _is_binary(lines: list[bytes], rest: bytes, size: int) -> bool:
    """Whether what follows a header is not text: no numbers on the first line, and bytes that text does not have."""
    fields = lines[0].rsplit(b" ", size)[1:] if lines else []
    if len(fields) == size and _numbers(fields) is not None:
        return False
    return any(byte < 32 and byte not in b"\t\n\r" for byte in rest) or not _is_utf8(rest)


def _is_utf8(data: bytes) -> bool:
    """Whether the bytes decode, except for a last character that may be cut off."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(data) - 3 and error.reason == "unexpected end of data"
    return True


def _stripped(line: bytes) -> bytes:
    """A line without its end, which may include a carriage return and fastText's last space."""
    return line.rstrip(b" \r")


def _numbers(fields: Sequence[bytes]) -> Float32Array | None:
    try:
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite, and is refused as infinite
            numbers = np.array([*map(float, fields)], dtype=np.float32)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _read_text(source: _Source, layout: _Layout, keys: set[bytes], first: int) -> Rows:
    size = layout.size
    rows: dict[bytes, int] = {}
    kept: list[Float32Array] = []
    count = 0
    for number, line in _lines(source, layout):
        count += 1
        spaces = line.count(b" ")
        if spaces == size:
            word = line[: line.find(b" ")]
        elif spaces > size:
            word = line.rsplit(b" ", size)[0]
            if layout.count is None:  # else the header says how many numbers there are
                _check_word(source.name, number, line, word, size)
        else:
            problem = f"expected a word and {size} numbers, found {spaces + 1} fields"
            raise _line_error(source.name, number, problem, line)
        if (word in keys or count <= first) and word not in rows:
            rows[word] = len(kept)
            kept.append(_values(source.name, number, line, size))
    if layout.count is not None and count != layout.count:
        raise DataError(f"{source.name}: the header promises {layout.count} words, found {count}")
    return rows, _stack(kept, size)


def _check_word(name: str, number: int, line: bytes, word: bytes, size: int) -> None:
    """A word may have spaces in it; one that ends in a number is a row with too many of them."""
    if _numbers(word.rsplit(b" ", 1)[1:]) is not None:
        raise _line_error(name, number, f"expected a word and {size} numbers, found more numbers", line)


def _lines(source: _Source, layout: _Layout) -> Iterator[tuple[int, bytes]]:
    """The lines after the header with their line numbers, without blank lines and without line ends."""
    number = 1 if layout.count is None else 2
    rest, skip = b"", layout.body
    for block in source.blocks():
        *lines, rest = (rest + block[skip:]).split(b"\n")
        skip = 0
        for line in lines:
            if line := _stripped(line):
                yield number, line
            number += 1
    if rest := _stripped(rest):
        yield number, rest


def _values(name: str, number: int, line: bytes, size: int) -> Float32Array:
    fields = line.rsplit(b" ", size)[1:]
    values = _numbers(fields)
    if values is None:
        place = next(place for place, field in enumerate(fields, 1) if _numbers([field]) is None)
        problem = f"expected a finite number as number {place} of {size}, found {_show(fields[place - 1])}"
        raise _line_error(name, number, problem, line)
    return values


def _read_binary(source: _Source, layout: _Layout, keys: set[bytes], first: int) -> Rows:
    rows: dict[bytes, int] = {}
    kept: list[Float32Array] = []
    for count, (start, word, data) in enumerate(_entries(source, layout), start=1):
        if (word in keys or count <= first) and word not in rows:
            values = np.frombuffer(data, dtype="<f4").astype(np.float32)
            if not np.isfinite(values).all():
                raise DataError(
                    f"{source.name}: byte {start}: expected finite numbers for {_show(word)}, found {values}"
                )
            rows[word] = len(kept)
            kept.append(values)
    return rows, _stack(kept, layout.size)


def _entries(source: _Source, layout: _Layout) -> Iterator[tuple[int, bytes, bytes]]:
    """Where each word begins, the word, and its vector: ``word``, a space, the numbers, perhaps a newline."""
    assert layout.count is not None
    blocks = source.blocks()
    data, at, before = next(blocks), layout.body, 0  # `before` counts the bytes in front of data
    for number in range(1, layout.count + 1):
        while (end := _end_of_entry(data, at, layout.size)) is None:
            block = next(blocks, b"")
            if not block or len(data) - at > _LONGEST_WORD + 4 * layout.size:
                where = f"word {number} of the {layout.count} that the header promises"
                problem = "the file ends in" if not block else f"no word of at most {_LONGEST_WORD} bytes at"
                raise DataError(f"{source.name}: byte {before + at}: {problem} {where}")
            before += at
            data, at = data[at:] + block, 0
        space = end - 4 * layout.size - 1
        yield before + at, data[at:space].lstrip(b"\n"), data[space + 1 : end]
        at = end
    if (data[at:] + next(blocks, b"")).strip():
        problem = f"expected the end after the {layout.count} words that the header promises, found more"
        raise DataError(f"{source.name}: byte {before + at}: {problem}")


def _end_of_entry(data: bytes, at: int, size: int) -> int | None:
    """Where the entry that begins there ends; None if more data is needed to tell."""
    space = data.find(b" ", at, at + _LONGEST_WORD)
    end = space + 1 + 4 * size
    return end if space >= 0 and end <= len(data) else None


def _stack(rows: list[Float32Array], size: int) -> Float32Array:
    return np.array(rows, dtype=np.float32).reshape(len(rows), size)


def _line_error(name: str, number: int, problem: str, line: bytes) -> DataError:
    return DataError(f"{name}:{number}: {problem}: {_show(line)}")


def _show(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
