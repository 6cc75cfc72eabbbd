"""Opening: a file is read once, from its header to its last byte, and everything it says about itself is checked."""

from __future__ import annotations

import math
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from trellis.arrays import AnyArray
from trellis.errors import NewerFormatError, StoreError
from trellis.store.stored import Stored
from trellis.store.writing import DTYPES, FORMAT, checksum, described
from trellis.untrusted import Fields, JSONSyntaxError, parse_json

_LONGEST_HEADER = 100_000_000
_MOST_DIMENSIONS = 32
_PIECE = 1 << 20  # bytes: they are read and their checksum is computed while they are in the cache


@dataclass(frozen=True, slots=True)
class _Entry:
    """An array as the header describes it, at the bytes ``start..stop`` after the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Header:
    kind: str
    manifest: Fields
    checks: Fields
    entries: list[_Entry]
    """One after another, without gaps."""


def load(path: str | Path, kind: str | None = None, *, verify: bool = True) -> Stored:
    """Read a file into memory; a file that is damaged, foreign or of another kind is a `StoreError`.

    ``verify=False`` skips the comparison of the arrays with their checksums.
    """
    with _opened(path) as (file, size):
        header = _header(file, size, str(path), kind)
        data = _memory(header.entries[-1].stop if header.entries else 0, path)
        arrays = {}
        for entry in header.entries:
            crc = _fill(file, data[entry.start : entry.stop], described(entry.dtype.str, entry.shape), verify, path)
            if verify and header.checks.values.get(entry.name) != crc:
                raise _damaged(path, f"the bytes of array {entry.name!r} do not have the checksum saved with them")
            arrays[entry.name] = _array(entry, data)
    return Stored(str(path), header.kind, header.manifest, arrays)


def read_manifest(path: str | Path, kind: str | None = None) -> Fields:
    """What a file says about itself; its arrays are not read."""
    with _opened(path) as (file, size):
        return _header(file, size, str(path), kind).manifest


def read_kind(path: str | Path) -> str:
    """The kind of model that a file claims to hold; its arrays are not read."""
    with _opened(path) as (file, size):
        return _header(file, size, str(path), None).kind


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[FileIO, int]]:
    """The file and its size; anything but a file, such as a pipe that nobody writes to, is not even opened."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise StoreError(f"{path} cannot be opened: it is not a file")
        with open(path, "rb", buffering=0) as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror or error}") from None


def _header(file: FileIO, size: int, path: str, kind: str | None) -> _Header:
    values = Fields(_header_values(file, size, path), f"{path} is damaged: its header")
    content = _content(path, values)
    if kind is not None and content.text("kind") != kind:
        raise StoreError(f"{path} holds a model of kind {content.text('kind')!r}, expected {kind!r}")
    own = content.value("manifest", dict)
    begin = file.tell()
    entries = [_entry(path, values.table(name), name, size - begin) for name in values.values]
    return _Header(
        content.text("kind"),
        Fields(own, f"{path}: the manifest"),
        content.table("crc32"),
        _one_after_another(path, entries, size - begin),
    )


def _header_values(file: FileIO, size: int, path: str) -> Any:
    if size < 8:
        raise StoreError(f"{path} is not a saved model: {size} bytes, too short for a header")
    length = int.from_bytes(_bytes(file, 8, path), "little")
    foreign = f"{path} is not a saved model of Trellis"
    if length > _LONGEST_HEADER:
        raise StoreError(f"{foreign}: it does not begin with a safetensors header")
    text = _bytes(file, min(length, size - 8), path)
    if text[:1] != b"{":
        raise StoreError(f"{foreign}: it does not begin with a safetensors header")
    if len(text) < length:
        raise StoreError(f"{path} is truncated: its header needs {8 + length} bytes, the file has {size}")
    try:
        return parse_json(text)
    except JSONSyntaxError as error:
        raise _damaged(path, f"its header is not JSON: {error}") from None


def _content(path: str, header: Fields) -> Fields:
    """What Trellis wrote into the header; it is removed from it."""
    metadata = header.values.pop("__metadata__", None)
    text = metadata.get("trellis") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise StoreError(f"{path} is a safetensors file, but not a model saved by Trellis: it has no manifest")
    crc, _, text = text.partition(" ")
    try:
        if crc != checksum(text):
            raise _damaged(path, "its manifest does not have the checksum saved with it")
        content = Fields(parse_json(text), f"{path} is damaged: its manifest")
    except JSONSyntaxError as error:
        raise _damaged(path, f"its manifest is not JSON: {error}") from None
    version = content.value("format", int)
    if version > FORMAT:
        raise NewerFormatError.of(path, version, FORMAT)
    if version != FORMAT:
        raise StoreError(f"{path} has format {version}; this version of Trellis reads format {FORMAT}")
    return content


def _entry(path: str, fields: Fields, name: str, size: int) -> _Entry:
    """The description of an array; its shape and its bytes must agree. Python's numbers do not overflow."""
    dtype = np.dtype(DTYPES[fields.choice("dtype", DTYPES)])
    shape = fields.integers("shape", 0, np.iinfo(np.int64).max)
    places = fields.integers("data_offsets", 0, np.iinfo(np.int64).max)
    if len(places) != 2 or places[0] > places[1] or len(shape) > _MOST_DIMENSIONS:
        raise _damaged(path, f"its header describes array {name!r} by shape {shape} and offsets {places}")
    if places[1] > size:
        raise StoreError(f"{path} is truncated: array {name!r} ends at byte {places[1]} of {size}")
    if math.prod(shape) * dtype.itemsize != places[1] - places[0]:
        raise _damaged(path, f"array {name!r} of shape {shape} has {places[1] - places[0]} bytes")
    # An array without elements may still have a dimension too large for NumPy.
    if math.prod(side for side in shape if side) * dtype.itemsize > np.iinfo(np.int64).max:
        raise _damaged(path, f"array {name!r} has the impossible shape {shape}")
    return _Entry(name, dtype, shape, *places)


def _one_after_another(path: str, entries: list[_Entry], size: int) -> list[_Entry]:
    """The entries by their places, if these leave no gap and do not overlap."""
    ordered = sorted(entries, key=lambda entry: (entry.start, entry.stop))
    end = 0
    for entry in ordered:
        if entry.start != end:
            raise _damaged(path, f"array {entry.name!r} begins at byte {entry.start}, expected {end}")
        end = entry.stop
    if end != size:
        raise _damaged(path, f"its arrays end at byte {end} of {size}")
    return ordered


def _memory(size: int, path: str | Path) -> AnyArray:
    try:
        return np.empty(size, np.uint8)
    except MemoryError:
        raise StoreError(f"{path} cannot be opened: its arrays need {size} bytes of memory") from None


def _bytes(file: FileIO, count: int, path: str | Path) -> bytes:
    data = _memory(count, path)
    _fill(file, data, 0, False, path)
    return data.tobytes()


def _fill(file: FileIO, data: AnyArray, crc: int, verify: bool, path: str | Path) -> int:
    """Read as many bytes as there is room for; returns their checksum, continued from `crc`, if it is wanted."""
    view = data.data
    done = 0
    while done < len(view):
        count = file.readinto(view[done : done + _PIECE])
        if not count:
            raise StoreError(f"{path} is truncated: it became shorter while it was read")
        if verify:
            crc = zlib.crc32(view[done : done + count], crc)
        done += count
    return crc


def _array(entry: _Entry, data: AnyArray) -> AnyArray:
    """The array, read-only; copied if it is not aligned."""
    array = data[entry.start : entry.stop].view(entry.dtype).reshape(entry.shape)
    array = array if array.flags.aligned else array.copy()
    array.flags.writeable = False
    return array


def _damaged(path: str | Path, problem: str) -> StoreError:
    return StoreError(f"{path} is damaged: {problem}")
