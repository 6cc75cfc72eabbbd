"""The one guesser of formats: it looks at the first 500 lines that are not blank, and says what told.

Columns separated by spaces look like sentences of a few words, so they need evidence: nearly all lines have as many
columns, and one behind the first looks like tags:

    labels of spans      O, B-PER, i-loc, PER-E             two lines or more
    capitals, marks      NNP, VBD, ``, PROPN                three lines or more, and some repeat or stand in paragraphs
    a closed set         n, v, 0, 1                         twenty lines or more in paragraphs, a quarter as many values
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from trellis.corpus import conll, segmented, wordtag
from trellis.corpus._json import is_array
from trellis.corpus._looks import CAPITALS, MOSTLY, SAMPLE, SPAN_LABEL, are_closed, mostly
from trellis.untrusted import JSONSyntaxError, parse_json, parse_json_prefix

Guess = tuple[str, str]
"""The name of a format, and what told."""

_UD_ROW = re.compile(r"1(?:-\d+)?(?:\t[^\t]*){9}")
_BREAK = re.compile(r"\n[ \t]*\n(?=.*\S)")
_MARK = re.compile(r"[^\w\s]{1,3}")


def guess_content(head: str) -> Guess | None:
    """The format of a file that begins so; None where there is nothing but blank lines."""
    lines = [line for line in head.split("\n", SAMPLE)[:SAMPLE] if line.strip(" \t")]
    if not lines:
        return None
    if lines[0].lstrip()[:1] in ("{", "["):
        kind = _guess_json(head, lines[0])
        if kind:
            return kind, f"it is JSON with {'tokens' if kind == 'jsonl' else 'texts'}"
    return _guess_lines(head, lines)


def _guess_lines(head: str, lines: list[str]) -> Guess:
    data = [line for line in lines if not line.startswith(("# ", conll.DOCSTART))] or lines
    if any(_UD_ROW.fullmatch(line) for line in data[:20]):
        return "conllu", "it has ten columns that begin with word numbers"
    if mostly("\t" in line for line in data) and not _is_prose(data):
        return "conll", "it has columns separated by tabs"
    rows = [segmented.split_spaces(line) for line in data]
    delimiter = wordtag.find_delimiter([item for row in rows for item in row])
    if delimiter:
        return "wordtag", f"nearly every word has {wordtag.DELIMITERS[delimiter]} and a tag"
    told = _told_by_columns(head, rows, marked=len(data) < len(lines) and conll.DOCSTART in head)
    return ("conll", told) if told else ("segmented", "it has lines of words, not columns or JSON")


def is_comma_separated(head: str) -> bool:
    """Whether lines of words are rather cells separated by commas, the last of which look like tags."""
    lines = [line for line in head.split("\n", SAMPLE)[:SAMPLE] if line.strip(" \t")]
    rows = [[cell or " " for cell in line.split(",")] for line in lines]
    return _told_by_columns(head, rows, marked=False) is not None and "," in lines[0]


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether a cell of most lines is a text of several words."""
    return sum(any(cell.count(" ") >= 3 for cell in line.split("\t")) for line in lines) > len(lines) / 2


def _told_by_columns(head: str, rows: list[list[str]], *, marked: bool) -> str | None:
    """What tells that these are columns separated by spaces, or one token per line."""
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if count < MOSTLY * len(rows):
        return None
    has_breaks = _BREAK.search(head) is not None
    if width == 1:
        marks = sum(_MARK.fullmatch(row[0]) is not None for row in rows if len(row) == 1)
        is_list = has_breaks and marks and len(rows) >= 5 and head.count("\n\n") * 2 < len(rows)
        return "it has one token per line and blank lines between sentences" if is_list else None
    about = f"it has {width} columns separated by spaces"
    if marked:
        return f"{about} and {conll.DOCSTART} lines"
    for column in reversed(range(1, width)):
        told = _told_by_tags([row[column] for row in rows if len(row) == width], has_breaks)
        if told:
            return f"{about}, and column {column + 1} has {told}"
    return None


def _told_by_tags(values: Sequence[str], has_breaks: bool) -> str | None:
    if len(values) >= 2 and mostly(SPAN_LABEL.fullmatch(value) for value in values):
        return "labels of spans"
    repeats = 1 < len(set(values)) < len(values) or has_breaks
    words = sum(value[0].isalpha() for value in values)  # a text whose lines all end in a point has none
    is_long = len(values) >= 100 and not has_breaks  # no sentence has a hundred tokens
    if 3 <= len(values) <= 2 * words and repeats and not is_long and mostly(map(CAPITALS.fullmatch, values)):
        return "tags in capitals"
    return "a closed set of tags" if has_breaks and len(set(values)) > 1 and are_closed(values) else None


def _guess_json(head: str, line: str) -> str | None:
    """By the first record, or by the fields in its first part where it is longer than the head or broken."""
    try:
        record: Any = _first_element(head) if is_array(head) else parse_json(line)
    except JSONSyntaxError:
        if is_array(head) and '"tokens"' not in head and ('"text"' in head or '"data"' in head):
            return "spans"
        return "jsonl" if is_array(head) or line.lstrip().startswith('{"') else None
    if isinstance(record, dict):
        return "jsonl" if _has_tokens(record) or not record.keys() & {"text", "data"} else "spans"
    is_pair = isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict)
    return "spans" if is_pair else None


def _has_tokens(record: dict[str, Any]) -> bool:
    """Whether it has tokens as strings; Prodigy's are objects beside the text and its spans."""
    tokens = record.get("tokens")
    return "tokens" in record and not ("text" in record and isinstance(tokens, list) and _are_objects(tokens))


def _are_objects(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _first_element(head: str) -> Any:
    start = re.match(r"\s*\[\s*", head)
    assert start is not None
    return parse_json_prefix(head, start.end())[0] if head[start.end()] != "]" else {}
