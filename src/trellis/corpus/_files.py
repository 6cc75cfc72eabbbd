"""Bytes in and out: plain or compressed files by suffix, and ``-`` for standard input and output."""

from __future__ import annotations

import codecs
import lzma
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from trellis.corpus._compression import SUFFIXES, packed, unpacked
from trellis.errors import DataError
from trellis.files import replacing

StrPath = str | os.PathLike[str]


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
    place = _device(name) if _is_device(name) else replacing(target, DataError)
    with place as writable, open(writable, "wb") as raw, packed(raw, suffix, name) as file:
        yield file


def _is_device(name: str) -> bool:
    """Whether it is a pipe or a device, which is written into: a file must not take its place."""
    return os.path.exists(name) and not os.path.isfile(name)


@contextmanager
def _device(name: str) -> Iterator[Path]:
    try:
        yield Path(name)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise DataError(f"{name} cannot be written: {problem.strerror or problem}") from None
