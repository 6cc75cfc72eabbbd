"""Bytes in and out: plain or compressed files by suffix, and ``-`` for standard input and output."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from trellis.errors import DataError

StrPath = str | os.PathLike[str]


def _zstandard(path: str) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise DataError(f"{path}: zstd files need zstandard: pip install trellis[zstd]") from error
    return zstandard


class _ZstdInput(io.RawIOBase):
    """Frames one after another, and an error for a last frame that is cut off.

    `zstandard.open` ends without a word there, which would lose the rest of a corpus silently.
    """

    def __init__(self, path: str) -> None:
        self._library = _zstandard(path)
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        self._frame: Any = None

    def read(self, size: int = -1) -> bytes:
        while block := self._file.read(size):
            if data := self._decompress(block):
                return data
        if self._frame is not None:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        return b""

    def _decompress(self, block: bytes) -> bytes:
        parts = []
        while block:
            if self._frame is None:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                parts.append(self._frame.decompress(block))
            except self._library.ZstdError as error:
                raise OSError(f"Not a zstd file: {error}") from error
            block = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_zstd(path: str, mode: str) -> Any:
    return _ZstdInput(path) if mode == "rb" else _zstandard(path).open(path, mode)


_OPENERS: dict[str, Any] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}


def split_suffixes(path: StrPath) -> tuple[str, str]:
    """The suffix that tells the format and the one that tells the compression: ``.conll`` and ``.gz``."""
    stem, suffix = os.path.splitext(os.fspath(path).lower())
    if suffix in _OPENERS:
        return os.path.splitext(stem)[1], suffix
    return suffix, ""


@contextmanager
def open_input(path: StrPath) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed; standard input for ``-``, which is left open."""
    if os.fspath(path) == "-":
        yield sys.stdin.buffer
        return
    opener = _OPENERS.get(split_suffixes(path)[1], open)
    try:
        file = opener(os.fspath(path), "rb")
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: {error.strerror or error}") from error
    with file:
        yield file


def read_block(file: IO[bytes], name: str, size: int) -> bytes:
    """The next bytes, or an error that names the file where a compressed stream is broken or cut off."""
    try:
        return file.read(size)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name}: {error}") from error


def get_codec(encoding: str) -> codecs.CodecInfo:
    """The codec of that name, which must be able to work piece by piece."""
    try:
        codec = codecs.lookup(encoding)
    except LookupError as error:
        raise DataError(f"unknown encoding {encoding!r}") from error
    if codec.incrementaldecoder is None or codec.incrementalencoder is None:
        raise DataError(f"the encoding {encoding!r} is not one for files of text")
    return codec


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
    if os.fspath(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    opener = _OPENERS.get(split_suffixes(path)[1], open)
    try:
        try:
            file = opener(os.fspath(partial), "wb")
        except OSError as error:
            raise DataError(f"{os.fspath(path)}: {error.strerror or error}") from error
        with file:
            yield file
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
