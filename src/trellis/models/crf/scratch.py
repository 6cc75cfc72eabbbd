"""Arrays on disk instead of in memory, for as long as a process needs them.

A `Scratch` is one file without a name: the system removes it when the process ends, however it ends, and no other
process can open, cut or change it. Arrays are appended in sections, which are mapped when they are read, so that they
occupy memory only as long as somebody holds them. Each section is compared with its checksum when it is first read.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, Arrays
from trellis.errors import StoreError

_ALIGNMENT = 64  # of each array


@dataclass(frozen=True, slots=True)
class _Place:
    """An array in its section."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    size: int


@dataclass(frozen=True, slots=True)
class Section:
    """Arrays that were written together."""

    begin: int
    size: int
    checksum: int
    places: dict[str, _Place]


class Scratch:
    """A file for arrays that do not fit into memory together; `folder` says on which disk."""

    def __init__(self, folder: str | Path) -> None:
        self._folder, self._end = folder, 0
        self._checked: set[int] = set()
        try:
            self._file: Any = tempfile.TemporaryFile(dir=folder, prefix=".trellis-")  # noqa: SIM115 - see `close`
        except OSError as error:
            raise self._refused("cannot be written", error) from None
        self.close = weakref.finalize(self, self._file.close)
        """Give the space back; arrays that were read stay as long as they are held."""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._end

    def append(self, arrays: Mapping[str, AnyArray]) -> Section:
        """Write arrays; a full disk is an error."""
        places, at, checksum = {}, 0, 0
        for name, array in arrays.items():
            places[name] = _Place(array.dtype.str, array.shape, at, array.nbytes)
            checksum = zlib.crc32(_bytes(array), checksum)
            at = _rounded(at + array.nbytes, _ALIGNMENT)
        section = Section(self._end, max(at, 1), checksum, places)
        try:
            self._reserve(section)
            for name, place in places.items():
                self._write(_bytes(arrays[name]), section.begin + place.begin)
        except OSError as error:
            raise self._refused(f"has no room for {section.size:,} bytes more", error) from None
        self._end = _rounded(section.begin + section.size, mmap.ALLOCATIONGRANULARITY)
        return section

    def read(self, section: Section) -> Arrays:
        """The arrays of a section, mapped: they cannot be written to, and leave memory with the last reference."""
        if os.fstat(self._file.fileno()).st_size < section.begin + section.size:
            raise StoreError(f"the scratch file in {self._folder} was truncated while it was in use")
        try:
            mapped = mmap.mmap(self._file.fileno(), section.size, access=mmap.ACCESS_READ, offset=section.begin)
        except OSError as error:
            raise self._refused("cannot be read", error) from None
        if hasattr(mmap, "MADV_WILLNEED"):
            mapped.madvise(mmap.MADV_WILLNEED)
        arrays = {name: _view(mapped, place) for name, place in section.places.items()}
        if section.begin not in self._checked:
            self._check(section, arrays)
        return arrays

    def _check(self, section: Section, arrays: Arrays) -> None:
        found = 0
        for array in arrays.values():
            found = zlib.crc32(_bytes(array), found)
        if found != section.checksum:
            raise StoreError(
                f"the scratch file in {self._folder} was changed while it was in use: its checksum differs"
            )
        self._checked.add(section.begin)

    def _reserve(self, section: Section) -> None:
        """Find out that the disk is full now, and not when a page is written back."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file.fileno(), section.begin, section.size)
        else:
            os.truncate(self._file.fileno(), section.begin + section.size)

    def _write(self, data: memoryview, at: int) -> None:
        self._file.seek(at)
        self._file.write(data)
        self._file.flush()

    def _refused(self, what: str, error: OSError) -> StoreError:
        return StoreError(f"the scratch file in {self._folder} {what}: {error.strerror or error}")


def _bytes(array: AnyArray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _view(mapped: mmap.mmap, place: _Place) -> AnyArray:
    count = int(np.prod(place.shape, dtype=np.int64))
    if not count:
        return np.empty(place.shape, dtype=place.dtype)
    return np.frombuffer(mapped, place.dtype, count, place.begin).reshape(place.shape)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
