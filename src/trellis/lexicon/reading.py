"""Files of entries, one per line.

    words    the line is a surface: 云计算, New York
    jieba    a user dictionary of jieba: word, frequency and tag, of which the last two may be missing: 创新办 3 i
    tsv      surface, label and strength between tabs; the last two may be missing or empty
    jsonl    {"surface": "New York", "label": "LOC", "strength": "must"}; spaCy's {"label": ..., "pattern": ...} too

A frequency f of jieba adds log f to the bonus of an entry that is preferred: twice as frequent, twice the odds. Blank
lines are ignored. The file may be compressed (.gz, .bz2, .xz, .zst), and ``-`` is standard input.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trellis.corpus import CorpusError, Source
from trellis.errors import DataError, did_you_mean
from trellis.lexicon.entries import MOST, Entry, Strength, check_surface, parse_strength
from trellis.untrusted import Fields, JSONSyntaxError, parse_json

_JIEBA = re.compile(r"(?P<word>.+?)(?: (?P<count>\d{1,18}))?(?: (?P<tag>[a-z]+))?")
_SURELY_JIEBA = re.compile(r".* \d+(?: [a-z]+)?|[^\x00-\x7f]+ [a-z]{1,4}")
_SAMPLE = 1000  # lines that a format is recognised by


@dataclass(frozen=True)
class Reading:
    """The entries of a file, and what it was taken for and why."""

    entries: list[Entry]
    format: str
    reason: str


def read_entries(
    path: str | Path, format: str | None, strength: Strength, label: str | None, encoding: str = "utf-8"
) -> Reading:
    """All entries of a file; `strength` and `label` are for those that have none of their own."""
    if format is not None and format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise DataError(f"unknown format of lexicons {format!r}: expected one of {', '.join(FORMATS)}{hint}")
    source = Source(path, encoding=encoding)
    name, reason = (format, "it was asked for") if format is not None else _recognised(source)
    line_of = FORMATS[name]
    entries: list[Entry] = []
    for number, line in source.lines():
        text = line.strip("\r\n\ufeff ")
        if not text.strip():
            continue
        try:
            surface, own_label, own = line_of(text, strength)
            problem = check_surface(surface)
        except DataError as error:
            problem = str(error)
        if problem:
            raise CorpusError(problem, path=source.name, line=number, text=line)
        entries.append(Entry(surface, own_label or label, own))
    return Reading(entries, name, reason)


Parsed = tuple[str, str | None, Strength]


def _word(line: str, strength: Strength) -> Parsed:
    return line, None, strength


def _jieba(line: str, strength: Strength) -> Parsed:
    match = _JIEBA.fullmatch(line.strip())
    assert match is not None, "a line that is not blank has a word"
    count = int(match["count"] or 1)
    bonus = strength if isinstance(strength, str) else min(strength + math.log(max(count, 1)), MOST)
    return match["word"], match["tag"], bonus


def _tsv(line: str, strength: Strength) -> Parsed:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) > 3:
        raise DataError(f"expected surface, label and strength between tabs, got {len(cells)} cells")
    surface, label, own = (*cells, "", "")[:3]
    return surface, label or None, parse_strength(own) if own else strength


def _json(line: str, strength: Strength) -> Parsed:
    try:
        fields = Fields(parse_json(line), "the entry", DataError)
    except JSONSyntaxError as error:
        raise DataError(f"expected JSON: {error}") from None
    name = "pattern" if "pattern" in fields and "surface" not in fields else "surface"
    label = fields.value("label", str, type(None)) if "label" in fields else None
    own: Any = fields.value("strength", str, int, float, type(None)) if "strength" in fields else None
    return fields.text(name), label, strength if own is None else parse_strength(own)


FORMATS: dict[str, Callable[[str, Strength], Parsed]] = {
    "words": _word,
    "jieba": _jieba,
    "tsv": _tsv,
    "jsonl": _json,
}


def _recognised(source: Source) -> tuple[str, str]:
    """The format of a file by its name, else by its first lines, and why."""
    suffixes = os.path.splitext(os.fspath(source.path).lower())[0::1]
    for name, endings in (("jsonl", (".jsonl", ".ndjson")), ("tsv", (".tsv",))):
        ending = next((end for end in endings if suffixes[1] == end or suffixes[0].endswith(end)), None)
        if ending is not None:
            return name, f"its name has {ending}"
    lines = [line for line in source.head.split("\n")[:_SAMPLE] if line.strip()]
    if lines and lines[0].lstrip("\ufeff ").startswith("{"):
        return "jsonl", "its first line begins with {"
    if any("\t" in line for line in lines):
        return "tsv", "it has tabs"
    found: Iterator[str] = (line for line in lines if _SURELY_JIEBA.fullmatch(line.strip("\r\ufeff ")))
    example = next(found, None)
    if example is not None:
        return "jieba", f"it has a line with a frequency or a tag: {example.strip()[:40]!r}"
    return "words", "each line is one surface"
