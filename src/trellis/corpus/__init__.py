"""Corpora: readers and writers, one file a format, streaming, with errors that name file and line.

    corpus = read("train.conll")                 # all sentences; corpus.report says what it was taken for
    for sentence in iterate("big.conllu.gz"):    # or one by one
        ...
    write("train.jsonl", corpus)

The format is guessed from name and content unless given; `FORMATS` lists them. Files that end in .gz, .bz2,
.xz or .zst are compressed, and ``-`` is standard input or output. Options beyond those of `read` are the
format's own: see the ``read`` and ``write`` functions of its module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trellis.corpus._alignment import check_align
from trellis.corpus._cells import format_rows
from trellis.corpus._files import StrPath, open_output, split_suffixes, write_text
from trellis.corpus._formats import FORMATS, Format, format_of_path, get_format, guess_format
from trellis.corpus._json import RecordFields, dumps, records
from trellis.corpus._source import LONGEST, OnError, ReadReport, Source
from trellis.corpus._streams import Stream, check_options, iterate
from trellis.corpus.joint import to_characters, to_words, words_of_spans
from trellis.corpus.mending import MendedSentences, mend_tags
from trellis.corpus.relaying import RelayingSource
from trellis.corpus.rows import from_rows, sentence_of_row, to_rows
from trellis.corpus.segmented import sentence_from_words, words_from_sentence
from trellis.corpus.shards import Shards, find_files
from trellis.errors import CorpusError, DataError
from trellis.text import Sentence

__all__ = [
    "FORMATS",
    "LONGEST",
    "Corpus",
    "CorpusError",
    "Format",
    "MendedSentences",
    "OnError",
    "ReadReport",
    "RecordFields",
    "RelayingSource",
    "Shards",
    "Source",
    "Stream",
    "check_align",
    "dumps",
    "find_files",
    "format_of_path",
    "format_rows",
    "from_rows",
    "get_format",
    "guess_format",
    "iterate",
    "mend_tags",
    "open_output",
    "read",
    "records",
    "sentence_from_words",
    "sentence_of_row",
    "split_suffixes",
    "to_characters",
    "to_rows",
    "to_words",
    "words_from_sentence",
    "words_of_spans",
    "write",
]

Report = ReadReport
"""The former name of `ReadReport`."""


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
