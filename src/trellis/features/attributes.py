"""Attributes: feature strings with numbers, in the order in which they first occurred.

An index grows while a training corpus is compiled. Its strings are saved with the model and used directly: opening a
model creates none, and the table to find one by is made when it is first asked for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import Arrays
from trellis.errors import StoreError
from trellis.store import Stored, narrowed

_LONGEST_SEARCH = 10_000  # places; a proper table of a billion names has no search of 500


class AttributeIndex:
    """String -> number and back."""

    def __init__(self, native: _native.Attributes | None = None) -> None:
        self.native = _native.Attributes() if native is None else native

    @classmethod
    def from_stored(cls, stored: Stored, prefix: str = "") -> AttributeIndex:
        """The index that `arrays` returned, or one of an earlier version, which has its table with it."""
        names = stored.array(f"{prefix}names", np.uint8, (None,))
        if f"{prefix}lengths" in stored:
            ends = stored.lengths(f"{prefix}lengths", len(names)).view(np.uint64)
            if len(ends) > np.iinfo(np.int32).max:
                raise stored.refused(f"{prefix}lengths", f"must be of fewer than 2**31 names, got {len(ends)}")
            return cls(_native.Attributes.named(names, ends))
        ends = stored.ends(f"{prefix}ends", np.uint64, len(names))
        marks = stored.array(f"{prefix}marks", np.uint8, (None,))
        table = stored.array(f"{prefix}table", np.uint32, (len(marks),))
        _check_table(stored, f"{prefix}marks", marks, len(ends))
        return cls(_native.Attributes.fixed(names, ends, marks, table))

    def arrays(self, prefix: str = "") -> Arrays:
        """The input of `from_stored`; the prefix tells the indexes of one file apart."""
        names, ends = self.native.strings()
        return {f"{prefix}names": names, f"{prefix}lengths": narrowed(np.diff(ends, prepend=np.uint64(0)))}

    def __len__(self) -> int:
        """How many there are."""
        return len(self.native)

    def name(self, number: int) -> str:
        """The string with this number."""
        if not 0 <= number < len(self):
            raise IndexError(f"attribute {number} of {len(self)}")
        try:
            return self.native.name(number).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise StoreError(f"the name of attribute {number} of the saved model is not UTF-8") from None

    def names(self) -> list[str]:
        """All strings, in order."""
        return [self.name(number) for number in range(len(self))]

    def find(self, name: str) -> int | None:
        """The number of a string, None if it is unknown."""
        number = self.native.find(name.encode("utf-8", "surrogatepass"))
        return None if number < 0 else number


def _check_table(stored: Stored, name: str, marks: npt.NDArray[np.uint8], count: int) -> None:
    """A table in which searches end soon: its size is a power of two, and no place is far from a free one."""
    size = len(marks)
    if size & (size - 1) or size <= count or count > np.iinfo(np.int32).max:
        raise stored.refused(name, f"must have a power of two places for {count} names, got {size}")
    free = np.flatnonzero(marks == 0)
    taken = np.diff(free, append=free[:1] + size) - 1  # between two free places, the last and the first too
    if not len(free) or taken.max() > _LONGEST_SEARCH:
        raise stored.refused(name, f"must leave at least every {_LONGEST_SEARCH}th place free")
