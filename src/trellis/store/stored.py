"""What a file holds, checked as it is asked for; the one place that checks arrays from files."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import StoreError
from trellis.store.writing import NARROW
from trellis.untrusted import Fields

Shape = tuple[int | None, ...]
"""None stands for any size."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The manifest's own entries and the arrays of a file, none of which may be trusted before it is checked."""

    where: str
    """The file, for messages."""
    kind: str
    manifest: Fields
    arrays: Arrays

    @classmethod
    def of(cls, where: str, kind: str, manifest: dict[str, Any], arrays: Arrays) -> Stored:
        """The same from memory."""
        return cls(where, kind, Fields(manifest, f"{where}: the manifest"), arrays)

    def __contains__(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self.arrays

    def array(
        self,
        name: str,
        dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...],
        shape: Shape,
        low: float | None = None,
        high: float | None = None,
    ) -> AnyArray:
        """The array of exactly this type, or of one of these, and of this shape, every number in ``low..high``.

        Without a limit, integers may be anything and floats anything finite; NaN is never allowed, and an infinity only
        if it is the limit.
        """
        found = self._typed(name, tuple(map(np.dtype, dtype if isinstance(dtype, tuple) else (dtype,))), shape)
        if found.size and (found.dtype.kind == "f" or (low, high) != (None, None)):
            self._check_range(name, found, low, high)
        return found

    def ends(self, name: str, dtype: npt.DTypeLike, total: int, count: int | None = None) -> AnyArray:
        """Where the parts of a whole of `total` items end: the ends never decrease, and the last one is `total`."""
        found = self.array(name, dtype, (count,), 0, total)
        # No differences are taken: those of hostile numbers overflow.
        falls = np.flatnonzero(found[1:] < found[:-1])
        if len(falls):
            raise self.refused(name, f"must never decrease, but does so after [{falls[0]}]")
        last = int(found[-1]) if len(found) else 0
        if last != total:
            raise self.refused(name, f"must end with {total}, got {last}")
        return found

    def lengths(self, name: str, total: int, count: int | None = None) -> IntArray:
        """Where the parts of a whole of `total` items end, given their lengths in any type that `narrowed` gives."""
        found = self.array(name, NARROW, (count,))
        last = int(found.sum(dtype=np.uint64))  # of at most 2**32 each: no sum of what fits into memory wraps around
        if last != total:
            raise self.refused(name, f"must add up to {total}, got {last}")
        return np.cumsum(found, dtype=np.int64)

    def strings(self, name: str) -> tuple[str, ...]:
        """The inverse of `trellis.store.pack_strings`."""
        whole = self.array(f"{name}.bytes", np.uint8, (None,))
        ends = self.ends(f"{name}.ends", np.int64, len(whole))
        data = whole.tobytes()
        try:
            return tuple(data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise([0, *ends.tolist()]))
        except UnicodeDecodeError as error:
            raise self.refused(f"{name}.bytes", f"must be UTF-8 between the ends: {error.reason}") from None

    def refuse_others(self, prefix: str, known: Container[str]) -> None:
        """All arrays whose names begin with the prefix must be known by the rest of their names."""
        for name in self.arrays:
            if name.startswith(prefix) and name.removeprefix(prefix) not in known:
                raise self.refused(name, "has no place in the network that the saved settings describe")

    def refused(self, name: str, problem: str) -> StoreError:
        """The error for an array that must have another property."""
        return StoreError(f"{self.where}: the array {name!r} {problem}")

    def _typed(self, name: str, dtypes: tuple[np.dtype[Any], ...], shape: Shape) -> AnyArray:
        expected = " or ".join(map(str, dtypes))
        if name not in self.arrays:
            raise self.refused(name, f"is missing: expected {expected} of shape {_shape_text(shape)}")
        found = self.arrays[name]
        if not shape and found.shape == (1,):  # numbers are stored like this
            found = found.reshape(())
        if found.dtype not in dtypes:
            raise self.refused(name, f"must be {expected}, got {found.dtype}")
        fits = found.ndim == len(shape) and all(a in (None, b) for a, b in zip(shape, found.shape, strict=True))
        if not fits:
            raise self.refused(name, f"must have the shape {_shape_text(shape)}, got {_shape_text(found.shape)}")
        return found

    def _check_range(self, name: str, found: AnyArray, low: float | None, high: float | None) -> None:
        """Two passes without a copy; NaN is both the smallest and the largest value of an array that contains it."""
        info = np.finfo(found.dtype) if found.dtype.kind == "f" else np.iinfo(found.dtype)
        least, most = info.min if low is None else low, info.max if high is None else high
        if found.min() >= least and found.max() <= most:
            return
        place = tuple(map(int, np.argwhere(~((found >= least) & (found <= most)))[0]))
        raise self.refused(name, f"must {_range_text(low, high)}, got {found[place]} at {list(place)}")


def _shape_text(shape: Iterable[int | None]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


def _range_text(low: float | None, high: float | None) -> str:
    if high is None:
        return "be finite" if low is None else "be finite or -inf" if low == -np.inf else f"be at least {low}"
    return f"be at most {high}" if low is None else f"lie in {low}..{high}"
