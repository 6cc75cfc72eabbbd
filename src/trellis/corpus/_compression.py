"""Compressed files, piece by piece: however much a stream unpacks to, no more than a few megabytes of it are in memory.

Streams may follow each other in one file. One that is cut off is an error, as is anything behind the last that is not
zeros: readers of the standard library and `zstandard.open` end there without a word, which would lose the rest of a
corpus silently.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from typing import IO, Any

from trellis.errors import DataError

# What a stream may ask for to look back on: xz -9 asks for 64 MiB, zstd --long for 128.
_WINDOW = 1 << 27
_PIECE = 1 << 17
_CUT_OFF = "Compressed file ended before the end-of-stream marker was reached"

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_RLE_BLOCK = 1


def _zstandard(path: str) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise DataError(f"{path}: zstd files need zstandard: pip install 'trellis-crf[zstd]'") from error
    return zstandard


class _Unpacked(io.RawIOBase):
    """A file to read, from an iterator of its bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At least one byte unless the file ends; at most a piece more than `size`."""
        parts: list[bytes] = []
        total = 0
        while (size < 0 or total < size) and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            total += len(piece)
        return b"".join(parts)


def _streams(file: IO[bytes], make: Callable[[], Any]) -> Iterator[bytes]:
    """The content of bz2 or xz streams one after another, with zeros behind any of them passed over."""
    data = file.read(_PIECE)
    while data:
        decompressor = make()
        yield decompressor.decompress(data, _PIECE)
        while not decompressor.eof:
            data = file.read(_PIECE) if decompressor.needs_input else b""
            if decompressor.needs_input and not data:
                raise EOFError(_CUT_OFF)
            yield decompressor.decompress(data, _PIECE)
        data = _after_zeros(decompressor.unused_data, file)


def _after_zeros(data: bytes, file: IO[bytes]) -> bytes:
    while not (data := data.lstrip(b"\0")):
        data = file.read(_PIECE)
        if not data:
            break
    return data


def _zstd_frames(file: IO[bytes], library: Any) -> Iterator[bytes]:
    """The content of zstd frames one after another, a block of at most 128 KiB at a time (RFC 8878, section 3.1.1).

    The library cannot be told how much to give: fed with many bytes, it gives all that they unpack to.
    """
    decompressor = library.ZstdDecompressor(max_window_size=_WINDOW)
    while magic := file.read(4):
        if magic[1:] == _ZSTD_SKIPPABLE and magic[0] >> 4 == 5:
            _skip(file, int.from_bytes(_exactly(file, 4), "little"))
            continue
        if magic != _ZSTD_MAGIC:
            raise OSError("Not a zstd file")
        try:
            yield from _zstd_blocks(file, decompressor.decompressobj())
        except library.ZstdError as error:
            raise OSError(f"this zstd stream cannot be read: {error}") from None


def _zstd_blocks(file: IO[bytes], frame: Any) -> Iterator[bytes]:
    descriptor = _exactly(file, 1)
    dictionary, checksum, single, content = (descriptor[0] >> shift for shift in (0, 2, 5, 6))
    window = 0 if single & 1 else 1
    sizes = window + (0, 1, 2, 4)[dictionary & 3] + (1 - window, 2, 4, 8)[content]
    yield frame.decompress(_ZSTD_MAGIC + descriptor + _exactly(file, sizes))
    last = 0
    while not last:
        header = _exactly(file, 3)
        number = int.from_bytes(header, "little")
        last, kind, size = number & 1, number >> 1 & 3, number >> 3
        yield frame.decompress(header + _exactly(file, 1 if kind == _RLE_BLOCK else size))
    if checksum & 1:
        yield frame.decompress(_exactly(file, 4))


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError(_CUT_OFF)
    return data


def _skip(file: IO[bytes], size: int) -> None:
    while size:
        size -= len(_exactly(file, min(size, _PIECE)))


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_WINDOW)


def _read_zstd(file: IO[bytes], path: str) -> Any:
    return _Unpacked(_zstd_frames(file, _zstandard(path)))


def _write_zstd(file: IO[bytes], path: str) -> Any:
    return _zstandard(path).ZstdCompressor().stream_writer(file, closefd=False)


# Suffix -> readers and writers of what lies packed in another file, which they leave open.
_READERS: dict[str, Callable[[IO[bytes], str], Any]] = {
    ".gz": lambda file, path: gzip.GzipFile("", "rb", fileobj=file),
    ".bz2": lambda file, path: _Unpacked(_streams(file, bz2.BZ2Decompressor)),
    ".xz": lambda file, path: _Unpacked(_streams(file, _xz)),
    ".zst": _read_zstd,
}
_WRITERS: dict[str, Callable[[IO[bytes], str], Any]] = {
    # Neither a name nor a time: what is written depends on the content alone.
    ".gz": lambda file, path: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": lambda file, path: bz2.BZ2File(file, "wb"),
    ".xz": lambda file, path: lzma.LZMAFile(file, "wb"),  # noqa: SIM115 - for the caller to close
    ".zst": _write_zstd,
}
SUFFIXES = tuple(_READERS)


def unpacked(file: IO[bytes], suffix: str, path: str) -> Any:
    """What a file of this suffix unpacks to, as a file; other files as they are. `path` is for messages."""
    return _READERS[suffix](file, path) if suffix in _READERS else file


def packed(file: IO[bytes], suffix: str, path: str) -> Any:
    """A file whose content goes compressed into another, which must be closed after it."""
    return _WRITERS[suffix](file, path) if suffix in _WRITERS else file
