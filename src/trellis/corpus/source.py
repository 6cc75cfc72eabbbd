r"""The ground under every reader: text in big blocks of whole lines, and errors that name file and line.

Only ``\n`` and ``\r\n`` end a line. NEL, U+2028, NBSP and their kin are characters like any other, which is
why nothing here calls `str.splitlines` or a bare `str.split`.

A line or a sentence of more than `LONGEST` characters is refused, so that memory stays bounded whatever a file holds.
"""

from __future__ import annotations

import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import IO, Any, Literal, NoReturn, TypeVar

from trellis.corpus.files import StrPath, get_codec, open_input, read_block
from trellis.corpus.sniff import DOCBIN, binary_kind, suggest_encoding
from trellis.errors import LONGEST_SHOWN, CorpusError, DataError, shortened, shown
from trellis.lazy import cached
from trellis.tags import Scheme, Style, validate_tags
from trellis.text import Sentence

T = TypeVar("T")

OnError = Literal["raise", "skip"]
Block = tuple[int, str, bool]
"""The number of its first line, whole lines, and whether some of them cannot be used: see `Source.is_unusable`."""

LONGEST = 1 << 26
"""Characters that a line, a record or a sentence may have."""

_BLOCK = 1 << 20
_OPENING = 1 << 12
_MOST_DROPPED = 16
_KEPT_ERRORS = 100
_SHOWN = 10
_KEPT_TEXT = 1000
_SIZE_OF_ERROR = 500
_BLANK_LINE = re.compile(r"(?m)^[ \t]+$")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PASS_ENCODING = "pass the right encoding"
_CUT = "\udfff"
"""Stands for the rest of a line that is too long."""


@dataclass(slots=True)
class Listed:
    """Things that were done to the data: how many, and the first ten with their places."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """One more."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(what)


@dataclass(slots=True)
class ReadReport:
    """What a reader took a file for, what it passed over by design, and what it skipped when asked to."""

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
    changed: dict[str, Listed] = field(default_factory=dict)
    """What a reader had to change, by kind: tokens split at the edges of spans, say."""

    def change(self, kind: str, what: str) -> None:
        """Note one change."""
        self.changed.setdefault(kind, Listed()).add(what)

    def notes(self) -> list[str]:
        """What was left out or changed, for people: one line per kind, below it the first ten changes."""
        notes = [f"left out {kind}: {count:,}" for kind, count in self.left_out.items()]
        if self.skipped:
            notes.append(f"{self.skipped:,} skipped, the first: {self.errors[0]}")
        for kind, listed in self.changed.items():
            more = [f"  and {listed.count - _SHOWN:,} more"] if listed.count > _SHOWN else []
            notes += [f"{kind}: {listed.count:,}", *(f"  {what}" for what in listed.first), *more]
        return notes


class Source:
    """One file being read, once: its decoded blocks, and the place where its errors are raised or counted."""

    def __init__(self, path: StrPath, *, encoding: str = "utf-8", on_error: OnError = "raise") -> None:
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
        self.data: bytes | None = None
        """All bytes of a spaCy DocBin, which has no text to be read."""
        texts = self._read_text()
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
        if self.on_error == "raise":
            raise CorpusError(problem, path=self.name, line=line, text=text, whole=whole)
        self.report.skipped += 1
        if len(self.report.errors) < _KEPT_ERRORS:
            self.report.errors.append(CorpusError(problem, path=self.name, line=line, text=text[:_KEPT_TEXT]))

    def texts(self) -> Iterator[str]:
        """The text in pieces that end anywhere; for a file that is not made of lines."""
        assert "head" not in vars(self), "the head is taken from the same pieces"
        return self._texts

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each line with its number."""
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
            text = _without_blanks(block)
            unusable |= bad
            end = _after_last_gap(text, bool(held))
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
        found = f"byte 0x{ord(bad[0]) - 0xDC00:02x}" if is_byte else f"the surrogate U+{ord(bad[0]):04X}"
        problem = f"expected text in {self._encoding}, found {found} at character {bad.start() - start + 1}"
        self._advice = self._advice or self._advise(text)  # once per file
        self.fail(f"{problem}; {self._advice}", number, shown.decode("utf-8", "backslashreplace"), whole=text)
        return True

    def _advise(self, text: str) -> str:
        """How to give the right encoding, by name where the beginning of the file and this text show it."""
        start = self.opening[: self.opening.rfind("\n") + 1]  # whole lines: their last character is not cut
        try:
            name = suggest_encoding((start + text[:_BLOCK]).encode(self._encoding, "surrogateescape"))
        except UnicodeError:  # half a surrogate pair
            name = None
        if name is None:
            return _PASS_ENCODING
        return f'it looks like {name}: --encoding {name} (in Python encoding="{name}")'

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
            if dropping:
                dropping = self._drop(text, line - 1, dropping)
                text = "" if dropping else text.partition("\n")[2]
            lines, newline, rest = text.rpartition("\n")
            if newline:
                block = "".join([*pending, lines, newline])
                yield line, block, has_surrogates(block)
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
            yield line, block, has_surrogates(block)

    def _drop(self, text: str, line: int, left: int) -> int:
        """How much more of a line may be dropped after this text, 0 once the line has ended; a device may not end."""
        if "\n" in text:
            return 0
        if len(text) >= left:
            problem = f"expected a line that ends, found more than {_MOST_DROPPED * LONGEST:,} characters"
            raise DataError(f"{self.name}:{line}: {problem}")
        return left - len(text)

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
                    place = count - len(error.object) + error.start
                    raise DataError(f"{problem}, found {error.reason} at byte {place}; {_PASS_ENCODING}") from None
                held = "\r" if text.endswith("\r") else ""  # "\n" may follow
                text = text.removesuffix("\r")
                text = text.replace("\r\n", "\n") if "\r" in text else text
                yield text.removeprefix("\ufeff") if first else text
                first = first and not text
                if not data:
                    return

    def _check_binary(self, head: bytes, file: IO[bytes]) -> bool:
        """Refuse a file that is not text by its name; the bytes of a DocBin are taken, and then nothing is left."""
        if self._codec.name.startswith(("utf-16", "utf-32")) or (kind := binary_kind(head)) is None:
            return False
        if kind != DOCBIN:
            raise DataError(f"{self.name}: expected text, found {kind}")
        blocks = [head]
        while block := read_block(file, self.name, _BLOCK):
            blocks.append(block)
        self.data = b"".join(blocks)
        return True


def has_surrogates(text: str) -> bool:
    """Whether the text holds a surrogate, which no encoding gives: an undecodable byte, or the mark of a cut."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _without_blanks(text: str) -> str:
    """Lines of nothing but spaces and tabs made empty; looked for only where a line starts with one."""
    if text[:1] in (" ", "\t") or "\n\t" in text or "\n " in text:
        return _BLANK_LINE.sub("", text)
    return text


def _after_last_gap(text: str, follows: bool) -> int:
    """Where the last blank line ends, 0 without one; the first line counts if it follows others."""
    end = text.rfind("\n\n")
    if end >= 0:
        return end + 2
    return 1 if follows and text.startswith("\n") else 0


class RelayingSource(Source):
    """A file whose broken lines are kept for whoever wants to pass them on, in their order."""

    def __init__(self, path: str, *, encoding: str = "utf-8", on_error: OnError = "raise") -> None:
        self._broken: list[CorpusError] = []
        self._size = 0
        super().__init__(path, encoding=encoding, on_error=on_error)

    def fail(self, problem: str, line: int, text: str, whole: str | None = None) -> None:
        """Raise, or keep the error with the whole of what cannot be used, as long as not too much is kept."""
        super().fail(problem, line, text, whole)
        error = CorpusError(problem, path=self.name, line=line, text=text, whole=whole)
        self._broken.append(error)
        self._size += len(error.whole) + _SIZE_OF_ERROR
        if self._size > LONGEST:
            count = len(self._broken)
            raise DataError(f"{count:,} pieces in a row cannot be read: is it another format? The last: {error}")

    def relayed(self, items: Iterable[T]) -> Iterator[T | CorpusError]:
        """What is read from this file, with what is broken between it, in order."""
        for item in items:
            yield from self._take_broken()
            yield item
        yield from self._take_broken()

    def _take_broken(self) -> list[CorpusError]:
        """What was kept since the last time."""
        broken, self._broken, self._size = self._broken, [], 0
        return broken


class LineError(Exception):
    """What is wrong with a line, for the reader that knows file and number to report."""


class LeftOut(Exception):  # noqa: N818 - nothing is wrong
    """A record that is not gold, with the reason by which the report counts it."""


def refuse(sentence: Sentence, problem: str) -> NoReturn:
    """Raise that a sentence cannot be written, saying where it came from or else how it begins."""
    place = sentence.where or f"sentence {shortened(' '.join(sentence.tokens[:LONGEST_SHOWN]))!r}"
    raise DataError(f"{place}: {problem}")


def refuse_illegal(sentence: Sentence, scheme: Scheme, style: Style = Style.PREFIX) -> None:
    """Raise the first step of the tags that the scheme forbids, with its line."""
    for violation in validate_tags(sentence.tags or (), scheme, style=style):
        line = sentence.line_of(violation.position)
        problem = f"the tags are not legal {scheme.value}: {violation.reason}"
        if line is None or sentence.path is None:
            refuse(sentence, problem)
        text = f"{sentence.tokens[violation.position]} {violation.tag}"
        raise CorpusError(problem, path=sentence.path, line=line, text=text)


def names_of(fields: Iterable[object]) -> str:
    """The names of fields, the first ten of them where there are more."""
    names = [shown(field) for field in islice(fields, 11)]
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "") or "none"


def check_options(function: Callable[..., Any], options: dict[str, Any], doing: str) -> None:
    """Refuse options that a reader or writer does not have."""
    parameters = inspect.signature(function).parameters.values()
    allowed = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in allowed:
            raise DataError(f"{doing} knows no option {name!r}, only {', '.join(allowed)}")
