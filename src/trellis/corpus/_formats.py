"""The table of formats, and how one is told from a file's name and content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trellis.corpus import conll, conllu, jsonl, segmented, spans, wordtag
from trellis.corpus._files import StrPath, split_suffixes
from trellis.corpus._json import is_array
from trellis.corpus._source import Source
from trellis.errors import DataError
from trellis.text import Sentence
from trellis.untrusted import JSONSyntaxError, parse_json, parse_json_prefix


@dataclass(frozen=True, slots=True)
class Format:
    """One format: how to read and to write it."""

    name: str
    about: str
    read: Callable[..., Iterator[Sentence]]
    write: Callable[..., Iterator[str]]


FORMATS = {
    form.name: form
    for form in (
        Format("conll", "a token and its columns a line, blank lines between sentences", conll.read, conll.write),
        Format("conllu", "Universal Dependencies' ten columns", conllu.read, conllu.write),
        Format("jsonl", "JSON Lines with tokens and tags", jsonl.read, jsonl.write),
        Format("spans", "JSON Lines with a text and its labelled character spans", spans.read, spans.write),
        Format("segmented", "a sentence a line, words between spaces", segmented.read, segmented.write),
        Format("wordtag", "a sentence a line of word/TAG items", wordtag.read, wordtag.write),
    )
}

_SUFFIXES = {
    ".conllu": "conllu",
    **dict.fromkeys((".conll", ".tsv", ".col", ".iob", ".iob2", ".bio", ".bioes", ".bmes"), "conll"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".seg": "segmented",
}
_SAMPLE = 500
_UD_ROW = re.compile(r"1(?:-\d+)?(?:\t[^\t]*){9}")
_BREAK = re.compile(r"\n[ \t]*\n")
_TAG = re.compile(r"O|[BIESMLUW](?:-\S+)?|\S+-[BIESMLU]")


def get_format(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        raise DataError(f"unknown format {name!r}, expected one of {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of_path(path: StrPath) -> Format:
    """The format a file to be written should have, from its name."""
    suffix, _ = split_suffixes(path)
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise DataError(f"{path}: the name tells no format; end it with one of {known}, or pass the format")
    return FORMATS[_SUFFIXES[suffix]]


def guess_format(source: Source) -> tuple[Format, str]:
    """The format of a file to be read, and what told."""
    suffix, _ = split_suffixes(source.path)
    by_name = _SUFFIXES.get(suffix)
    head = source.opening if is_array(source.opening) else source.head
    lines = [line for line in head.split("\n", _SAMPLE)[:_SAMPLE] if line.strip(" \t")]
    by_content = _guess_content(head, lines) if lines else None
    if by_name in ("conllu", "segmented") or by_content is None:
        name, reason = by_name or "conll", f"the name ends in {suffix}" if by_name else "the file is empty"
    elif by_name == "conll" and by_content[0] not in ("conll", "conllu"):
        name, reason = by_name, f"the name ends in {suffix}"
    else:
        name, reason = by_content
    return FORMATS[name], reason


def _guess_content(head: str, lines: list[str]) -> tuple[str, str]:
    if lines[0].lstrip()[:1] in ("{", "["):
        kind = _guess_json(head, lines[0])
        if kind:
            return kind, f"it is JSON with {'tokens' if kind == 'jsonl' else 'texts'}"
    data = [line for line in lines if not line.startswith(("# ", conll.DOCSTART))] or lines
    if any(_UD_ROW.fullmatch(line) for line in data[:20]):
        return "conllu", "it has ten columns that begin with word numbers"
    if all("\t" in line for line in data):
        return "conll", "it has columns separated by tabs"
    items = [segmented.split_spaces(line) for line in data]
    if all(0 < item.find("/", 1) < len(item) - 1 for line in items for item in line):
        return "wordtag", "every word has a slash and a tag"
    if len(items[0]) > 1 and len({len(line) for line in items}) == 1 and _has_breaks_or_tags(head, items):
        return "conll", "it has columns separated by spaces"
    return "segmented", "it has lines of words"


def _has_breaks_or_tags(head: str, items: list[list[str]]) -> bool:
    return bool(_BREAK.search(head)) or all(_TAG.fullmatch(line[-1]) for line in items)


def _guess_json(head: str, line: str) -> str | None:
    """By the first record, or by the fields in its first part where it is longer than the head or broken."""
    try:
        record: Any = _first_element(head) if is_array(head) else parse_json(line)
    except JSONSyntaxError:
        if is_array(head) and '"tokens"' not in head and ('"text"' in head or '"data"' in head):
            return "spans"
        return "jsonl" if is_array(head) or line.lstrip().startswith('{"') else None
    if isinstance(record, dict):
        return "jsonl" if "tokens" in record or not record.keys() & {"text", "data"} else "spans"
    is_pair = isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict)
    return "spans" if is_pair else None


def _first_element(head: str) -> Any:
    start = re.match(r"\s*\[\s*", head)
    assert start is not None
    return parse_json_prefix(head, start.end())[0] if head[start.end()] != "]" else {}
