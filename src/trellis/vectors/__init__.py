r"""Word vectors from files: GloVe, word2vec (text and binary) and fastText ``.vec``, plain or gzipped.

A file is read in blocks and only the rows of wanted words are kept. Words are compared as bytes: ``\n`` alone ends a
line and a space alone ends a field, so that NEL, NBSP and the like are ordinary characters, and a word that is not
UTF-8 does no harm. A word may contain spaces, like ``. . .`` in GloVe 840B: the numbers are the last fields of a line.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from trellis.arrays import Float32Array
from trellis.vectors.files import StrPath, read_rows, usual_count

__all__ = ["Coverage", "Vectors", "read_vectors", "usual_count"]


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


def read_vectors(
    path: StrPath, wanted: Collection[str], *, lower_fallback: bool = True, extra: int | None = 0
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
    rows, array, format = read_rows(path, _keys(wanted, lower_fallback), extra)
    return _answer(wanted, lower_fallback, rows, array, format, extra=extra != 0)


def _keys(wanted: Collection[str], lower_fallback: bool) -> set[bytes]:
    words = set(wanted)
    if lower_fallback:
        words |= {word.lower() for word in words}
    return {_encode(word) for word in words}


def _encode(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")  # a lone surrogate is in no file, but that is not an error


def _answer(
    wanted: Collection[str],
    lower_fallback: bool,
    found: dict[bytes, int],
    array: Float32Array,
    format: str,
    *,
    extra: bool,
) -> Vectors:
    rows: dict[str, int] = {}
    exact = lowered = missing = 0
    for word in dict.fromkeys(wanted):
        row = found.get(_encode(word))
        if row is not None:
            exact += 1
        elif lower_fallback and (row := found.get(_encode(word.lower()))) is not None:
            lowered += 1
        else:
            missing += 1
            continue
        rows[word] = row
    for written, row in found.items() if extra else ():
        word = written.decode("utf-8", "ignore")
        if word.encode() == written:  # no sentence has a word that is not UTF-8
            rows.setdefault(word, row)
    return Vectors(rows, array, Coverage(exact, lowered, missing), format)
