"""JSON Lines with tokens and tags: one object per line.

    {"tokens": ["Ada", "wrote"], "tags": ["B-PER", "O"], "pos": ["NNP", "VBD"], "text": "Ada wrote"}

Other lists of strings as long as the tokens are columns; ``text`` and ``offsets`` are kept; other fields are
not, unless `keep_fields` makes them the frame of the sentence.

Records are read as a stream, one per line (JSON Lines) or the elements of one array that is the whole file: of an
array, no more is held than the element that is being read and a block of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trellis.corpus import source as source_module
from trellis.corpus.rows import row_from_sentence, sentence_from_row
from trellis.corpus.sniff import is_array
from trellis.corpus.source import LineError, Source
from trellis.errors import DataError
from trellis.text import Sentence, located
from trellis.untrusted import JSONSyntaxError, is_unicode, parse_json, parse_json_prefix

_GAP = re.compile(r"[\s,]*")
# A string, whose brackets do not count; one that does not end takes the rest.
_STRING = r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)'
_SCALAR = re.compile(_STRING + r"|[^\s,\[\]{}]*", re.DOTALL)
_BRACKET = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
# An error counts the lines before it in all the text at hand, so little of it is at hand.
_PIECE = 1 << 16

Record = tuple[int, str, Any]
"""The number of its first line, its text, and its value."""


class RecordFields(dict[str, Any]):
    """All fields of a record, as the frame of its sentence: for those who write the record again."""


def read(
    source: Source,
    *,
    tokens: str = "tokens",
    tags: str | None = None,
    names: Sequence[str] | None = None,
    locate: bool = False,
    keep_fields: bool = False,
) -> Iterator[Sentence]:
    """Sentences; `tags` is the field of the tags (by default the first usual one), `names` spells ids.

    With `locate`, tokens of a record with a text get their offsets in it; it is an error if they are not there.
    """
    for number, line, record in records(source):
        if not isinstance(record, dict):
            source.fail("expected a JSON object", number, line)
            continue
        try:
            sentence = sentence_from_row(record, tokens, tags, names, path=source.name, lines=(number,))
            sentence = located(sentence) if locate else sentence
        except (LineError, DataError) as problem:
            source.fail(str(problem).removeprefix(f"{source.name}:{number}: "), number, line)
            continue
        yield replace(sentence, frame=RecordFields(record)) if keep_fields else sentence


def write(sentences: Iterable[Sentence], *, tags: str = "tags") -> Iterator[str]:
    """One object per line with what is known about each sentence."""
    for sentence in sentences:
        yield dumps(row_from_sentence(sentence, tags))


def records(source: Source) -> Iterator[Record]:
    """The records of a file; what cannot be read as one is reported."""
    if is_array(source.opening):
        yield from _Array(source).elements()
        return
    for number, line in source.lines():
        if not line.strip(" \t"):
            source.report.ignored["blank lines"] += 1
            continue
        try:
            record = parse_json(line)
        except JSONSyntaxError as error:
            source.fail(f"expected JSON: {error}", number, line)
            continue
        yield number, line, record


def dumps(record: object) -> str:
    """One line of JSON, as UTF-8 can hold it: a lone surrogate is escaped."""
    line = json.dumps(record, ensure_ascii=False)
    return f"{line if is_unicode(line) else json.dumps(record)}\n"


class _Array:
    """An array being read: the text from the element at hand on, as far as it has been needed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._texts = (text[i : i + _PIECE] for text in source.texts() for i in range(0, len(text), _PIECE))
        self._text = ""
        self._position = 0
        self._line = 1
        self._counted = 0
        self._ended = False
        self._unusable = False

    def elements(self) -> Iterator[Record]:
        """The elements, one by one; a bad one is passed over where its brackets tell its end."""
        while "[" not in self._text:
            assert self._read_more(), "is_array has seen it"
        self._advance(self._text.index("[") + 1)
        while (start := self._next_start()) is not None:
            if start == "]":
                self._check_end()
                return
            parsed = self._parse()
            if parsed is None:
                if not self._pass_over():
                    return
                continue
            record, end = parsed
            number, text = self._line, self._text[self._position : end]
            self._advance(end)
            if not (self._unusable and self._source.is_unusable(number, text)):
                yield number, text, record
        self._source.fail("expected ']' at the end of the array, found the end of the file", self._line, "")

    def _next_start(self) -> str | None:
        """The first character of the next element, or of the array's end; None at the end of the file."""
        while True:
            gap = _GAP.match(self._text, self._position)
            assert gap is not None
            self._advance(gap.end())
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_more():
                return None

    def _parse(self) -> tuple[Any, int] | None:
        """The element and where it ends, None if it cannot be parsed; more is read until it is whole."""
        while True:
            try:
                record, end = parse_json_prefix(self._text, self._position)
            except JSONSyntaxError:
                if self._end_of_element() is not None or not self._read_more():
                    return None
                continue
            # A number at the end of the text may go on.
            if end < len(self._text) or isinstance(record, list | dict) or not self._read_more():
                return record, end

    def _pass_over(self) -> bool:
        """Report the element that cannot be parsed; false if it does not end."""
        end = self._end_of_element()
        text = self._text[self._position : end]
        number = self._line
        self._advance(len(self._text) if end is None else end)
        if self._source.is_unusable(number, text):
            return end is not None
        problem = "expected JSON"
        if end is None and not self._ended:
            problem = f"expected records of at most {source_module.LONGEST:,} characters, found more"
        else:
            try:
                parse_json(text)
            except JSONSyntaxError as error:
                problem = f"expected JSON: {error}"
        self._source.fail(problem, number, text)
        return end is not None

    def _end_of_element(self) -> int | None:
        """Where the brackets that the element opens are closed; None if the text ends before."""
        if self._text[self._position] not in "[{":
            scalar = _SCALAR.match(self._text, self._position)
            assert scalar is not None
            return max(scalar.end(), self._position + 1) if scalar.end() < len(self._text) else None
        depth = 0
        for match in _BRACKET.finditer(self._text, self._position):
            depth += match[0] in ("[", "{")
            depth -= match[0] in ("]", "}")
            if not depth:
                return match.end()
        return None

    def _check_end(self) -> None:
        """Refuse what stands behind the array: nothing of a file is lost silently."""
        self._advance(self._position + 1)
        while not (rest := self._text[self._position :].lstrip()):
            self._advance(len(self._text))
            if not self._read_more():
                return
        self._advance(len(self._text) - len(rest))
        self._source.fail("expected the end of the file after the array", self._line, rest.rstrip())

    def _advance(self, position: int) -> None:
        self._line += self._text.count("\n", self._counted, position)
        self._position = self._counted = position

    def _read_more(self) -> bool:
        """Drop what is done and double the rest, so that a long element is not parsed too often; false at the end."""
        rest = self._text[self._position :]
        if len(rest) > source_module.LONGEST:
            return False
        pieces = [rest]
        size = len(rest) or 1
        while size > 0 and (piece := next(self._texts, None)) is not None:
            pieces.append(piece)
            size -= len(piece)
        self._ended = len(pieces) == 1
        self._text, self._position, self._counted = "".join(pieces), 0, 0
        self._unusable = not is_unicode(self._text)
        return not self._ended
