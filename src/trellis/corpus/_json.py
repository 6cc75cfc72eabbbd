"""JSON records: one a line (JSON Lines), or the elements of one array that is the whole file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from trellis.corpus._source import Source

_ARRAY = re.compile(r"\s*\[\s*[\[{\]]")
_GAP = re.compile(r"[\s,]*")


def records(source: Source) -> Iterator[tuple[int, str, Any]]:
    """(line, its text, record). A whole-file array is read at once: made by hand, such exports are small."""
    return _elements(source) if is_array(source.head) else _lines(source)


def is_array(text: str) -> bool:
    """Whether the text opens an array of records; ``["text", {...}]`` is one record, as spaCy has them."""
    return _ARRAY.match(text) is not None


def dumps(record: object) -> str:
    """One line of JSON, as UTF-8 can hold it: a lone surrogate is escaped."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(record)
    return f"{line}\n"


def _lines(source: Source) -> Iterator[tuple[int, str, Any]]:
    for number, line in source.lines():
        if not line.strip(" \t"):
            source.report.ignored["blank lines"] += 1
            continue
        try:
            yield number, line, json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            source.fail(f"expected JSON: {error}", number, line)


def _elements(source: Source) -> Iterator[tuple[int, str, Any]]:
    text = "\n".join(line for _, line in source.lines())
    decoder = json.JSONDecoder()
    position, number = text.index("[") + 1, 1
    counted = 0
    while True:
        position = _end_of_gap(text, position)
        number += text.count("\n", counted, position)
        counted = position
        if text.startswith("]", position):
            return
        line = text[position:].partition("\n")[0]
        try:
            record, end = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            source.fail(f"expected JSON: {error}", number, line)
            return
        yield number, line, record
        position = end


def _end_of_gap(text: str, position: int) -> int:
    match = _GAP.match(text, position)
    assert match is not None
    return match.end()
