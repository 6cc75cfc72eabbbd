"""The options of commands that read corpora, and reading them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import typer

from trellis import corpus
from trellis.corpus import Source, check_align, get_format, guess_format
from trellis.corpus.tables import is_table, read_table
from trellis.tags import OnBadTags, check_on_bad_tags
from trellis.text import Sentence, Splitter

_SHOWN = 10

FormatOption = Annotated[
    str | None, typer.Option(help=f"Format of the files: {', '.join(corpus.FORMATS)}; guessed if not given.")
]
TokensOption = Annotated[str | None, typer.Option(help="Column or field of the tokens, by name or index.")]
TagsOption = Annotated[str | None, typer.Option(help="Column or field of the tags, by name or index.")]
ColumnsOption = Annotated[str | None, typer.Option(help="Names of the columns, separated by commas.")]
EncodingOption = Annotated[str, typer.Option(help="Character encoding of the files.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")]
AlignOption = Annotated[
    str | None,
    typer.Option(help="At a span that cuts a token: split the token (default), expand the span, skip the text, error."),
]
AnnotatorOption = Annotated[
    str | None, typer.Option(help="Whose annotations to take where several people annotated a text.")
]
MajorityOption = Annotated[
    bool, typer.Option("--majority", help="Take the spans that more than half of the annotators marked.")
]
UnapprovedOption = Annotated[
    bool, typer.Option("--unapproved", help="Also take doccano's examples that nobody approved.")
]
OnBadTagsOption = Annotated[
    str | None,
    typer.Option(
        help="Tags that the scheme forbids or cannot read: error (default), repair as seqeval reads, drop the text."
    ),
]


def span_options(align: str | None, annotator: str | None, majority: bool, unapproved: bool) -> dict[str, object]:
    """The options of the reader of spans that were given on the command line."""
    if align is not None:
        check_align(align)
    given = {"align": align, "annotator": annotator, "majority": majority or None, "unapproved": unapproved or None}
    return {name: value for name, value in given.items() if value is not None}


def bad_tags_option(how: str | None) -> OnBadTags:
    """What --on-bad-tags asks for."""
    check_on_bad_tags(how or "error")
    return cast("OnBadTags", how or "error")


def tell_reading(path: str, report: corpus.ReadReport, *, given: bool = False, quiet: bool = False) -> None:
    """Say on standard error what a file was taken for and why, and what was left out or changed in reading it."""
    if quiet:
        return
    if not given:
        typer.echo(f"{path}: read as {report.format}, since {report.reason}", err=True)
    tell_notes(path, report.notes())


def tell_notes(path: str, notes: Iterable[str]) -> None:
    """Say what was changed; lines that go on are indented."""
    for note in notes:
        typer.echo(note if note.startswith(" ") else f"{path}: {note}", err=True)


def tell_unseen(path: str, sentences: Iterable[Sentence], labels: Iterable[str]) -> None:
    """Say which labels of a file a model does not know: they count as missed."""
    known = set(labels)
    unseen = Counter(tag for sentence in sentences for tag in sentence.tags or () if tag not in known)
    if unseen:
        typer.echo(
            f"{path}: tokens with labels that the training data lack, which count as missed: {unseen.total():,}, "
            f"with {some(unseen)}",
            err=True,
        )


def some(labels: Counter[str]) -> str:
    """The most frequent labels with their counts."""
    listed = ", ".join(f"{label} ({count:,})" for label, count in labels.most_common(_SHOWN))
    return f"{listed}, ..." if len(labels) > _SHOWN else listed


def reading_options(tokens: str | None, tags: str | None, columns: str | None) -> dict[str, object]:
    """The options of a reader that were given on the command line; a column that is a number is an index."""
    given = {"tokens": _column(tokens), "tags": _column(tags)}
    if columns is not None:
        given["columns"] = [name.strip() for name in columns.split(",") if name.strip()]
    return {name: value for name, value in given.items() if value is not None}


def _column(name: str | None) -> object:
    return int(name) if name is not None and name.removeprefix("-").isdecimal() else name


def quoted(paths: Iterable[str]) -> str:
    """Arguments as a shell takes them."""
    return " ".join(map(shlex.quote, paths))


@dataclass(frozen=True)
class Reader:
    """How the files of one command are read; `scheme` and `tokenizer` matter to the formats that need them."""

    format: str | None = None
    encoding: str = "utf-8"
    options: dict[str, object] = field(default_factory=dict)
    scheme: str | None = None
    tokenizer: str | Splitter | None = None
    remembered: dict[str, dict[str, object]] = field(default_factory=dict)
    """Options that a model's training files were read with, by their format."""
    spans: dict[str, object] = field(default_factory=dict)
    """Options of the reader of spans."""

    def read(self, path: str) -> corpus.Corpus:
        """All sentences of a file."""
        stream = self.open(Source(path, encoding=self.encoding))
        return corpus.Corpus(list(stream), stream.report)

    def sentences(self, path: str) -> Iterable[Sentence]:
        """The sentences of a shard, one by one."""
        if self.format is None and is_table(path):
            return read_table(path, **self.options)
        return self.open(Source(path, encoding=self.encoding))

    def open(self, source: Source) -> corpus.Stream:
        """The sentences of an opened file, one by one."""
        form, reason = guess_format(source) if self.format is None else (get_format(self.format), "it was asked for")
        source.report.format, source.report.reason = form.name, reason
        own: dict[str, Any] = self.remembered.get(form.name, {}) | self.options
        if form.name in ("segmented", "spans") and self.scheme is not None:
            own["scheme"] = self.scheme
        if form.name == "spans":
            own |= self.spans | ({} if self.tokenizer is None else {"tokenizer": self.tokenizer})
        return corpus.Stream.of(form, source, own)


def remembered_options(record: dict[str, Any]) -> dict[str, dict[str, object]]:
    """The options in the record of a training, for files of the same format."""
    file = record.get("data", {}).get("train", {})
    return {file["format"]: record.get("reading", {})} if file else {}
