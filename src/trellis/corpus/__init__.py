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

from trellis.corpus.bad_tags import MendedSentences, mend_tags
from trellis.corpus.conll import format_rows
from trellis.corpus.files import open_output, split_suffixes
from trellis.corpus.formats import (
    FORMATS,
    Corpus,
    Format,
    Stream,
    format_of_path,
    get_format,
    guess_format,
    iterate,
    read,
    write,
)
from trellis.corpus.jsonl import RecordFields, dumps, records
from trellis.corpus.segmented import sentence_from_words, to_characters, to_words, words_from_sentence, words_of_spans
from trellis.corpus.shards import Shards, find_files
from trellis.corpus.source import LONGEST, OnError, ReadReport, RelayingSource, Source
from trellis.corpus.spans import check_align
from trellis.corpus.tables import from_rows, sentence_of_row, to_rows
from trellis.errors import CorpusError

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
