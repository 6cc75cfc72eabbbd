r"""Word vectors from files: GloVe, word2vec (text and binary) and fastText ``.vec``, plain or gzipped.

A file is read once from start to end, and only the rows of wanted words are kept. Words are compared as bytes: ``\n``
alone ends a line and a space alone ends a field, so that NEL, NBSP and the like are ordinary characters, and a word
that is not UTF-8 does no harm. A word may contain spaces, like ``. . .`` in GloVe 840B: the numbers are the last fields
of a line.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from trellis.arrays import Float32Array
from trellis.errors import DataError

__all__ = ["Coverage", "Vectors", "read_vectors", "usual_count"]

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


@dataclass(frozen=True)
class Coverage:
    """How many of the wanted words a file has."""

    exact: int
    """Found as written."""
    lowered: int
    """Found only in lower case."""
    missing: int

    @property
    def wanted(self) -> int:
        return self.exact + self.lowered + self.missing

    @property
    def share(self) -> float:
        """The share of the wanted words that were found in either way; 1 if none were wanted."""
        return (self.exact + self.lowered) / self.wanted if self.wanted else 1.0

    def __str__(self) -> str:
        return (
            f"{self.share:.1%} of {self.wanted} words have vectors: "
            f"{self.exact} as written, {self.lowered} in lower case, {self.missing} have none"
        )


@dataclass(frozen=True)
class Vectors:
    """The vectors that were kept from a file."""

    rows: dict[str, int]
    """Row of each word found; words that differ only in case may share one."""
    array: Float32Array  # [R, size]
    coverage: Coverage
    format: str
    """What the file was taken for: "glove", "word2vec text" (also fastText's) or "word2vec binary"."""

    @property
    def size(self) -> int:
        return int(self.array.shape[1])


def usual_count(size: int) -> int:
    """How many words to keep from the top of a file with vectors of that size: 100,000, or more within 80 MB.

    >>> usual_count(50), usual_count(300)
    (400000, 100000)
    """
    return max(_LEAST_KEPT, _MOST_NUMBERS // size)


def read_vectors(
    path: str | os.PathLike[str], wanted: Collection[str], *, lower_fallback: bool = True, extra: int | None = 0
) -> Vectors:
    """Read the vectors of the wanted words, and of the first `extra` of the file; the content shows the format.

    If a word occurs twice, its first vector counts. Every line is checked for the number of its fields, and the
    numbers of wanted words are checked to be numbers.

    Args:
        path: a file, gzipped or not.
        wanted: the words to keep.
        lower_fallback: whether a word that is not in the file takes the vector of its lower-case form.
        extra: how many words from the top of the file, where the frequent ones are, to keep as well; None: as many as
            `usual_count` says.

    Raises:
        DataError: the file is missing, empty, cut off or of another kind, or a line is malformed; the message names
            the file and the line, or the byte if there are no lines.

    """
    words = dict.fromkeys(wanted)
    keys = {_encode(word) for word in words}
    if lower_fallback:
        keys |= {_encode(word.lower()) for word in words}
    name = os.fspath(path)
    try:
        with open(path, "rb") as plain:
            unzipped = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
            file = io.BufferedReader(cast("Any", unzipped), _BLOCK)
            layout = _Layout.of(file, name)
            first = usual_count(layout.size) if extra is None else extra
            entries = _binary_entries(file, name, layout) if layout.binary else _text_entries(file, name, layout)
            row_of: dict[bytes, int] = {}
            values: list[Float32Array] = []
            for number, (position, key, data) in enumerate(entries):
                if (number < first or key in keys) and key not in row_of:
                    row_of[key] = len(values)
                    values.append(_values(name, position, key, data, layout))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    rows: dict[str, int] = {}
    exact = lowered = 0
    for word in words:
        row = row_of.get(_encode(word))
        if row is not None:
            exact += 1
        elif lower_fallback and (row := row_of.get(_encode(word.lower()))) is not None:
            lowered += 1
        else:
            continue
        rows[word] = row
    for key, row in row_of.items() if extra != 0 else ():
        word = key.decode("utf-8", "ignore")
        if word.encode() == key:  # no sentence has a word that is not UTF-8
            rows.setdefault(word, row)
    array = np.array(values, dtype=np.float32).reshape(len(values), layout.size)
    return Vectors(rows, array, Coverage(exact, lowered, len(words) - exact - lowered), layout.format)


def _encode(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")  # a lone surrogate is in no file, but that is not an error


@dataclass(frozen=True)
class _Layout:
    """The length of a file's vectors, its header and its format, as the first lines show them."""

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
    def of(file: io.BufferedReader, name: str) -> _Layout:
        """The layout of a file, which is read up to its first vector.

        Two whole numbers alone on the first line are a header, unless all vectors have one number.
        """
        if file.peek(3)[:3] == b"\xef\xbb\xbf":
            file.read(3)
        head = file.peek(_BLOCK)
        if not head.strip():
            raise DataError(f"{name}: the file is empty, it has no vectors")
        for mark, kind in _FOREIGN.items():
            if head.startswith(mark):
                raise DataError(f"{name}: expected word vectors, found {kind}")
        first, _, rest = head.partition(b"\n")
        fields, lines = first.split(), _whole_lines(rest)
        has_header = len(fields) == 2 and all(field.isdigit() for field in fields) and int(fields[1]) > 0
        if has_header:
            count, size = map(int, fields)
            binary = _is_binary(lines, rest, size)
            usual = _usual_size(lines) if lines else size
            if binary or usual != 1 or size == 1:
                if not binary and usual > size:
                    problem = f"the header promises vectors of {size} numbers, most lines have {usual}"
                    raise _line_error(name, 1, problem, first)
                return _Layout(size, count, binary, len(file.readline()))
        size = _usual_size(_whole_lines(head))
        if size < 1:
            raise _line_error(name, 1, "expected a word and its numbers, separated by spaces", first)
        return _Layout(size, None, binary=False, body=0)


def _whole_lines(head: bytes) -> list[bytes]:
    """The first lines, without a last one that the end of the head cuts off."""
    lines = head.split(b"\n", _LINES_LOOKED_AT)
    if len(lines) > 1:
        lines.pop()
    return [line for line in map(_stripped, lines) if line]


def _stripped(line: bytes) -> bytes:
    """A line without its end, which may include a carriage return and fastText's last space."""
    return line.rstrip(b" \r\n")


def _usual_size(lines: list[bytes]) -> int:
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
    try:
        rest.decode()
    except UnicodeDecodeError as error:  # a last character may be cut off
        if error.start < len(rest) - 3 or error.reason != "unexpected end of data":
            return True
    return any(byte < 32 and byte not in b"\t\n\r" for byte in rest)


def _numbers(fields: Sequence[bytes]) -> Float32Array | None:
    """The numbers that the fields are; None if one is not a finite number."""
    try:
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite, and is refused as infinite
            numbers = np.array([*map(float, fields)], dtype=np.float32)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


_Entry = tuple[int, bytes, bytes]
"""The number of a word's line, or of its first byte; the word; and its line, or the bytes of its vector."""


def _text_entries(file: io.BufferedReader, name: str, layout: _Layout) -> Iterator[_Entry]:
    size, count = layout.size, 0
    for number, ended in enumerate(file, start=1 if layout.count is None else 2):
        line = _stripped(ended)
        if not line:
            continue
        count += 1
        spaces = line.count(b" ")
        if spaces < size:
            raise _line_error(name, number, f"expected a word and {size} numbers, found {spaces + 1} fields", line)
        word = line.rsplit(b" ", size)[0] if spaces > size else line[: line.find(b" ")]
        # A word may have spaces in it; one that ends in a number is a row with too many, unless a header says how many.
        if spaces > size and layout.count is None and _numbers(word.rsplit(b" ", 1)[1:]) is not None:
            raise _line_error(name, number, f"expected a word and {size} numbers, found more numbers", line)
        yield number, word, line
    if layout.count is not None and count != layout.count:
        raise DataError(f"{name}: the header promises {layout.count} words, found {count}")


def _binary_entries(file: io.BufferedReader, name: str, layout: _Layout) -> Iterator[_Entry]:
    """Each entry is a word, a space, the numbers, and perhaps a newline."""
    assert layout.count is not None
    width = 4 * layout.size
    data, at, passed = file.read(_BLOCK), 0, layout.body  # `passed` counts the bytes in front of data
    for number in range(1, layout.count + 1):
        while (space := data.find(b" ", at, at + _LONGEST_WORD)) < 0 or space + 1 + width > len(data):
            block = file.read(_BLOCK)
            if not block or len(data) - at > _LONGEST_WORD + width:
                problem = "the file ends in" if not block else f"no word of at most {_LONGEST_WORD} bytes at"
                promised = f"word {number} of the {layout.count} that the header promises"
                raise DataError(f"{name}: byte {passed + at}: {problem} {promised}")
            passed += at
            data, at = data[at:] + block, 0
        end = space + 1 + width
        yield passed + at, data[at:space].lstrip(b"\n"), data[space + 1 : end]
        at = end
    if (data[at:] + file.read(_BLOCK)).strip():
        problem = f"expected the end after the {layout.count} words that the header promises, found more"
        raise DataError(f"{name}: byte {passed + at}: {problem}")


def _values(name: str, position: int, word: bytes, data: bytes, layout: _Layout) -> Float32Array:
    """The numbers of an entry."""
    if layout.binary:
        values = np.frombuffer(data, dtype="<f4").astype(np.float32)
        if not np.isfinite(values).all():
            raise DataError(f"{name}: byte {position}: expected finite numbers for {_show(word)}, found {values}")
        return values
    fields = data.rsplit(b" ", layout.size)[1:]
    numbers = _numbers(fields)
    if numbers is None:
        wrong = next(number for number, field in enumerate(fields, 1) if _numbers([field]) is None)
        problem = f"expected a finite number as number {wrong} of {layout.size}, found {_show(fields[wrong - 1])}"
        raise _line_error(name, position, problem, data)
    return numbers


def _line_error(name: str, number: int, problem: str, line: bytes) -> DataError:
    return DataError(f"{name}:{number}: {problem}: {_show(line)}")


def _show(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
