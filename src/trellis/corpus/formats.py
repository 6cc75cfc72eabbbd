"""The table of formats, how one is told from a file's name and content, and files read, written and converted in them.

To add a format, write a function ``read(source, **options)`` that yields sentences and a function ``write(sentences,
**options)`` that yields pieces of text, in a module of their own, and add a row to `FORMATS`. If its content tells what
it is, `trellis.corpus.sniff.guess_content` is where to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trellis.corpus import annotation_tools, brat, conll, conllu, jsonl, segmented, spacy, tables
from trellis.corpus.bad_tags import OnBadTags, mend_tags, refuse_bad_tags
from trellis.corpus.sniff import DOCBIN, LINES_OF_WORDS, guess_content, is_array, is_comma_separated
from trellis.corpus.source import (
    SHEETS,
    OnError,
    ReadReport,
    Source,
    StrPath,
    check_options,
    refuse,
    split_suffixes,
    write_text,
)
from trellis.errors import DataError, number_of, shown, warn
from trellis.tags import Scheme, Style, convert_tags, parse_label
from trellis.text import Sentence


@dataclass(frozen=True, slots=True)
class Format:
    """One format: how to read and to write it, and the suffixes of its files."""

    name: str
    about: str
    read: Callable[..., Iterator[Sentence]]
    write: Callable[..., Any]
    """Gives pieces of text; brat's writes files into a folder."""
    suffixes: tuple[str, ...] = ()


_CONLL = (".conll", ".tsv", ".col", ".iob", ".iob2", ".bio", ".bioes", ".bmes")
_JSONL = (".jsonl", ".ndjson", ".json")
_LABELLED = "JSON Lines with a text and its labelled character spans"
_TAGGED = "one sentence per line of word/TAG items"
_TABLE = (
    Format("conll", "a token and its columns a line, blank lines between sentences", conll.read, conll.write, _CONLL),
    Format("conllu", "Universal Dependencies' ten columns", conllu.read, conllu.write, (".conllu",)),
    Format("jsonl", "JSON Lines with tokens and tags", jsonl.read, jsonl.write, _JSONL),
    Format("spans", _LABELLED, annotation_tools.read, annotation_tools.write),
    Format("segmented", "one sentence per line, words between spaces", segmented.read, segmented.write, (".seg",)),
    Format("wordtag", _TAGGED, segmented.read_tagged_words, segmented.write_tagged_words),
    Format("csv", "a row per token, or per sentence, below a header: CSV, TSV", tables.read, tables.write, (".csv",)),
    Format("excel", "the same in an Excel sheet, read by pandas", tables.read, tables.write_excel, SHEETS),
    Format("brat", "a folder of texts (.txt) with their annotations (.ann)", brat.read, brat.write, (".ann",)),
    Format("spacy", "spaCy's DocBin (.spacy), read where spaCy is installed", spacy.read, spacy.write, (".spacy",)),
)
FORMATS = {form.name: form for form in _TABLE}
_SUFFIXES = {suffix: form.name for form in _TABLE for suffix in form.suffixes}


def get_format(name: str) -> Format:
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
    if source.data is not None:
        return (FORMATS["excel"], "it is a sheet") if suffix in SHEETS else (FORMATS["spacy"], f"it is {DOCBIN}")
    if source.folder is not None:
        return FORMATS["brat"], "it is a folder with .ann files"
    by_name = _SUFFIXES.get(suffix)
    by_content = guess_content(source.opening if is_array(source.opening) else source.head)
    # A name decides alone if the content tells nothing else; columns by name may be of another kind of columns.
    trusted = (
        by_content is None
        or by_name in ("conllu", "segmented", "brat")
        or (by_name in ("csv", "jsonl") and by_content[0] == "segmented")
        or (by_name == "conll" and by_content[0] not in ("conll", "conllu", "wordtag", "csv"))
    )
    if by_name is not None and trusted:
        name, reason = by_name, f"the name ends in {suffix}"
    elif by_content is None:
        name, reason = ("segmented", "it has only blank lines") if source.head else ("conll", "the file is empty")
    else:
        name, reason = by_content
        # Cells separated by commas are no words: to take them for such would train on nonsense.
        if name == "segmented" and is_comma_separated(source.head):
            raise DataError(
                f"{source.name}: it looks like a table without names of its columns: give --format csv --columns "
                'token,tag (in Python format="csv", columns=[...]) with the names of all, or --format segmented if '
                "these are lines of words; tag and convert have --from instead of --format"
            )
    return FORMATS[name], reason


@dataclass(frozen=True, slots=True)
class Stream:
    """Sentences as they are read, once; the report grows as they are."""

    report: ReadReport
    _sentences: Iterator[Sentence]

    @classmethod
    def of(cls, form: Format, source: Source, options: dict[str, Any]) -> Stream:
        """The sentences that a format reads from an opened file, with options of its own."""
        check_options(form.read, options, f"reading {form.name}")
        is_binary, is_folder = form.name in ("spacy", "excel"), form.name == "brat"
        if (source.data is not None and not is_binary) or (source.folder is not None and not is_folder):
            found = "a folder" if source.folder is not None else guess_format(source)[1].removeprefix("it is ")
            raise DataError(f"{source.name}: expected {form.name}, found {found}")
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

    def __repr__(self) -> str:
        tokens, tagged = sum(map(len, self.sentences)), sum(one.tags is not None for one in self.sentences)
        counts = f"{number_of(len(self), 'sentence')}, {number_of(tokens, 'token')}, {tagged:,} with tags"
        return f"Corpus({counts}, {self.format})"


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
    if format is None and stream.format == "segmented" and stream.report.reason == LINES_OF_WORDS:
        warn(f'{path}: its lines are read as words of a segmentation; if they are, format="segmented" says so')
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
    count = 0

    def counted() -> Iterator[Sentence]:
        nonlocal count
        for sentence in sentences:
            count += 1
            yield sentence

    try:
        if chosen.name == "brat":
            brat.write(path, counted(), **options)
        else:
            write_text(path, chosen.write(counted(), **options), encoding)
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: sentence {count} cannot be written as {encoding}: {error.reason}") from None
    return count


@dataclass(frozen=True, slots=True)
class Conversion:
    """Report of a conversion: its sentences, and the formats and schemes they came from and went to.

    A scheme that is None was left as it was.
    """

    sentences: int
    report: ReadReport
    to_format: str
    from_scheme: Scheme | None
    to_scheme: Scheme | None
    notes: list[str] = field(default_factory=list)
    """How bad tags were repaired or dropped."""


def convert(
    source: StrPath,
    target: StrPath,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    from_scheme: Scheme | None = None,
    to_scheme: Scheme | None = None,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    on_bad_tags: OnBadTags | None = None,
    read_options: dict[str, Any] | None = None,
    write_options: dict[str, Any] | None = None,
) -> Conversion:
    """Convert a file; tags keep their scheme unless `to_scheme` is given.

    Where the scheme of the tags matters and `from_scheme` does not tell, it is the best fitting one, for
    which all sentences are read first; otherwise they are converted one by one. Bad tags are an error unless
    `on_bad_tags` says otherwise: see `trellis.corpus.bad_tags`.
    """
    form = format_of_path(target) if to_format is None else get_format(to_format)
    stream = iterate(source, format=from_format, encoding=encoding, on_error=on_error, **(read_options or {}))
    options = dict(write_options or {})
    target_scheme, notes = None, []
    converted: Iterable[Sentence]
    if to_scheme or on_bad_tags or form.name in ("spans", "brat", "segmented"):
        mended = mend_tags(stream, on_bad_tags=on_bad_tags or "error", scheme=from_scheme)
        notes, source_scheme, style = mended.notes, mended.detection.scheme, mended.detection.style
        from_scheme = source_scheme
        if form.name == "segmented":
            converted = _as_words(mended.sentences, source_scheme)
        else:
            target_scheme = to_scheme or source_scheme
            if form.name in ("spans", "brat"):
                options["scheme"] = target_scheme
            convert_one = partial(
                convert_tags,
                source=source_scheme,
                target=target_scheme,
                style=style,
                target_style=Style.PREFIX if form.name in ("spans", "brat") else style,
            )
            converted = (
                sentence if sentence.tags is None else sentence.with_tags(convert_one(sentence.tags))
                for sentence in mended.sentences
            )
    else:
        converted = refuse_bad_tags(stream, scheme=from_scheme)
    count = write(target, converted, format=form.name, **options)
    return Conversion(count, stream.report, form.name, from_scheme, target_scheme, notes)


def _as_words(sentences: Iterable[Sentence], scheme: Scheme) -> Iterator[Sentence]:
    """Characters joined where tags without types say where words begin and end; otherwise the tokens are the words."""
    for sentence in sentences:
        if scheme is Scheme.PLAIN or sentence.tags is None:
            yield sentence.with_tags(None)
            continue
        typed = next((tag for tag in sentence.tags if parse_label(tag, scheme)[1]), None)
        if typed is not None:
            refuse(sentence, f"the tag {shown(typed)} has a type, so the tags do not say where words begin and end")
        words = segmented.words_from_sentence(sentence, scheme=scheme)
        yield Sentence(words, path=sentence.path, lines=sentence.lines[:1])
