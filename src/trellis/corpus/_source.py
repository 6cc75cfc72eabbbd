r"""The ground under every reader: text in big blocks of whole lines, and errors that name file and line.

Only ``\n`` and ``\r\n`` end a line. NEL, U+2028, NBSP and their kin are characters like any other, which is
why nothing here calls `str.splitlines` or a bare `str.split`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from trellis.corpus._errors import CorpusError
from trellis.corpus._files import StrPath, get_codec, open_input, read_block
from trellis.errors import DataError

OnError = Literal["raise", "skip"]

_BLOCK = 1 << 20
_KEPT_ERRORS = 100
_BLANK_LINE = re.compile(r"(?m)^[ \t]+$")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


@dataclass(slots=True)
class Report:
    """What a reader took a file for, what it passed over by design, and what it skipped when asked to."""

    format: str = ""
    reason: str = ""
    """Why that format: given, or what in the name or content told."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Lines that are no data in the format: comments, document marks, multiword ranges, empty nodes."""
    skipped: int = 0
    """Sentences left out for an error, with ``on_error="skip"``."""
    errors: list[CorpusError] = field(default_factory=list)
    """The first hundred of their errors."""


class Source:
    """One file being read, once: its decoded blocks, and the place where its errors are raised or counted."""

    def __init__(self, path: StrPath, *, encoding: str = "utf-8", on_error: OnError = "raise") -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
        self.path = path
        self.name = "<stdin>" if os.fspath(path) == "-" else os.fspath(path)
        self.on_error = on_error
        self.report = Report()
        self._codec = get_codec(encoding)
        self._encoding = encoding
        blocks = self._read_blocks()
        first = next(blocks, None)
        self.head = first[1] if first else ""
        """The first block: what a format is guessed from, and a layout taken from."""
        self._blocks = chain([first] if first else [], blocks)

    def fail(self, problem: str, line: int, text: str, whole: str | None = None) -> None:
        """Raise the error, or with ``on_error="skip"`` count it and return; `whole` is what goes with the line."""
        error = CorpusError(problem, path=self.name, line=line, text=text, whole=whole)
        if self.on_error == "raise":
            raise error
        self.report.skipped += 1
        if len(self.report.errors) < _KEPT_ERRORS:
            self.report.errors.append(error)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each line with its number."""
        for first, block, undecoded in self._blocks:
            for number, line in enumerate(block.removesuffix("\n").split("\n"), first):
                if undecoded and self._fails_to_decode(number, line):
                    continue
                yield number, line

    def paragraphs(self) -> Iterator[tuple[range, str]]:
        """The lines between blank ones (empty, or of spaces and tabs), with their numbers."""
        number, carry, carry_undecoded = 1, "", False
        for _, block, undecoded in self._blocks:
            undecoded |= carry_undecoded
            whole, gap, carry = _without_blanks(carry + block).rpartition("\n\n")
            carry_undecoded = undecoded
            if gap:
                number = yield from self._split(number, whole, undecoded)
        yield from self._split(number, carry, carry_undecoded)

    def _split(self, number: int, text: str, undecoded: bool) -> Generator[tuple[range, str], None, int]:
        """The paragraphs of a text that starts at line `number`; returns the number after it and a blank line."""
        for piece in text.split("\n\n"):
            first, last = number, number + piece.count("\n")
            number = last + 2
            if piece[:1] == "\n" or piece[-1:] == "\n":
                first += len(piece) - len(piece.lstrip("\n"))
                last -= len(piece) - len(piece.rstrip("\n"))
                piece = piece.strip("\n")
            if piece and not (undecoded and self._fails_to_decode(first, piece)):
                yield range(first, last + 1), piece
        return number

    def _fails_to_decode(self, first: int, text: str) -> bool:
        bad = _ESCAPED_BYTE.search(text)
        if bad is None:
            return False
        start = text.rfind("\n", 0, bad.start()) + 1
        line = text[start:].partition("\n")[0]
        shown = line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        byte = ord(text[bad.start()]) - 0xDC00
        place = f"byte 0x{byte:02x} at character {bad.start() - start + 1}"
        problem = f"expected text in {self._encoding}, found {place}; pass the right encoding"
        self.fail(problem, first + text.count("\n", 0, start), shown, whole=text)
        return True

    def _read_blocks(self) -> Iterator[tuple[int, str, bool]]:
        """(number of the first line, whole lines, whether some bytes did not decode)."""
        line = 1
        pending: list[str] = []
        for text in self._read_text():
            lines, newline, rest = text.rpartition("\n")
            if newline:
                block = "".join([*pending, lines, newline])
                yield line, _with_newlines(block), _undecoded(block)
                line += block.count("\n")
                pending = []
            pending.append(rest)
        block = "".join(pending).removesuffix("\r")
        if block:
            yield line, block, _undecoded(block)

    def _read_text(self) -> Iterator[str]:
        """Decoded text without the byte-order mark; a byte that does not decode becomes a lone surrogate."""
        assert self._codec.incrementaldecoder is not None
        decoder = self._codec.incrementaldecoder("surrogateescape")
        first = True
        with open_input(self.path) as file:
            while True:
                data = read_block(file, self.name, _BLOCK)
                try:
                    text = decoder.decode(data, final=not data)
                except UnicodeError as error:
                    raise DataError(f"{self.name}: not {self._encoding}: {error}") from error
                yield text.removeprefix("\ufeff") if first else text
                first = first and not text
                if not data:
                    return


def _undecoded(text: str) -> bool:
    """Whether the text holds a surrogate, which only an undecodable byte leaves behind."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n") if "\r" in text else text


def _without_blanks(text: str) -> str:
    """Lines of nothing but spaces and tabs made empty; looked for only where a line starts with one."""
    if text[:1] in (" ", "\t") or "\n\t" in text or "\n " in text:
        return _BLANK_LINE.sub("", text)
    return text
