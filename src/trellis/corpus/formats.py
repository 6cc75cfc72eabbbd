"""The table of formats, how one is told from a file's name and content, and files read and written in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trellis.corpus import conll, conllu, jsonl, segmented, spacy, spans, wordtag
from trellis.corpus.files import StrPath, split_suffixes, write_text
from trellis.corpus.sniff import DOCBIN, guess_content, is_array, is_comma_separated
from trellis.corpus.source import OnError, ReadReport, Source, check_options
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
    # A name decides alone if the content tells nothing else; columns by name may be of another kind of columns.
    trusted = (
        by_content is None
        or by_name in ("conllu", "segmented")
        or (by_name == "conll" and by_content[0] not in ("conll", "conllu", "wordtag"))
    )
    if by_name is not None and trusted:
        name, reason = by_name, f"the name ends in {suffix}"
    elif by_content is None:
        name, reason = ("segmented", "it has only blank lines") if source.head else ("conll", "the file is empty")
    else:
        name, reason = by_content
        # Cells separated by commas are no words: to take them for such would train on nonsense.
        if name == "segmented" and (suffix == ".csv" or is_comma_separated(source.head)):
            marks = "semicolons" if source.head.count(";") > source.head.count(",") else "commas"
            raise DataError(
                f"{source.name}: it looks like columns separated by {marks}, which no format has; separate them by "
                "tabs (a blank line after each sentence) for conll, or give --format segmented (for tag and convert "
                '--from segmented, in Python format="segmented") if these are lines of words'
            )
    return FORMATS[name], reason


@dataclass(frozen=True, slots=True)
class Stream:
    """Sentences as they are read, once; the report grows as they are."""

    report: ReadReport
    _sentences: Iterator[Sentence]

    @classmethod
    def of(cls, form: Format, source: Source, options: dict[str, Any]) -> Stream:
        """What a format reads from an opened file, with options of its own."""
        check_options(form.read, options, f"reading {form.name}")
        if source.data is not None and form.name != "spacy":
            raise DataError(f"{source.name}: expected {form.name}, found {DOCBIN}")
        return cls(source.report, form.read(source, **options))

    @property
    def format(self) -> str:
        """The format the file was taken for; ``report.reason`` says why."""
        return self.report.format

    def __iter__(self) -> Iterator[Sentence]:
        return self._sentences


def iterate(
    path: StrPath,
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    **options: Any,
) -> Stream:
    """Read the sentences of a file one by one, in memory that does not grow with it."""
    chosen = None if format is None else get_format(format)
    source = Source(path, encoding=encoding, on_error=on_error)
    reason = "it was asked for"
    if chosen is None:
        chosen, reason = guess_format(source)
    source.report.format, source.report.reason = chosen.name, reason
    return Stream.of(chosen, source, options)


@dataclass(frozen=True, slots=True)
class Corpus:
    """All sentences of a file, and the report of reading them."""

    sentences: list[Sentence]
    report: ReadReport

    @property
    def format(self) -> str:
        """The format the file was taken for; ``report.reason`` says why."""
        return self.report.format

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.sentences)


def read(
    path: StrPath,
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    **options: Any,
) -> Corpus:
    """Read all sentences of a file.

    An error in the data names file and line; with ``on_error="skip"`` the sentence is left out and the report
    counts it.
    """
    stream = iterate(path, format=format, encoding=encoding, on_error=on_error, **options)
    return Corpus(list(stream), stream.report)


def write(
    path: StrPath,
    sentences: Iterable[Sentence],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> int:
    """Write sentences as they come and return how many; the format follows from the name unless given.

    The file appears once it is whole: an error on the way leaves what was there before.
    """
    chosen = format_of_path(path) if format is None else get_format(format)
    check_options(chosen.write, options, f"writing {chosen.name}")
    counted = _Counted(sentences)
    try:
        write_text(path, chosen.write(counted, **options), encoding)
    except UnicodeEncodeError as error:
        problem = f"sentence {counted.count} cannot be written as {encoding}: {error.reason}"
        raise DataError(f"{path}: {problem}") from None
    return counted.count


class _Counted:
    """Sentences on their way to a writer, counted as they pass."""

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        self._sentences = sentences
        self.count = 0

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in self._sentences:
            self.count += 1
            yield sentence
