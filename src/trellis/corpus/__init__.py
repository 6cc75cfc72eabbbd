"""Corpora: readers and writers, one file per format, streaming, with errors that name file and line.

    corpus = read("train.conll")                 # all sentences; corpus.report says what it was taken for
    for sentence in iterate("big.conllu.gz"):    # or one by one
        ...
    write("train.jsonl", corpus)

The format is guessed from name and content unless given; `FORMATS` lists them. Files that end in .gz, .bz2,
.xz or .zst are compressed, and ``-`` is standard input or output. Options beyond those of `read` are the
format's own: see the ``read`` and ``write`` functions of its module.
"""

from __future__ import annotations

from trellis.corpus.bad_tags import (
    BadTag,
    Mended,
    MendedSentences,
    OnBadTags,
    TagChange,
    check_on_bad_tags,
    mend,
    mend_tags,
    notes_on,
    repair_tags,
)
from trellis.corpus.conll import format_rows
from trellis.corpus.formats import (
    FORMATS,
    Conversion,
    Corpus,
    Format,
    Stream,
    convert,
    format_of_path,
    get_format,
    guess_format,
    iterate,
    read,
    write,
)
from trellis.corpus.jsonl import RecordFields, dumps, records
from trellis.corpus.rows import from_rows, is_table, read_table, sentence_of_row, to_rows
from trellis.corpus.segmented import sentence_from_words, to_characters, to_words, words_from_sentence, words_of_spans
from trellis.corpus.shards import Shards, find_files
from trellis.corpus.source import LONGEST, OnError, ReadReport, Source, open_output, split_suffixes
from trellis.errors import CorpusError

__all__ = [
    "FORMATS",
    "LONGEST",
    "BadTag",
    "Conversion",
    "Corpus",
    "CorpusError",
    "Format",
    "Mended",
    "MendedSentences",
    "OnBadTags",
    "OnError",
    "ReadReport",
    "RecordFields",
    "Shards",
    "Source",
    "Stream",
    "TagChange",
    "check_on_bad_tags",
    "convert",
    "dumps",
    "find_files",
    "format_of_path",
    "format_rows",
    "from_rows",
    "get_format",
    "guess_format",
    "is_table",
    "iterate",
    "mend",
    "mend_tags",
    "notes_on",
    "open_output",
    "read",
    "read_table",
    "records",
    "repair_tags",
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
