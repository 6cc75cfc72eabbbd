r"""Files of text in and out: what every reader and writer of a format stands on.

A file is plain or compressed by its suffix, and ``-`` is standard input or output. Compressed files are read piece by
piece: however much a stream unpacks to, no more than a few megabytes of it are in memory. Streams may follow each other
in one file. One that is cut off is an error, as is anything behind the last that is not zeros: readers of the standard
library and of zstandard end there without a word, which would lose the rest of a corpus silently.

`Source` gives the text in big blocks of whole lines, with errors that name file and line. Only ``\n`` and ``\r\n`` end
a line. NEL, U+2028, NBSP and their kin are characters like any other, which is why nothing here calls `str.splitlines`
or a bare `str.split`. A line or a sentence of more than `LONGEST` characters is refused, so that memory stays bounded
whatever a file holds.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import inspect
import io
import lzma
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeVar

from trellis.corpus.sniff import DOCBIN, OFFICE, binary_kind, suggest_encoding
from trellis.errors import LONGEST_SHOWN, CorpusError, DataError, shortened, shown, some_of
from trellis.files import replacing
from trellis.lazy import cached
from trellis.tags import Scheme, Style, validate_tags
from trellis.text import Sentence
from trellis.untrusted import is_unicode

T = TypeVar("T")
StrPath = str | os.PathLike[str]
OnError = Literal["raise", "skip"]
Block = tuple[int, str, bool]
"""The number of its first line, whole lines, and whether surrogates mark some as unusable; see `Source.is_unusable`."""

SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
"""Suffixes of sheets that pandas reads."""
LONGEST = 1 << 26
"""Characters that a line, a record or a sentence may have."""
SHOWN = 10
"""Changes that are listed one by one."""
Column = int | str
"""A column of a file, by its number or its name."""

_BLOCK = 1 << 20
_OPENING = 1 << 12
_MOST_DROPPED = 16
_KEPT_ERRORS = 100
_KEPT_TEXT = 1000
_SIZE_OF_ERROR = 500
_BLANK_LINE = re.compile(r"(?m)^[ \t]+$")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PASS_ENCODING = "pass the right encoding"
_CUT = "\udfff"
"""Stands for the rest of a line that is too long."""

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


def unpacked(file: IO[bytes], suffix: str, path: str) -> Any:
    """A file of the unpacked content, if the suffix is one of compression. `path` is for messages."""
    match suffix:
        case ".gz":
            return gzip.GzipFile("", "rb", fileobj=file)
        case ".bz2":
            return _Unpacked(_streams(file, bz2.BZ2Decompressor))
        case ".xz":
            return _Unpacked(_streams(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_WINDOW)))
        case ".zst":
            return _Unpacked(_zstd_frames(file, _zstandard(path)))
    return file


def packed(file: IO[bytes], suffix: str, path: str) -> Any:
    """A file whose content goes compressed into another, which must be closed after it."""
    match suffix:
        case ".gz":  # neither a name nor a time: what is written depends on the content alone
            return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        case ".bz2":
            return bz2.BZ2File(file, "wb")
        case ".xz":
            return lzma.LZMAFile(file, "wb")
        case ".zst":
            return _zstandard(path).ZstdCompressor().stream_writer(file, closefd=False)
    return file


def split_suffixes(path: StrPath) -> tuple[str, str]:
    """The suffix that tells the format and the one that tells the compression: ``.conll`` and ``.gz``."""
    stem, suffix = os.path.splitext(os.fspath(path).lower())
    if suffix in (".gz", ".bz2", ".xz", ".zst"):
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


def is_brat_folder(path: StrPath) -> bool:
    """Whether this is a folder with annotations of brat."""
    return os.path.isdir(path) and any(Path(path).rglob("*.ann"))


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
    decoder, encoder = codec.incrementaldecoder, codec.incrementalencoder
    try:
        "".encode(codec.name)  # refuses codecs from text to text and from bytes to bytes
        # Bytes that do not decode must be marked, which idna and punycode cannot do.
        marks = decoder is not None and decoder("surrogateescape").decode(b"", final=True) == ""
    except (LookupError, UnicodeError):
        marks = False
    if not marks or encoder is None:
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
    name, suffix = os.fspath(path), split_suffixes(path)[1]
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if "\0" in name or os.path.isdir(name):
        raise DataError(f"{name!r} cannot be written: expected the name of a file")
    # A pipe or a device is written into: a file must not take its place.
    is_device = os.path.exists(name) and not os.path.isfile(name)
    target = nullcontext(Path(name)) if is_device else replacing(name, DataError)
    try:
        with target as writable, open(writable, "wb") as raw, packed(raw, suffix, name) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise DataError(f"{name} cannot be written: {problem.strerror or problem}") from None


@dataclass(slots=True)
class Changes:
    """Changes of one kind that a reader had to make: their number, and the first ten with their places."""

    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReadReport:
    """The format that a file was taken for, and everything in it that was passed over, skipped or changed."""

    format: str = ""
    reason: str = ""
    """Why that format: given, or what in the name or content told."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Lines that are no data in the format: comments, document marks, multiword ranges, empty nodes."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that are not gold, by reason: rejected, skipped or not approved by those who annotated them."""
    skipped: int = 0
    """Sentences left out for an error, with ``on_error="skip"``."""
    errors: list[CorpusError] = field(default_factory=list)
    """The first hundred of their errors, with the beginnings of their texts."""
    changed: dict[str, Changes] = field(default_factory=dict)
    """Changes that the reader had to make, by kind: tokens split at the edges of spans, say."""

    def change(self, kind: str, what: str) -> None:
        changes = self.changed.setdefault(kind, Changes())
        changes.count += 1
        if changes.count <= SHOWN:
            changes.first.append(what)

    def notes(self) -> list[str]:
        """Notes for people on everything left out or changed: one line per kind, below it the first ten changes."""
        notes = [f"left out {kind}: {count:,}" for kind, count in self.left_out.items()]
        if self.skipped:
            notes.append(f"{self.skipped:,} skipped, the first: {self.errors[0]}")
        for kind, changes in self.changed.items():
            notes += [f"{kind}: {changes.count:,}", *first_lines(changes.first, changes.count)]
        return notes


def first_lines(items: Sequence[str], count: int) -> list[str]:
    """The first ten items, each on an indented line, and how many of `count` are not shown."""
    more = [f"  and {count - SHOWN:,} more"] if count > SHOWN else []
    return [*(f"  {item}" for item in items[:SHOWN]), *more]


class Source:
    """One file being read, once: its decoded blocks, and the place where its errors are raised or counted.

    With `keep_broken`, what cannot be used is kept until `relayed` hands it on.
    """

    def __init__(
        self, path: StrPath, *, encoding: str = "utf-8", on_error: OnError = "raise", keep_broken: bool = False
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
        self.path = path
        self.name = "<stdin>" if os.fspath(path) == "-" else os.fspath(path)
        self.on_error = on_error
        self.report = ReadReport()
        self._codec = get_codec(encoding)
        self._encoding = encoding
        self._cut_lines: set[int] = set()
        self._advice: str | None = None
        self._broken: list[CorpusError] | None = [] if keep_broken else None
        self._broken_size = 0
        self.data: bytes | None = None
        """All bytes of a spaCy DocBin or a sheet of Excel, which have no text to be read."""
        self.folder = Path(self.path) if is_brat_folder(self.path) else None
        """The folder of brat that is read; no other format has folders."""
        texts = self._read_text() if self.folder is None else iter(())
        first: list[str] = []
        while sum(map(len, first)) < _OPENING and (text := next(texts, None)) is not None:
            first.append(text)
        self.opening = "".join(first)
        """The first pieces, which may end within a line: enough to tell an array from lines."""
        self._texts = chain(first, texts)
        self._blocks: Iterator[Block] = self._read_blocks()

    @cached
    def head(self) -> str:
        """The first block: what a format is guessed from, and a layout taken from."""
        first = next(self._blocks, None)
        self._blocks = chain([] if first is None else [first], self._blocks)
        return "" if first is None else first[1]

    def fail(self, problem: str, line: int, text: str, whole: str | None = None) -> None:
        """Raise the error, or with ``on_error="skip"`` count it and return; `whole` is what goes with the line."""
        error = CorpusError(problem, path=self.name, line=line, text=text, whole=whole)
        if self.on_error == "raise":
            raise error
        self.report.skipped += 1
        if len(self.report.errors) < _KEPT_ERRORS:
            self.report.errors.append(CorpusError(problem, path=self.name, line=line, text=text[:_KEPT_TEXT]))
        if self._broken is not None:
            self._broken.append(error)
            self._broken_size += len(error.whole) + _SIZE_OF_ERROR
            if self._broken_size > LONGEST:
                count = len(self._broken)
                raise DataError(f"{count:,} pieces in a row cannot be read: is it another format? The last: {error}")

    def relayed(self, items: Iterable[T]) -> Iterator[T | CorpusError]:
        """The items read from this file, with an error for each broken piece between them, in order."""
        for item in items:
            yield from self._take_broken()
            yield item
        yield from self._take_broken()

    def _take_broken(self) -> list[CorpusError]:
        broken, self._broken, self._broken_size = self._broken or [], [], 0
        return broken

    def beside(self, path: Path) -> Source:
        """Another file of the same folder, whose errors and changes are those of this one."""
        other = Source(path, encoding=self._encoding, on_error=self.on_error)
        other.report = self.report
        return other

    def decoded(self) -> str:
        """The whole text with its line ends as they are; what does not decode is an error."""
        data = Path(self.path).read_bytes()
        try:
            return data.decode(self._encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            like = suggest_encoding(data)
            advice = _PASS_ENCODING if like is None else f"it looks like {like}: --encoding {like}"
            problem = f"expected text in {self._encoding}, found {error.reason} at byte {error.start}"
            raise DataError(f"{self.name}: {problem}; {advice}") from None

    def texts(self) -> Iterator[str]:
        """The text in pieces that end anywhere; for a file that is not made of lines."""
        assert "head" not in vars(self), "the head is taken from the same pieces"
        return self._texts

    def lines(self) -> Iterator[tuple[int, str]]:
        for first, block, unusable in self._blocks:
            for number, line in enumerate(block.removesuffix("\n").split("\n"), first):
                if unusable and self.is_unusable(number, line):
                    continue
                yield number, line

    def paragraphs(self) -> Iterator[tuple[range, str]]:
        """The lines between blank ones (empty, or of spaces and tabs), with their numbers."""
        number, size = 1, 0
        held: list[str] = []  # lines from `number` on, since the last blank one, of together `size` characters
        unusable = lost = False  # lost: they belong to a sentence that is given up
        for _, block, bad in self._blocks:
            # Lines of nothing but spaces and tabs become empty; looked for only where a line starts with one.
            spaced = block[:1] in (" ", "\t") or "\n\t" in block or "\n " in block
            text = _BLANK_LINE.sub("", block) if spaced else block
            unusable |= bad
            end = text.rfind("\n\n") + 2  # behind the last blank line; the first line may be one, behind others
            if end == 1:
                end = 1 if held and text.startswith("\n") else 0
            if end:
                whole = "".join([*held, text[:end]]).removesuffix("\n\n")
                number = yield from self._split(number, whole, unusable, lost)
                held, size, unusable, lost = [], 0, bad, False
            if end < len(text):
                held.append(text[end:])
                size += len(text) - end
            if bad and self.on_error == "raise":
                self.is_unusable(number, "".join(held))  # now, and not when the sentence ends
            if size > LONGEST:
                number, lost = self._give_up(number, held, lost), True
                held, size = ["\n"], 1
        yield from self._split(number, "".join(held), unusable, lost)

    def is_unusable(self, first: int, text: str) -> bool:
        """Whether a text that starts at line `first` did not decode or is cut; if so, it is reported."""
        bad = _SURROGATE.search(text)
        if bad is None:
            return False
        start = text.rfind("\n", 0, bad.start()) + 1
        end = text.find("\n", start)
        line = text[start:] if end < 0 else text[start:end]
        number = first + text.count("\n", 0, start)
        if number in self._cut_lines:
            text, line = text.replace(_CUT, ""), line.replace(_CUT, "")
            self.fail(f"expected at most {LONGEST:,} characters on a line, found more", number, line, whole=text)
            return True
        is_byte = "\udc80" <= bad[0] <= "\udcff"
        shown = line.encode("utf-8", "surrogateescape" if is_byte else "backslashreplace")
        what = f"byte 0x{ord(bad[0]) - 0xDC00:02x}" if is_byte else f"the surrogate U+{ord(bad[0]):04X}"
        problem = f"expected text in {self._encoding}, found {what} at character {bad.start() - start + 1}"
        if self._advice is None:  # once per file
            opening = self.opening[: self.opening.rfind("\n") + 1]  # whole lines: their last character is not cut
            try:
                name = suggest_encoding((opening + text[:_BLOCK]).encode(self._encoding, "surrogateescape"))
            except UnicodeError:  # half a surrogate pair
                name = None
            like = f'it looks like {name}: --encoding {name} (in Python encoding="{name}")'
            self._advice = _PASS_ENCODING if name is None else like
        self.fail(f"{problem}; {self._advice}", number, shown.decode("utf-8", "backslashreplace"), whole=text)
        return True

    def _split(self, number: int, text: str, unusable: bool, lost: bool) -> Generator[tuple[range, str], None, int]:
        """The paragraphs of a text that starts at line `number`, the first only if it is not lost.

        Returns the number after the text and a blank line.
        """
        for piece in text.split("\n\n"):
            first, last = number, number + piece.count("\n")
            number = last + 2
            if piece[:1] == "\n" or piece[-1:] == "\n":
                first += len(piece) - len(piece.lstrip("\n"))
                last -= len(piece) - len(piece.rstrip("\n"))
                piece = piece.strip("\n")
            if piece and not lost and not (unusable and self.is_unusable(first, piece)):
                yield range(first, last + 1), piece
            lost = False
        return number

    def _give_up(self, number: int, held: list[str], lost: bool) -> int:
        """Report a sentence that is too long, once, and return the number of the last of the lines held."""
        if not lost:
            start = "".join(text[:_KEPT_TEXT] for text in held)
            first = number + len(start) - len(start.lstrip("\n"))
            line = start.lstrip("\n").partition("\n")[0]
            problem = f"expected a blank line within {LONGEST:,} characters from here, found none"
            self.fail(problem, first, line, whole=line)
        return number + sum(text.count("\n") for text in held) - 1

    def _read_blocks(self) -> Iterator[Block]:
        line, size = 1, 0
        pending: list[str] = []  # the beginning of a line, of `size` characters
        dropping = 0  # characters left to drop of a line that is too long: its beginning was passed on at once
        for text in self._texts:
            if dropping and "\n" not in text:
                dropping -= len(text)
                if dropping <= 0:  # a device may not end
                    problem = f"expected a line that ends, found more than {_MOST_DROPPED * LONGEST:,} characters"
                    raise DataError(f"{self.name}:{line - 1}: {problem}")
                continue
            if dropping:
                dropping, text = 0, text.partition("\n")[2]
            lines, newline, rest = text.rpartition("\n")
            if newline:
                block = "".join([*pending, lines, newline])
                yield line, block, not is_unicode(block)
                line += block.count("\n")
                pending, size = [], 0
            pending.append(rest)
            size += len(rest)
            if size > LONGEST:
                self._cut_lines.add(line)
                yield line, "".join(part[:_KEPT_TEXT] for part in pending)[:_KEPT_TEXT] + f"{_CUT}\n", True
                line, size, pending, dropping = line + 1, 0, [], _MOST_DROPPED * LONGEST
        block = "".join(pending)
        if block:
            yield line, block, not is_unicode(block)

    def _read_text(self) -> Iterator[str]:
        r"""Decoded text without its byte-order mark, with ``\n`` as line ends; what does not decode is a surrogate."""
        assert self._codec.incrementaldecoder is not None
        decoder = self._codec.incrementaldecoder("surrogateescape")
        first, count, held = True, 0, ""
        with open_input(self.path) as file:
            while True:
                data = read_block(file, self.name, _BLOCK)
                if not count and self._check_binary(data, file):
                    return
                count += len(data)
                try:
                    text = held + decoder.decode(data, final=not data)
                except UnicodeError as error:
                    problem = f"{self.name}: expected text in {self._encoding}"
                    if not isinstance(error, UnicodeDecodeError):
                        raise DataError(f"{problem}: {error}") from None
                    position = count - len(error.object) + error.start
                    raise DataError(f"{problem}, found {error.reason} at byte {position}; {_PASS_ENCODING}") from None
                held = "\r" if text.endswith("\r") else ""  # "\n" may follow
                text = text.removesuffix("\r")
                text = text.replace("\r\n", "\n") if "\r" in text else text
                yield text.removeprefix("\ufeff") if first else text
                first = first and not text
                if not data:
                    return

    def _check_binary(self, head: bytes, file: IO[bytes]) -> bool:
        """Refuse a file that is not text; a DocBin or a sheet of Excel is read whole, and then nothing is left."""
        if self._codec.name.startswith(("utf-16", "utf-32")) or (kind := binary_kind(head)) is None:
            return False
        if kind != DOCBIN and not (kind in OFFICE and split_suffixes(self.path)[0] in SHEETS):
            raise DataError(f"{self.name}: expected text, found {kind}")
        blocks = [head]
        while block := read_block(file, self.name, _BLOCK):
            blocks.append(block)
        self.data = b"".join(blocks)
        return True


class LineError(Exception):
    """A problem with a line, for the reader that knows file and number to report."""


class LeftOut(Exception):  # noqa: N818 - nothing is wrong
    """Raised for a record that is left out; its message is the reason under which the report counts it."""


def refuse(sentence: Sentence, problem: str) -> NoReturn:
    """Raise that a sentence cannot be written, saying where it came from or else how it begins."""
    where = sentence.where or f"sentence {shortened(' '.join(sentence.tokens[:LONGEST_SHOWN]))!r}"
    raise DataError(f"{where}: {problem}")


def refuse_tag(sentence: Sentence, position: int, tag: str, problem: str, number: int | None = None) -> NoReturn:
    """Raise what is wrong with a tag: with its line if there is one, or else as tag of sentence `number`."""
    line = sentence.line_of(position)
    if line is not None and sentence.path is not None:
        raise CorpusError(problem, path=sentence.path, line=line, text=f"{sentence.tokens[position]} {tag}")
    if number is None:
        refuse(sentence, problem)
    raise DataError(f"sentence {number}, position {position}: {problem}")


def refuse_illegal(sentence: Sentence, scheme: Scheme, style: Style = Style.PREFIX) -> None:
    """Raise the first step of the tags that the scheme forbids, with its line."""
    for violation in validate_tags(sentence.tags or (), scheme, style=style):
        problem = f"the tags are not legal {scheme.value}: {violation.reason}"
        refuse_tag(sentence, violation.position, violation.tag, problem)


def names_of(fields: Iterable[object]) -> str:
    """The names of fields, the first ten of them where there are more."""
    return some_of([shown(field) for field in islice(fields, 11)], 10) or "none"


def column_index(column: Column, names: Sequence[str]) -> int:
    """The number of a column that is given by its number or its name."""
    if isinstance(column, str) and column in names:
        return list(names).index(column)
    if isinstance(column, int) and -len(names) <= column < len(names):
        return column % len(names)
    raise LineError(f"unknown column {shown(column)}, expected one of {some_of([*map(shortened, names)], 10)}")


def check_options(function: Callable[..., Any], options: dict[str, Any], doing: str) -> None:
    """Refuse options that a reader or writer does not have."""
    parameters = inspect.signature(function).parameters.values()
    allowed = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in allowed:
            raise DataError(f"{doing} knows no option {name!r}, only {', '.join(allowed)}")
