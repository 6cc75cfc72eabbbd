"""Saving: the layout of safetensors, written here since the library's own writer ignores the user's umask."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, Arrays
from trellis.errors import StoreError
from trellis.files import replacing

FORMAT = 1
"""The version that is written; versions up to it are read."""
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
"""The types of arrays that a file can hold: names of safetensors and of NumPy."""
NARROW = (np.uint8, np.uint16, np.uint32)
"""The types of small whole numbers, the narrowest first."""
_NAMES = {numpy: name for name, numpy in DTYPES.items()}
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair, which UTF-8 cannot encode


def save(path: str | Path, kind: str, manifest: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write a file of this kind, all or nothing."""
    # The widest numbers first, so that all are aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    plain = {name: _storable(name, arrays[name]) for name in order}
    header = _header(kind, manifest, plain)
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


def described(dtype: str, shape: tuple[int, ...]) -> int:
    """The checksum of an array's type and shape; the checksum of its bytes continues from it."""
    return zlib.crc32(f"{dtype}{shape}".encode())


def checksum(text: str) -> str:
    """The checksum of a manifest."""
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _header(kind: str, manifest: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """JSON, padded with blanks to a multiple of eight bytes."""
    checks = {name: zlib.crc32(bytes_of(a), described(a.dtype.str, a.shape)) for name, a in arrays.items()}
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
