"""Saved models: one safetensors file with arrays, and a JSON manifest in its header.

    bytes 0..7     length of the header
    header         JSON: name, dtype, shape and place of each array; under __metadata__.trellis a CRC and the manifest
    the rest       the arrays, one after another

The manifest says what the file is: ``format`` (the version of this layout), ``kind`` (which model), and what the model
adds; a CRC of each array reveals damage. Nothing is ever pickled, a file appears under its name only once it is whole,
and an opened file is in memory: what happens to it afterwards does not matter.

A file may come from anybody, so checksums prove nothing. `Stored` checks the type, shape and range of every array and
of every field of a manifest that is asked for. It has checked everything that native code or torch uses as an index.

Files have the layout of safetensors, written here since the library's own writer ignores the user's umask. A file is
read once, from its header to its last byte, and everything that it says about itself is checked.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import NewerFormatError, StoreError
from trellis.files import replacing
from trellis.untrusted import Fields, JSONSyntaxError, parse_json

__all__ = ["FORMAT", "NARROW", "Stored", "load", "narrowed", "pack_strings", "read_kind", "read_manifest", "save"]

FORMAT = 1
"""The version that is written and read."""
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
"""The types of arrays that a file can hold: names of safetensors and of NumPy."""
NARROW = (np.uint8, np.uint16, np.uint32)
"""The types of small whole numbers, the narrowest first."""
_NAMES = {numpy: name for name, numpy in DTYPES.items()}
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair, which UTF-8 cannot encode
_LONGEST_HEADER = 100_000_000
_MOST_DIMENSIONS = 32
_PIECE = 1 << 20  # bytes: they are read and their checksum is computed while they are in the cache
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
        """A manifest and arrays from memory; `where` stands for the file in messages."""
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
        dtypes = tuple(map(np.dtype, dtype if isinstance(dtype, tuple) else (dtype,)))
        expected = " or ".join(map(str, dtypes))
        if name not in self.arrays:
            raise self.refused(name, f"is missing: expected {expected} of shape {_shape_text(shape)}")
        array = self.arrays[name]
        if not shape and array.shape == (1,):  # numbers are stored like this
            array = array.reshape(())
        if array.dtype not in dtypes:
            raise self.refused(name, f"must be {expected}, got {array.dtype}")
        fits = array.ndim == len(shape) and all(a in (None, b) for a, b in zip(shape, array.shape, strict=True))
        if not fits:
            raise self.refused(name, f"must have the shape {_shape_text(shape)}, got {_shape_text(array.shape)}")
        if array.size and (array.dtype.kind == "f" or (low, high) != (None, None)):
            self._check_range(name, array, low, high)
        return array

    def ends(self, name: str, dtype: npt.DTypeLike, total: int) -> AnyArray:
        """Where the parts of `total` items end: the ends never decrease, and the last one is `total`."""
        ends = self.array(name, dtype, (None,), 0, total)
        # No differences are taken: those of hostile numbers overflow.
        falls = np.flatnonzero(ends[1:] < ends[:-1])
        if len(falls):
            raise self.refused(name, f"must never decrease, but does so after [{falls[0]}]")
        last = int(ends[-1]) if len(ends) else 0
        if last != total:
            raise self.refused(name, f"must end with {total}, got {last}")
        return ends

    def lengths(self, name: str, total: int, count: int | None = None) -> IntArray:
        """Where the parts of `total` items end, from their lengths, which may have any type that `narrowed` gives."""
        ends: IntArray = self.array(name, NARROW, (count,)).astype(np.int64)
        np.cumsum(ends, out=ends)  # in the type that it has: else NumPy takes 16 times as long
        last = int(ends[-1]) if len(ends) else 0  # of at most 2**32 each: no sum of what fits into memory wraps around
        if last != total:
            raise self.refused(name, f"must add up to {total}, got {last}")
        return ends

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

    def _check_range(self, name: str, array: AnyArray, low: float | None, high: float | None) -> None:
        """Two passes without a copy; NaN is both the smallest and the largest value of an array that contains it."""
        info = np.finfo(array.dtype) if array.dtype.kind == "f" else np.iinfo(array.dtype)
        least, most = info.min if low is None else low, info.max if high is None else high
        if array.min() >= least and array.max() <= most:
            return
        position = tuple(map(int, np.argwhere(~((array >= least) & (array <= most)))[0]))
        if high is None:
            limits = "be finite" if low is None else "be finite or -inf" if low == -np.inf else f"be at least {low}"
        else:
            limits = f"be at most {high}" if low is None else f"lie in {low}..{high}"
        raise self.refused(name, f"must {limits}, got {array[position]} at {list(position)}")


def _shape_text(shape: Iterable[int | None]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


def save(path: str | Path, kind: str, manifest: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write a file of this kind, all or nothing."""
    # The widest numbers first, so that all are aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    plain = {name: _storable(name, arrays[name]) for name in order}
    header = _written_header(kind, manifest, plain)
    with replacing(path) as partial, open(partial, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in plain.values():
            file.write(bytes_of(array))


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Strings as two arrays, their bytes and where each ends; any string is allowed, even with lone surrogates."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.ends": ends}


def narrowed(numbers: AnyArray) -> AnyArray:
    """Whole numbers from 0 up to 2**32 - 1 in the narrowest type that holds them all."""
    most = int(numbers.max(initial=0))
    return numbers.astype(next(kind for kind in NARROW if most <= np.iinfo(kind).max))


def _storable(name: str, array: AnyArray) -> AnyArray:
    if array.dtype.str not in _NAMES:
        raise StoreError(f"the array {name!r} cannot be stored: expected one of {', '.join(DTYPES)}, got {array.dtype}")
    return np.ascontiguousarray(array)


def bytes_of(array: AnyArray) -> memoryview:
    """The bytes of a contiguous array, not copied."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def layout_crc(dtype: str, shape: tuple[int, ...]) -> int:
    """CRC of an array's type and shape; the CRC of its bytes continues from it."""
    return zlib.crc32(f"{dtype}{shape}".encode())


def checksum(text: str) -> str:
    """The checksum of a manifest."""
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _written_header(kind: str, manifest: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """JSON, padded with blanks to a multiple of eight bytes."""
    checks = {name: zlib.crc32(bytes_of(a), layout_crc(a.dtype.str, a.shape)) for name, a in arrays.items()}
    text = _json({"format": FORMAT, "kind": kind, "crc32": checks, "manifest": dict(manifest)})
    header: dict[str, Any] = {"__metadata__": {"trellis": f"{checksum(text)} {text}"}}
    begin = 0
    for name, array in arrays.items():
        places = [begin, begin := begin + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype.str], "shape": list(array.shape), "data_offsets": places}
    encoded = _json(header).encode()
    return encoded + b" " * (-len(encoded) % 8)


def _json(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


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
            crc = _fill(file, data[entry.start : entry.stop], layout_crc(entry.dtype.str, entry.shape), verify, path)
            if verify and header.checks.values.get(entry.name) != crc:
                raise _damaged(path, f"the bytes of array {entry.name!r} do not have the checksum saved with them")
            array = data[entry.start : entry.stop].view(entry.dtype).reshape(entry.shape)
            array = array if array.flags.aligned else array.copy()
            array.flags.writeable = False
            arrays[entry.name] = array
    return Stored(str(path), header.kind, header.manifest, arrays)


def read_manifest(path: str | Path, kind: str | None = None) -> Fields:
    """The manifest of a file; its arrays are not read."""
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
    manifest = Fields(content.value("manifest", dict), f"{path}: the manifest")
    begin = file.tell()
    entries = [_entry(path, values.table(name), name, size - begin) for name in values.values]
    return _Header(
        content.text("kind"),
        manifest,
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
    """The fields that Trellis wrote into the header, which are removed from it."""
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
    """Room for so many bytes; from 4 MB on, NumPy asks for huge pages, with a hundredth of the page faults."""
    try:
        return np.empty(size if size < 1 << 21 else max(size, 1 << 22), np.uint8)[:size]
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


def _damaged(path: str | Path, problem: str) -> StoreError:
    return StoreError(f"{path} is damaged: {problem}")
