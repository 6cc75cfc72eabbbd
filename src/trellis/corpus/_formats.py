"""The table of formats, and how one is told from a file's name and content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trellis.corpus import conll, conllu, jsonl, segmented, spacy, spans, wordtag
from trellis.corpus._binary import DOCBIN
from trellis.corpus._files import StrPath, split_suffixes
from trellis.corpus._guessing import Guess, guess_content, is_comma_separated
from trellis.corpus._json import is_array
from trellis.corpus._source import Source
from trellis.errors import DataError
from trellis.text import Sentence


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
        Format("segmented", "one sentence per line, words between spaces", segmented.read, segmented.write),
        Format("wordtag", "one sentence per line of word/TAG items", wordtag.read, wordtag.write),
        Format("spacy", "spaCy's DocBin (.spacy), read where spaCy is installed", spacy.read, spacy.write),
    )
}

_SUFFIXES = {
    ".conllu": "conllu",
    **dict.fromkeys((".conll", ".tsv", ".col", ".iob", ".iob2", ".bio", ".bioes", ".bmes"), "conll"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".seg": "segmented",
    ".spacy": "spacy",
}


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
    if source.data is not None:
        return FORMATS["spacy"], f"it is {DOCBIN}"
    suffix, _ = split_suffixes(source.path)
    by_name = _SUFFIXES.get(suffix)
    by_content = guess_content(source.opening if is_array(source.opening) else source.head)
    if by_name is not None and _is_trusted(by_name, by_content):
        name, reason = by_name, f"the name ends in {suffix}"
    elif by_content is None:
        name, reason = ("segmented", "it has only blank lines") if source.head else ("conll", "the file is empty")
    else:
        name, reason = by_content
        _refuse_commas(source, name, suffix)
    return FORMATS[name], reason


def _is_trusted(by_name: str, by_content: Guess | None) -> bool:
    """Whether a name decides on the format, whatever the content looks like."""
    if by_content is None or by_name in ("conllu", "segmented"):
        return True
    return by_name == "conll" and by_content[0] not in ("conll", "conllu", "wordtag")


def _refuse_commas(source: Source, name: str, suffix: str) -> None:
    """Cells separated by commas are no words: to take them for such would train on nonsense."""
    if name == "segmented" and (suffix == ".csv" or is_comma_separated(source.head)):
        marks = "semicolons" if source.head.count(";") > source.head.count(",") else "commas"
        raise DataError(
            f"{source.name}: it looks like columns separated by {marks}, which no format has; separate them by tabs "
            "(a blank line after each sentence) for conll, or give --format segmented (for tag and convert --from "
            'segmented, in Python format="segmented") if these are lines of words'
        )
