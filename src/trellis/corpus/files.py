"""Bytes in and out: plain or compressed files by suffix, and ``-`` for standard input and output.

Compressed files are read piece by piece: however much a stream unpacks to, no more than a few megabytes of it are in
memory. Streams may follow each other in one file. One that is cut off is an error, as is anything behind the last that
is not zeros: readers of the standard library and of zstandard end there without a word, which would lose the rest of a
corpus silently.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from trellis.errors import DataError
from trellis.files import replacing

StrPath = str | os.PathLike[str]

# What a stream may ask for to look back on: xz -9 asks for 64 MiB, zstd --long for 128.
_WINDOW = 1 << 27
_PIECE = 1 << 17
# zstandard cannot be told how much to give: it gives all that its input unpacks to, up to 128 KiB for four bytes.
_LEAST_INPUT, _MOST_INPUT = 32, 256
_CUT_OFF = "Compressed file ended before the end-of-stream marker was reached"


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
        data = decompressor.unused_data.lstrip(b"\0")
        while not data and (padding := file.read(_PIECE)):
            data = padding.lstrip(b"\0")


def _zstd_frames(file: IO[bytes], library: Any) -> Iterator[bytes]:
    """The content of zstd frames one after another; few bytes are unpacked at a time, the fewer the more they give."""
    decompressor = library.ZstdDecompressor(max_window_size=_WINDOW)
    data = file.read(_PIECE)
    while data:
        frame = decompressor.decompressobj()
        start, size = 0, _LEAST_INPUT
        while not frame.eof:
            if start >= len(data):
                data, start = file.read(_PIECE), 0
                if not data:
                    raise EOFError(_CUT_OFF)
            try:
                piece = frame.decompress(data[start : start + size])
            except library.ZstdError as error:
                raise OSError(f"this zstd stream cannot be read: {error}") from None
            yield piece
            start += size
            size = min(2 * size, _MOST_INPUT) if len(piece) < _PIECE else _LEAST_INPUT
        data = frame.unused_data + data[start:] or file.read(_PIECE)


# Suffix -> readers and writers of what lies packed in another file, which they leave open.
_READERS: dict[str, Callable[[IO[bytes], str], Any]] = {
    ".gz": lambda file, path: gzip.GzipFile("", "rb", fileobj=file),
    ".bz2": lambda file, path: _Unpacked(_streams(file, bz2.BZ2Decompressor)),
    ".xz": lambda file, path: _Unpacked(
        _streams(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_WINDOW))
    ),
    ".zst": lambda file, path: _Unpacked(_zstd_frames(file, _zstandard(path))),
}
_WRITERS: dict[str, Callable[[IO[bytes], str], Any]] = {
    # Neither a name nor a time: what is written depends on the content alone.
    ".gz": lambda file, path: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": lambda file, path: bz2.BZ2File(file, "wb"),
    ".xz": lambda file, path: lzma.LZMAFile(file, "wb"),  # noqa: SIM115 - for the caller to close
    ".zst": lambda file, path: _zstandard(path).ZstdCompressor().stream_writer(file, closefd=False),
}
SUFFIXES = tuple(_READERS)


def unpacked(file: IO[bytes], suffix: str, path: str) -> Any:
    """What a file of this suffix unpacks to, as a file; other files as they are. `path` is for messages."""
    return _READERS[suffix](file, path) if suffix in _READERS else file


def packed(file: IO[bytes], suffix: str, path: str) -> Any:
    """A file whose content goes compressed into another, which must be closed after it."""
    return _WRITERS[suffix](file, path) if suffix in _WRITERS else file


def split_suffixes(path: StrPath) -> tuple[str, str]:
    """The suffix that tells the format and the one that tells the compression: ``.conll`` and ``.gz``."""
    stem, suffix = os.path.splitext(os.fspath(path).lower())
    if suffix in SUFFIXES:
        return os.path.splitext(stem)[1], suffix
    return suffix, ""


@contextmanager
def open_input(path: StrPath) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed; standard input for ``-``, which is left open."""
    if os.fspath(path) == "-":
        yield sys.stdin.buffer
        return
    name = os.fspath(path)
    try:
        raw = open(name, "rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise DataError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    with raw, unpacked(raw, split_suffixes(path)[1], name) as file:
        yield file


def read_block(file: IO[bytes], name: str, size: int) -> bytes:
    """The next bytes, or an error that names the file where a compressed stream is broken or cut off."""
    try:
        return file.read(size)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name}: {error}") from error


def get_codec(encoding: str) -> codecs.CodecInfo:
    """The codec of that name, which must be one for text and able to work piece by piece."""
    try:
        codec = codecs.lookup(encoding)
    except (LookupError, ValueError, TypeError) as error:
        raise DataError(f"unknown encoding {encoding!r:.60}") from error
    if codec.incrementaldecoder is None or codec.incrementalencoder is None or not _is_for_text(codec):
        raise DataError(f"the encoding {encoding!r} is not one for files of text")
    return codec


def _is_for_text(codec: codecs.CodecInfo) -> bool:
    """Whether it turns bytes into text, with bytes that do not decode marked (idna and punycode cannot), and back."""
    assert codec.incrementaldecoder is not None
    assert codec.incrementalencoder is not None
    try:
        "".encode(codec.name)  # refuses codecs from text to text and from bytes to bytes
        return codec.incrementaldecoder("surrogateescape").decode(b"", final=True) == ""
    except (LookupError, UnicodeError):
        return False


def write_text(path: StrPath, texts: Iterable[str], encoding: str) -> None:
    """Write texts one after another; the file appears under its name only once it is whole."""
    encoder = get_codec(encoding).incrementalencoder
    assert encoder is not None
    encode = encoder().encode
    with open_output(path) as file:
        for number, text in enumerate(texts):
            # Readers take a first U+FEFF for the byte-order mark: where it is text, a mark goes before it.
            mark = "\ufeff" if number == 0 and text.startswith("\ufeff") else ""
            file.write(encode(mark + text))


@contextmanager
def open_output(path: StrPath) -> Iterator[IO[bytes]]:
    """A file to write, compressed by suffix, that appears under its name only once it is whole."""
    name, suffix = os.fspath(path), split_suffixes(path)[1]
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if "\0" in name or os.path.isdir(name):
        raise DataError(f"{name!r} cannot be written: expected the name of a file")
    target = os.path.realpath(name) if os.path.islink(name) else name  # a link goes on pointing there
    # A pipe or a device is written into: a file must not take its place.
    is_device = os.path.exists(name) and not os.path.isfile(name)
    place = _device(name) if is_device else replacing(target, DataError)
    with place as writable, open(writable, "wb") as raw, packed(raw, suffix, name) as file:
        yield file


@contextmanager
def _device(name: str) -> Iterator[Path]:
    try:
        yield Path(name)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise DataError(f"{name} cannot be written: {problem.strerror or problem}") from None
