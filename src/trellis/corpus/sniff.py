"""Files told by looking at their beginnings: binary data, an encoding, a format."""

from __future__ import annotations

import codecs
import csv
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from trellis.text.conventions import word_list
from trellis.untrusted import JSONSyntaxError, parse_json, parse_json_prefix

DOCBIN = "a spaCy DocBin"
"""A binary format that is read: see `trellis.corpus.spacy`."""
OFFICE = ("a ZIP archive, as docx, xlsx, odt and npz files are, too", "an old Office document")
"""What sheets of Excel are, which `trellis.corpus.tables` reads."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", OFFICE[0]),
    (b"\xd0\xcf\x11\xe0", OFFICE[1]),
    (b"{\\rtf", "an RTF document"),
    (b"\x1f\x8b\x08", "gzip data; its name must end in .gz"),
    (b"BZh91AY&SY", "bzip2 data; its name must end in .bz2"),
    (b"\xfd7zXZ\x00", "xz data; its name must end in .xz"),
    (b"\x28\xb5\x2f\xfd", "zstd data; its name must end in .zst"),
    *((bytes((0x80, version)), "a Python pickle, which is never opened") for version in (2, 3, 4, 5)),
    (b"PAR1\x15", "a Parquet file, which train --stream and tag --out read"),
    (b"ARROW1\x00\x00", "an Arrow file, which train --stream reads"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe\x00\x00", "text in UTF-32; pass --encoding utf-32"),
    (b"\x00\x00\xfe\xff", "text in UTF-32; pass --encoding utf-32"),
    (b"\xff\xfe", "text in UTF-16; pass --encoding utf-16"),
    (b"\xfe\xff", "text in UTF-16; pass --encoding utf-16"),
)
_BINARY_SAMPLE = 1 << 12
_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]")


def binary_kind(head: bytes) -> str | None:
    """A name for the content of a binary file, by its first bytes; None if it may be text that extends ASCII."""
    head = head[:_BINARY_SAMPLE]
    named = next((name for magic, name in _MAGIC if head.startswith(magic)), None) or _zlib_kind(head)
    if named:
        return named
    if len(head) > 10 and head[8:10] == b'{"' and head[4:8] == b"\0\0\0\0":  # a length in eight bytes, then JSON
        return "a safetensors file: is it a model?"
    if (utf16 := _utf16_kind(head)) is not None:
        return utf16
    if b"\n" not in head and head.count(b"\r") >= 2:  # as on old Macs: all would be one line
        return r"text whose lines end in CR (\r) alone; convert them to LF (\n), for example by tr '\r' '\n'"
    return None


def _zlib_kind(head: bytes) -> str | None:
    if len(head) < 3 or head[0] != 0x78 or int.from_bytes(head[:2], "big") % 31 or head[1:2].isalnum():
        return None
    try:
        start = zlib.decompressobj().decompress(head, _BINARY_SAMPLE)
    except zlib.error:
        return None
    # MessagePack: a map of up to 15 entries, among the first the attributes of the tokens.
    is_docbin = start[:1] and 0x80 <= start[0] <= 0x8F and b"\xa5attrs" in start
    return DOCBIN if is_docbin else "zlib-compressed data"


def _utf16_kind(head: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of its ASCII characters is zero."""
    rest = head.replace(b"\0", b"")
    if len(rest) == len(head):
        return None
    # UTF-8 but for a few zeros is not meant; UTF-16 of scripts whose bytes are all ASCII has control characters.
    if 4 * len(rest) > 3 * len(head) and not _CONTROL.search(rest) and _is_utf8(rest):
        return None
    for order in ("le", "be"):
        text = head[: len(head) // 2 * 2].decode(f"utf-16-{order}", "replace")
        usual = sum(c.isalnum() or c.isspace() or (c.isprintable() and c < "\u3100") for c in text)
        ascii_zeros = head[1 if order == "le" else 0 :: 2].count(0)
        if usual >= MOSTLY * len(text) and ascii_zeros and not head[0 if order == "le" else 1 :: 2].count(0):
            return f"text in UTF-16 without a byte-order mark; pass --encoding utf-16-{order}"
    return None


def _is_utf8(data: bytes) -> bool:
    """Whether this begins a text in UTF-8; its last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


_ENCODING_SAMPLE = 1 << 14
_FEW = 4  # bytes that are not ASCII, fewer of which show no script
_IN_A_LATIN_WORD = re.compile(rb"[A-Za-z][\x80-\xfe]")
_CANDIDATES = ["utf_8", "gb18030", "big5", "euc_kr", "shift_jis", "euc_jp", "cp1251", "koi8_r", "cp1252"]


def suggest_encoding(data: bytes) -> str | None:
    """The encoding of text, where one fits well."""
    from charset_normalizer import from_bytes

    # Tags in ASCII make words of another script look improbable; Latin words are better known by those around them.
    words = data.split()
    samples = [b" ".join(word for word in words if not word.isascii()), b" ".join(words)]
    for i, text in enumerate(samples):
        if len(text) > _ENCODING_SAMPLE:  # whole words
            samples[i] = text[:_ENCODING_SAMPLE].rpartition(b" ")[0] or text[:_ENCODING_SAMPLE]
    matches = next(filter(None, (list(from_bytes(sample, cp_isolation=_CANDIDATES)) for sample in samples)), [])
    best = [
        match.encoding
        for match in matches
        if (match.chaos, match.coherence) == (matches[0].chaos, matches[0].coherence)
    ]
    few = sum(byte > 0x7F for byte in samples[0]) < _FEW
    if "cp1252" in best and (len(best) > 1 or few):  # a few accents, which might be anything
        return "cp1252" if _IN_A_LATIN_WORD.search(samples[0]) else None
    return codecs.lookup(best[0]).name if best and not few else None


SAMPLE = 500  # lines at the beginning of a file that are looked at
MOSTLY = 0.95
_TYPE = r"[-_][^\W\d]\S*"
SPAN_LABEL = re.compile(rf"[Oo0]|[BIESMLUW](?:{_TYPE})?|[biesmluw](?:{_TYPE})?|[^\W\d]\S*-[BIESMLU]")
CAPITALS = re.compile(r"[A-Z][A-Z0-9$*+|_-]{0,14}|[^\w\s]{1,5}|-[A-Z]{3}-")
_SHORT = re.compile(r"[A-Za-z][\w$*+-]{0,3}")
_LONGEST_TAG = 20


def mostly(facts: Iterable[object]) -> bool:
    """Whether nearly all of them are true."""
    known = list(map(bool, facts))
    return sum(known) >= MOSTLY * len(known)


def are_closed(values: Sequence[str]) -> bool:
    """Whether a few short values occur again and again."""
    few = len(values) >= 20 and 4 * len(set(values)) <= len(values)
    return few and all(len(value) <= _LONGEST_TAG for value in values)


def look_like_tags(values: Sequence[str], *, short: bool) -> bool:
    """Whether nearly all are labels of spans, in capitals, or `short` words if asked; or a closed set of others."""
    forms = (SPAN_LABEL, CAPITALS, _SHORT) if short else (SPAN_LABEL, CAPITALS)
    return mostly(any(form.fullmatch(value) for form in forms) for value in values) or are_closed(values)


SPACES = re.compile("[ \t\u3000]+")
_EDGES = " \t\u3000"
_ARRAY = re.compile(r"\s*\[\s*[\[{\]]")
DOCSTART = "-DOCSTART-"
DELIMITERS = {"/": "a slash", "|": "a bar", "_": "an underline"}
"""What may stand before a tag, most usual first."""


def split_spaces(line: str) -> list[str]:
    """The words of a line; other Unicode spaces are characters of their words."""
    line = line.strip(_EDGES)
    return SPACES.split(line) if line else []


def sample_lines(head: str) -> list[str]:
    """The lines at the beginning of a file that are looked at, without blank ones."""
    return [line for line in head.split("\n", SAMPLE)[:SAMPLE] if line.strip(" \t")]


def is_array(text: str) -> bool:
    """Whether the text opens an array of records; ``["text", {...}]`` is one record, as spaCy has them."""
    return _ARRAY.match(text) is not None


def find_delimiter(items: Sequence[str]) -> str | None:
    """The one of `DELIMITERS` that separates nearly every word from its tag; None if there is none."""
    return next((delimiter for delimiter in DELIMITERS if is_delimiter(delimiter, items)), None)


def is_delimiter(delimiter: str, items: Sequence[str]) -> bool:
    """Words with underlines are more usual than those with slashes, and need more to be taken for words with tags."""
    parts = [item.rpartition(delimiter) for item in items]
    tags = [tag for word, _, tag in parts if word and tag]
    if len(items) < (2 if delimiter == "/" else 4) or not mostly(word and tag for word, _, tag in parts):
        return False
    return look_like_tags(tags, short=delimiter == "/")


TOKEN_NAMES = word_list("token tokens word words form wordform surface char character text 字 词 词元")
TAG_NAMES = word_list(
    "tag tags label labels ner nertag nertags nerlabel entity entities bio biotag iob iobtag wordlabels target postag "
    "postags pos upos xpos chunktag chunktags chunk 标签"
)
SENTENCE_NAMES = word_list(
    "sentence sentenceid sentid sentenceidx sentenceindex sentenceno sentencenumber sentencenr sent sentidx sentno "
    "sentnum sentencenum satz 句子"
)
TOKEN_NUMBER_NAMES = word_list("tokenid tokenidx tokenno tokenindex wordid wordidx wordno wordindex")
"""Usual names of columns, most usual first, without spaces, marks and capitals: see `usual_name`."""
DELIMITERS_OF_CELLS = (",", ";", "\t", "|")
LINES_OF_WORDS = "it has lines of words, not columns or JSON"


def usual_name(name: str) -> str:
    """A name without what people write in different ways: ``Sentence #`` and ``sentence`` are the same."""
    return re.sub(r"[\W_]", "", name).lower()


def position_of(usual: Sequence[str], names: Iterable[str]) -> int | None:
    """The first of the usual names that a column has: the number of that column."""
    known = [usual_name(name) for name in names]
    return next((known.index(name) for name in usual if name in known), None)


def cells_of(line: str, delimiter: str, *, quoted: bool = True) -> list[str] | None:
    """The cells of a row without the spaces around them; None where a quoted cell is not closed."""
    try:
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        rows = list(csv.reader([line], delimiter=delimiter, quoting=quoting, skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return [cell.strip(_EDGES) for cell in rows[0]] if rows else []


def header_of_table(line: str) -> list[str] | None:
    """The names of columns in the first line of a table: tokens, and tags or sentences."""
    for delimiter in DELIMITERS_OF_CELLS:
        names = cells_of(line, delimiter) or []
        roles = [position_of(usual, names) is not None for usual in (TOKEN_NAMES, TAG_NAMES, SENTENCE_NAMES)]
        if sum(roles) > 1 and (roles[0] or roles[1]) and len(names) > 1:
            return names
    return None


# The format: the guesser looks at the first 500 lines that are not blank, and says what decided. Columns separated by
# spaces look like sentences of a few words, so they need evidence: nearly all lines have as many columns, and one
# behind the first looks like tags:
#
#     labels of spans    O, B-PER, i-loc, PER-E      two lines or more
#     capitals, marks    NNP, VBD, ``, PROPN         three lines or more, and some repeat or stand in paragraphs
#     a closed set       n, v, 0, 1                  twenty lines or more in paragraphs, a quarter as many values

Guess = tuple[str, str]
"""The name of a format, and what told."""

_UD_ROW = re.compile(r"1(?:-\d+)?(?:\t[^\t]*){9}")
BREAK = re.compile(r"\n[ \t]*\n(?=.*\S)")
_MARK = re.compile(r"[^\w\s]{1,3}")


def guess_content(head: str) -> Guess | None:
    """The format of a file that begins so; None where there is nothing but blank lines."""
    lines = sample_lines(head)
    if not lines:
        return None
    if lines[0].lstrip()[:1] in ("{", "["):
        kind = _guess_json(head, lines[0])
        if kind:
            return kind, f"it is JSON with {'tokens' if kind == 'jsonl' else 'texts'}"
    return _guess_lines(head, lines)


def _guess_lines(head: str, lines: list[str]) -> Guess:
    data = [line for line in lines if not line.startswith(("# ", DOCSTART))] or lines
    if names := header_of_table(data[1] if re.fullmatch("(?i)sep=.", data[0]) and len(data) > 1 else data[0]):
        return "csv", f"its first line names the columns {', '.join(filter(None, names))}"
    if any(_UD_ROW.fullmatch(line) for line in data[:20]):
        return "conllu", "it has ten columns that begin with word numbers"
    # Where a cell of most lines is a text of several words, tabs do not separate columns of tokens.
    prose = sum(any(cell.count(" ") >= 3 for cell in line.split("\t")) for line in data)
    if mostly("\t" in line for line in data) and prose <= len(data) / 2:
        return "conll", "it has columns separated by tabs"
    rows = [split_spaces(line) for line in data]
    delimiter = find_delimiter([item for row in rows for item in row])
    if delimiter:
        return "wordtag", f"nearly every word has {DELIMITERS[delimiter]} and a tag"
    told = _told_by_columns(head, rows, marked=len(data) < len(lines) and DOCSTART in head)
    return ("conll", told) if told else ("segmented", LINES_OF_WORDS)


def is_comma_separated(head: str) -> bool:
    """Whether lines of words are rather cells separated by commas, the last of which look like tags."""
    lines = sample_lines(head)
    rows = [[cell or " " for cell in line.split(",")] for line in lines]
    return _told_by_columns(head, rows, marked=False) is not None and "," in lines[0]


def _told_by_columns(head: str, rows: list[list[str]], *, marked: bool) -> str | None:
    """Why these are columns separated by spaces, or one token per line; None if nothing tells so."""
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if count < MOSTLY * len(rows):
        return None
    has_breaks = BREAK.search(head) is not None
    if width == 1:
        marks = sum(_MARK.fullmatch(row[0]) is not None for row in rows if len(row) == 1)
        is_list = has_breaks and marks and len(rows) >= 5 and head.count("\n\n") * 2 < len(rows)
        return "it has one token per line and blank lines between sentences" if is_list else None
    about = f"it has {width} columns separated by spaces"
    if marked:
        return f"{about} and {DOCSTART} lines"
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
    """The kind of JSON by its first record, or by the fields at its begin if it is longer than the head or broken."""
    try:
        start = re.match(r"\s*\[\s*", head) if is_array(head) else None
        if start is None:
            record: Any = parse_json(line)
        else:
            record = parse_json_prefix(head, start.end())[0] if head[start.end()] != "]" else {}
    except JSONSyntaxError:
        if is_array(head) and '"tokens"' not in head and ('"text"' in head or '"data"' in head):
            return "spans"
        return "jsonl" if is_array(head) or line.lstrip().startswith('{"') else None
    if isinstance(record, dict):
        # Prodigy's tokens are objects beside the text and its spans, and not strings.
        tokens = record.get("tokens")
        are_objects = isinstance(tokens, list) and all(isinstance(token, dict) for token in tokens)
        has_tokens = "tokens" in record and not ("text" in record and are_objects)
        return "jsonl" if has_tokens or not record.keys() & {"text", "data"} else "spans"
    is_pair = isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict)
    return "spans" if is_pair else None
