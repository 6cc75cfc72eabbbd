"""Attributes: feature strings with numbers, in the order in which they first came.

An index grows while a training corpus is compiled. Its arrays are saved with the model and used where they lie in
the mapped file: opening a model reads no string.
"""

from __future__ import annotations

import numpy as np

from trellis import _native
from trellis.arrays import Arrays
from trellis.errors import StoreError


class AttributeIndex:
    """String -> number and back."""

    def __init__(self, native: _native.Attributes | None = None) -> None:
        self.native = _native.Attributes() if native is None else native

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> AttributeIndex:
        """The index whose arrays these are; they are kept, not copied."""
        names, ends, marks, table = (arrays[name] for name in ("names", "ends", "marks", "table"))
        size = len(table)
        if len(ends) and (int(ends[-1]) != len(names) or not bool(np.all(ends[:-1] <= ends[1:]))):
            raise StoreError(f"the attribute names do not fit their offsets: {len(names)} bytes, last end {ends[-1]}")
        if size & (size - 1) or size <= len(ends) or len(marks) != size:
            raise StoreError(f"the attribute table has {size} places for {len(ends)} names: expected a power of two")
        return cls(_native.Attributes.fixed(names, ends, marks, table))

    def arrays(self) -> Arrays:
        """What `from_arrays` takes."""
        names, ends, marks, table = self.native.arrays()
        return {"names": names, "ends": ends, "marks": marks, "table": table}

    def __len__(self) -> int:
        """How many there are."""
        return len(self.native)

    def name(self, number: int) -> str:
        """The string with this number."""
        if not 0 <= number < len(self):
            raise IndexError(f"attribute {number} of {len(self)}")
        return self.native.name(number).decode("utf-8", "surrogatepass")

    def names(self) -> list[str]:
        """All of them, in order."""
        return [self.name(number) for number in range(len(self))]

    def find(self, name: str) -> int | None:
        """The number of a string, None where it is not known."""
        number = self.native.find(name.encode("utf-8", "surrogatepass"))
        return None if number < 0 else number
