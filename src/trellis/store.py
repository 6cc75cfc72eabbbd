"""Saved models: one safetensors file with arrays, and a JSON manifest in its header.

    bytes 0..7     length of the header
    header         JSON: name, dtype, shape and place of each array; under __metadata__.trellis a CRC and the manifest
    the rest       the arrays, used where they lie (memory-mapped): opening a model copies nothing

The manifest says what the file is: ``format`` (the version of this layout), ``kind`` (which model), and whatever the
model adds; a CRC of each array tells damage from data. Nothing is ever pickled, and a file appears under its
name only once it is whole.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis import files
from trellis.aligned import plain_array
from trellis.errors import StoreError

FORMAT = 1
"""The version that is written; versions up to it are read."""

Array = npt.NDArray[Any]
_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1"}
_CODES = {np.dtype(dtype).name: code for code, dtype in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds: the manifest's own entries and the arrays, which lie in the mapped file."""

    kind: str
    manifest: dict[str, Any]
    arrays: dict[str, Array]


def save(path: str | Path, kind: str, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a file of this kind, all or nothing."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    checks = {name: _crc(array) for name, array in plain.items()}
    text = json.dumps({"format": FORMAT, "kind": kind, "crc32": checks, "manifest": dict(manifest)}, ensure_ascii=False)
    # The widest numbers first, so that each array begins at a multiple of its items' size.
    order = sorted(plain, key=lambda name: (-plain[name].itemsize, name))
    header = _packed_header(f"{_text_crc(text)} {text}", {name: plain[name] for name in order})
    # Written here and not by safetensors, whose own temporary files a kill would leave behind under any name.
    with files.replacing(path) as partial, open(partial, "wb") as file:
        file.write(header)
        for name in order:
            file.write(plain[name].reshape(-1).view(np.uint8).data)


def load(path: str | Path, kind: str | None = None, *, verify: bool = True) -> Stored:
    """Open a file; one of another kind than asked for, damaged or foreign is a `StoreError`.

    ``verify=False`` leaves the arrays' bytes unread until they are used.
    """
    data = _map(path)
    header, begin = _header(path, data)
    content = _content(path, header)
    if kind is not None and content["kind"] != kind:
        raise StoreError(f"{path} holds a model of kind {content['kind']!r}, expected {kind!r}")
    arrays = {name: _array(path, data, begin, name, entry) for name, entry in header.items()}
    if verify:
        for name, array in arrays.items():
            if content["crc32"].get(name) != _crc(array):
                raise StoreError(
                    f"{path} is damaged: the bytes of array {name!r} do not have the checksum saved with them"
                )
    return Stored(content["kind"], content["manifest"], arrays)


def pack_strings(name: str, strings: Sequence[str]) -> dict[str, Array]:
    """Strings as two arrays, their bytes and where each ends: any string, lone surrogates too."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.ends": ends}


def unpack_strings(name: str, arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """The inverse of `pack_strings`."""
    try:
        data, ends = arrays[f"{name}.bytes"].tobytes(), arrays[f"{name}.ends"].tolist()
        return tuple(data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise([0, *ends]))
    except (KeyError, UnicodeDecodeError):
        raise StoreError(f"the saved model's strings {name!r} are missing or damaged") from None


def _packed_header(text: str, arrays: Mapping[str, Array]) -> bytes:
    """The first bytes of a file: how long the header is, and the header, filled up with spaces to a multiple of 8."""
    entries: dict[str, Any] = {"__metadata__": {"trellis": text}}
    end = 0
    for name, array in arrays.items():
        if array.dtype.name not in _CODES or not array.dtype.isnative:
            raise StoreError(f"array {name!r} is of type {array.dtype}: a saved model holds {', '.join(_CODES)}")
        begin, end = end, end + array.nbytes
        entries[name] = {"dtype": _CODES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
    header = json.dumps(entries, ensure_ascii=False).encode("utf-8", "surrogatepass")
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def _crc(array: Array) -> int:
    """Checksum of type, shape and bytes."""
    described = zlib.crc32(f"{array.dtype.str}{array.shape}".encode())
    return zlib.crc32(array.reshape(-1).view(np.uint8).data, described) if array.size else described


def _text_crc(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _map(path: str | Path) -> memoryview:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise StoreError(f"{path} is not a saved model: {size} bytes, too short for a header")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None


def _header(path: str | Path, data: memoryview) -> tuple[dict[str, Any], int]:
    """The header's entries and where the arrays begin."""
    length = int.from_bytes(data[:8], "little")
    foreign = f"{path} is not a saved model of Trellis"
    if length > _LONGEST_HEADER or bytes(data[8:9]) != b"{":
        raise StoreError(f"{foreign}: it does not begin with a safetensors header")
    if 8 + length > len(data):
        raise StoreError(f"{path} is truncated: its header needs {8 + length} bytes, the file has {len(data)}")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
    except ValueError:
        raise StoreError(f"{path} is damaged: its header is not JSON") from None
    if not isinstance(header, dict):
        raise StoreError(f"{foreign}: its header is not a table")
    return header, 8 + length


def _content(path: str | Path, header: dict[str, Any]) -> dict[str, Any]:
    """What Trellis wrote into the header, which is taken out of it."""
    metadata = header.pop("__metadata__", {})
    text = metadata.get("trellis") if isinstance(metadata, dict) else None
    if text is None:
        raise StoreError(f"{path} is a safetensors file, but not a model saved by Trellis: it has no manifest")
    crc, _, text = str(text).partition(" ")
    try:
        content = json.loads(text)
        version = content["format"]
        if crc != _text_crc(text):
            raise ValueError
        complete = {"kind": str, "crc32": dict, "manifest": dict}
        if not all(isinstance(content[key], kind) for key, kind in complete.items()):
            raise TypeError
    except (ValueError, TypeError, KeyError):
        raise StoreError(f"{path} is damaged: its manifest cannot be read") from None
    if version != FORMAT:
        raise StoreError(f"{path} has format {version}; this version of Trellis reads format {FORMAT}")
    return dict(content)


def _array(path: str | Path, data: memoryview, begin: int, name: str, entry: Any) -> Array:
    try:
        dtype, shape, (start, stop) = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{path} is damaged: its header describes array {name!r} in no known way") from None
    if begin + stop > len(data):
        raise StoreError(f"{path} is truncated: array {name!r} ends at byte {begin + stop}, the file at {len(data)}")
    count = int(np.prod(shape))
    if count * dtype.itemsize != stop - start:
        raise StoreError(f"{path} is damaged: array {name!r} of shape {shape} has {stop - start} bytes")
    return plain_array(np.frombuffer(data, dtype=dtype, count=count, offset=begin + start)).reshape(shape)
