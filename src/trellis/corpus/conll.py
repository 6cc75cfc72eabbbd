"""CoNLL columns: one token per line with its columns, a blank line after each sentence.

    -DOCSTART- -X- O        a document mark
    # source = letters      a comment

    Ada     NNP  B-PER      token first, tag last, further columns between
    wrote   VBD  O

Columns are separated by single tabs if the first line of data has a tab, and by runs of spaces and tabs otherwise, or
where some lines have tabs, others spaces, and all of them as many columns so. Every line has as many columns as the
first. The reader passes over ``# ...`` lines at the head of a sentence that do not have that many (so ``#<tab>O`` is a
token); ``comment="#"`` says that every line that starts so is a comment. Document marks and comments before a sentence
stay with it, and are there again when it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from trellis.corpus.sniff import (
    BREAK,
    CAPITALS,
    DOCSTART,
    SPAN_LABEL,
    TAG_NAMES,
    TOKEN_NAMES,
    look_like_tags,
    mostly,
    position_of,
    sample_lines,
)
from trellis.corpus.source import Column, LineError, Source, column_index, refuse
from trellis.errors import CorpusError, DataError, number_of, shown
from trellis.text import Sentence

_NO_MARKS = bytes(set(range(256)) - set(b"\t\n"))
_COMMENT = re.compile(r"#(?:[ \t]|$)")
_EDGES = re.compile(r"(?m)^\t|\t$")
_SPACES = re.compile(r"[ \t]+")
_BRAT = re.compile(r"T\d+\t\S+ \d+ \d+(?:;\d+ \d+)*\t")
_INTERNED = 1 << 24  # characters of text
_SEPARATORS = {"tab": "\t", "space": " ", "\t": "\t", " ": " "}


@dataclass(frozen=True, slots=True)
class Preface:
    """The document marks, comments and blank lines before a sentence."""

    lines: tuple[str, ...]


def read(
    source: Source,
    *,
    tokens: Column | None = None,
    tags: Column | None = -1,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
    comment: str | None = None,
    gold: bool = True,
) -> Iterator[Sentence]:
    """Sentences with the columns that are neither token nor tag kept by name.

    `tokens` and `tags` choose a column by its index (from 0, or from the end) or by its name in `columns`,
    which names all columns of the file; without it the names are "0", "1" and so on. ``tags=None`` reads no
    tags. Without `tokens` it is the first column, and a file whose first column looks like something else is refused.
    ``gold=False`` is for files to be tagged: they may lack the column of the tags.
    """
    layout = _find_layout(source, tokens, tags, columns, separator, comment, gold=gold)
    if layout is None:
        return
    interned = Interned()
    head: list[str] = []
    for lines, paragraph in source.paragraphs():
        numbers: Sequence[int] = lines
        interned.begin(paragraph)
        text = layout.tabbed(paragraph)
        may_be_marked = DOCSTART in text or (comment and comment in text)  # with a document mark or a comment
        cells = None if may_be_marked else layout.columns(text)
        if cells is None:
            numbers, text = _data_lines(source, layout, lines, paragraph, head)
            cells = layout.columns(text)
        if numbers and cells:
            frame, head = Preface(tuple(head)) if head else None, []
            labels = None if layout.tag is None else interned(cells[layout.tag])
            extra = {name: interned(cells[i]) for name, i in layout.extra}
            whole = Sentence(tuple(cells[layout.token]), labels, None, None, extra, source.name, numbers, frame)
            if layout.number is None:
                yield whole
            else:
                yield from _divided(whole, layout, cells[layout.number])
        elif head:
            head.append("")


def write(sentences: Iterable[Sentence], *, separator: str = "\t") -> Iterator[str]:
    """Each sentence as lines of token, further columns and tag; a cell that would break them is an error."""
    tab_or_space = _separator(separator)
    for sentence in sentences:
        if DOCSTART in sentence.tokens:
            refuse(sentence, f"the token {DOCSTART} would be read as a document mark")
        tags = () if sentence.tags is None else (sentence.tags,)
        columns = [sentence.tokens, *sentence.columns.values(), *tags]
        yield head_of(sentence, len(columns), tab_or_space) + format_rows(sentence, columns, tab_or_space)


def head_of(sentence: Sentence, width: int, separator: str) -> str:
    """The lines before a sentence, without comments that would be read as tokens."""
    if not isinstance(sentence.frame, Preface):
        return ""
    lines = []
    for line in sentence.frame.lines:
        if line.startswith(DOCSTART):
            lines.append(separator.join(_SPACES.split(line)))
        elif not line or (_COMMENT.match(line) and len(line.split(separator)) != width):
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _separator(name: str) -> str:
    if name not in _SEPARATORS:
        raise DataError(f"separator must be 'tab' or 'space', got {name!r}")
    return _SEPARATORS[name]


@dataclass(frozen=True, slots=True)
class _Layout:
    first: int
    """Its number, for messages."""
    table: Table
    tabs: bool
    comment: str | None
    token: int
    tag: int | None
    extra: list[tuple[str, int]]
    number: int | None = None
    """The index of a column that counts tokens or sentences, in a file without blank lines."""
    counts_tokens: bool = False

    def tabbed(self, text: str) -> str:
        """The lines with one tab between columns, whatever separates them in the file."""
        if self.tabs:
            return text
        if "  " in text or "\t" in text or " \n" in text or "\n " in text or " " in (text[0], text[-1]):
            return _EDGES.sub("", _SPACES.sub("\t", text))
        return text.replace(" ", "\t")

    def columns(self, text: str) -> list[list[str]] | None:
        """The columns of lines that are all data; None if one is not."""
        columns = self.table.columns(text)
        if columns is None or "" in columns[self.token] or (self.tag is not None and "" in columns[self.tag]):
            return None
        return columns

    def check(self, cells: list[str]) -> None:
        """Raise what keeps a line from being data."""
        if cells[0] == DOCSTART:
            raise LineError(f"expected a blank line before {DOCSTART}, found it inside a sentence")
        if len(cells) != self.table.width:
            kind = "tabs" if self.tabs else "spaces"
            columns = number_of(self.table.width, "column")
            raise LineError(f"expected {columns} separated by {kind}, as in line {self.first}, found {len(cells)}")
        if not cells[self.token]:
            raise LineError("expected a token, found an empty column")
        if self.tag is not None and not cells[self.tag]:
            raise LineError("expected a tag, found an empty column")


def _find_layout(
    source: Source,
    tokens: Column | None,
    tags: Column | None,
    columns: Sequence[str] | None,
    separator: str | None,
    comment: str | None,
    *,
    gold: bool,
) -> _Layout | None:
    """The layout the first line of data shows, or None in a file without data."""
    first = _first_data(source.head, comment, separator is not None)
    if first is None:
        return None
    number, line = first
    tabs = _is_tabbed(line, source.head) if separator is None else _separator(separator) == "\t"
    width = (line.count("\t") if tabs else len(_SPACES.findall(line.strip(" \t")))) + 1
    names = [str(i) for i in range(width)] if columns is None else list(columns)
    if not gold and tags not in (None, -1):
        names = names if len(names) <= width else [name for name in names if name != tags]
        tags = tags if tags in names or (isinstance(tags, int) and -width <= tags < width) else None
    try:
        _refuse_other_tables(line, columns)
        if len(names) != width:
            raise LineError(f"expected the {len(names)} columns {', '.join(names)}, found {width}")
        if tokens is None and columns is not None:
            tokens = position_of(TOKEN_NAMES, names) or None
        token = 0 if tokens is None else column_index(tokens, names)
        tag = None if tags is None else column_index(tags, names)
    except LineError as problem:
        raise CorpusError(str(problem), path=source.name, line=number, text=line) from None
    tag = None if tag == token else tag  # a file of one column has no tags
    extra = [(name, i) for i, name in enumerate(names) if i not in (token, tag)]
    layout = _Layout(number, Table(width), tabs, comment, token, tag, extra)
    rows = [layout.tabbed(line).split("\t") for line in sample_lines(source.head)] if width > 1 else []
    rows = [cells for cells in rows if len(cells) == width and cells[0] != DOCSTART]
    if tokens is None:
        _check_first(source, layout, rows)
    if gold and tags == -1:
        _check_last(source, rows)
    if extra and BREAK.search(source.head) is None:
        columns_of_numbers = ((i, [row[i] for row in rows]) for _, i in extra)
        kinds = ((i, _count_tokens(values), _count_sentences(values)) for i, values in columns_of_numbers)
        counting = next(((i, tokens) for i, tokens, sentences in kinds if tokens or sentences), None)
        if counting is not None:
            layout = replace(layout, number=counting[0], counts_tokens=counting[1])
            source.report.change(
                "files without blank lines, divided into sentences by the numbers of a column",
                f"{source.name}: column {layout.number} (from 0)",
            )
    return layout


def _count_sentences(values: Sequence[str]) -> bool:
    """Whether each is the number before or the next one: they count sentences."""
    if len(values) < _FEWEST or not all(value.isdecimal() and len(value) < 10 for value in values):
        return False
    steps = [b - a for a, b in pairwise(map(int, values))]
    return set(steps) == {0, 1} and steps.count(0) >= steps.count(1)


def _divided(sentence: Sentence, layout: _Layout, values: Sequence[str]) -> Iterator[Sentence]:
    """The sentences in lines that no blank one divides, by the values of their numbers."""
    edges = [0]
    for position, (a, b) in enumerate(pairwise(values), 1):
        goes_on = int(b) > int(a) if layout.counts_tokens and a.isdecimal() and b.isdecimal() else a == b
        edges += [] if goes_on else [position]
    for start, end in pairwise([*edges, len(values)]):
        part = slice(start, end)
        yield Sentence(
            sentence.tokens[part],
            None if sentence.tags is None else sentence.tags[part],
            columns={name: cells[part] for name, cells in sentence.columns.items()},
            path=sentence.path,
            lines=sentence.lines[part],
            frame=None if start else sentence.frame,
        )


# Columns that are not where they usually are are refused, since they would be learned from in silence. In
# ``1 Ada B-PER`` the first column counts the tokens or the sentences; in ``B-PER Ada`` the tag stands before its token.

_DECIMAL = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")
_BLANKS_OF_TEXT = 3
_FEWEST = 4
"""Lines that are needed to say that numbers count them."""
_RATIO, _CLEAR_RATIO = 3, 10
"""How many values per value of the first column the last one has where the first one has the tags."""
_MANY = 50


def _check_first(source: Source, layout: _Layout, rows: list[list[str]]) -> None:
    """Refuse a file whose first lines show that its first column has no tokens."""
    first = [cells[layout.token] for cells in rows]
    keep = "if they are the tokens, give --tokens 0 (in Python tokens=0)"
    texts = [value for value in first if value.count(" ") >= _BLANKS_OF_TEXT]
    if 2 * len(texts) > len(first):
        raise DataError(
            f"{source.name}: expected a token and its tag per line, found texts such as {shown(texts[0])}: Trellis "
            f"labels tokens, not whole texts; {keep}"
        )
    if _count_tokens(first) or (layout.table.width > 2 and _number_words(first, [cells[1] for cells in rows])):
        raise DataError(
            f"{source.name}: expected tokens in the first column, found numbers that count them or their sentences; "
            f"give --tokens 1 (in Python tokens=1), or wherever they are (from 0); {keep}"
        )
    last = [] if layout.tag is None else [cells[layout.tag] for cells in rows]
    if last and (_are_labels(first, last) or _are_fewer(first, last)):
        some = ", ".join(shown(value) for value in sorted(set(first), key=first.index)[:3])
        raise DataError(
            f"{source.name}: expected tokens in the first column and tags in the last one, found what looks like tags "
            f"in the first ({some}) and like tokens in the last; give --tokens -1 --tags 0 (in Python tokens=-1, "
            f"tags=0); {keep}"
        )


def _check_last(source: Source, rows: list[list[str]]) -> None:
    """Refuse a file whose first lines show that its last column has no tags."""
    last = [cells[-1] for cells in rows]
    width = max(map(len, rows), default=0)
    found, column = None, -2
    if width > 2 and (_count_tokens(last) or _count_sentences(last)):
        found = "numbers that count tokens or sentences"
    elif len(last) >= _FEWEST and all(map(_DECIMAL.fullmatch, last)):
        found = "numbers"
    elif not look_like_tags(last, short=True):
        columns = ((i, [cells[i] for cells in rows]) for i in range(1, width - 1))
        column = next((i for i, values in columns if _are_labels(values, last)), 0)
        found = f"{shown(last[0])} and the like, and what looks like tags in column {column}" if column else None
    if found is not None:
        others = f"give --tags {column} (in Python tags={column}), or wherever they are (from 0); " if width > 2 else ""
        raise DataError(
            f"{source.name}: expected tags in the last column, found {found}; {others}if these are the tags, give "
            f"--tags {width - 1} (in Python tags={width - 1})"
        )


def _count_tokens(values: Sequence[str]) -> bool:
    """Whether they count up by one, and begin again with 0 or 1."""
    if len(values) < _FEWEST or not all(value.isdecimal() and len(value) < 10 for value in values):
        return False
    numbers = [int(value) for value in values]
    steps = pairwise(numbers)
    return numbers[0] in (0, 1) and mostly(b == a + 1 or b in (0, 1) for a, b in steps) and len(set(numbers)) >= _FEWEST


def _number_words(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first column has only numbers, and the second one hardly any."""
    if len(first) < _FEWEST or not all(value.isdecimal() for value in first):
        return False
    return not any(map(str.isdecimal, second[:_FEWEST])) and mostly(not value.isdecimal() for value in second)


def _are_labels(first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether the first column has labels of spans with their types, and the last one does not."""
    typed = sum("-" in value or "_" in value for value in first)
    if typed < 2 or not mostly(map(SPAN_LABEL.fullmatch, first)):
        return False
    return not mostly(map(SPAN_LABEL.fullmatch, last))


def _are_fewer(first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether the last column has far more values than the first, and words among them."""
    tokens, tags = len(set(first)), len(set(last))
    if not mostly(value[:1].isalpha() or not value[:1].isalnum() for value in last):
        return False
    looks = mostly(CAPITALS.fullmatch(value) or SPAN_LABEL.fullmatch(value) for value in first)
    clear = tags >= _CLEAR_RATIO * tokens and tags >= _MANY
    return clear or (looks and tags >= _RATIO * tokens and not mostly(map(CAPITALS.fullmatch, last)))


def _refuse_other_tables(line: str, columns: Sequence[str] | None) -> None:
    """A header would be a token with the tag "Tag", and annotations of brat would be tokens as well."""
    if _BRAT.match(line):
        raise LineError("expected a token and its tag, found an annotation of brat (.ann), which is not read")
    cells = _SPACES.split(line.strip(" \t"))
    is_header = position_of(TOKEN_NAMES, cells) is not None and position_of(TAG_NAMES, cells) is not None
    if cells == list(columns or ()) or is_header:
        raise LineError(
            "expected a token and its tag, found a header: remove this line (a blank line ends a sentence, and the "
            "columns of tokens and tags are chosen by number)"
        )


def _is_tabbed(line: str, head: str) -> bool:
    """Whether tabs alone separate columns; not where some lines have spaces instead and all have as many columns so."""
    if "\t" not in line:
        return False
    data = [one for one in sample_lines(head) if not one.startswith(DOCSTART) and not _COMMENT.match(one)]
    return all("\t" in one for one in data) or len({len(_SPACES.split(one.strip(" \t"))) for one in data}) > 1


def _first_data(head: str, comment: str | None, separated: bool) -> tuple[int, str] | None:
    """The first line of data and its number; one that starts like a comment only where there is no other."""
    maybe = None
    for number, line in enumerate(head.split("\n"), 1):
        if not line.strip(" \t") or line.startswith(DOCSTART) or (comment and line.startswith(comment)):
            continue
        if _COMMENT.match(line) is None:
            return number, line
        if maybe is None and (separated or "\t" in line or line == "#"):
            maybe = (number, line)
    return maybe


def _data_lines(
    source: Source, layout: _Layout, lines: range, paragraph: str, head: list[str]
) -> tuple[list[int], str]:
    """The lines of a sentence without comments and document marks; none, once reported, if one is bad.

    Comments and document marks before its first token are added to `head`.
    """
    ignored = source.report.ignored
    numbers: list[int] = []
    data: list[str] = []
    for number, line in zip(lines, paragraph.split("\n"), strict=True):
        tabbed = layout.tabbed(line)
        cells = tabbed.split("\t")
        if layout.comment:
            is_comment = line.startswith(layout.comment)
        else:
            is_comment = not data and _COMMENT.match(line) is not None and len(cells) != layout.table.width
        if is_comment or (cells[0] == DOCSTART and not data):
            ignored["comments" if is_comment else "document marks"] += 1
            head += [] if data else [line.strip(" \t")]
        else:
            try:
                layout.check(cells)
            except LineError as problem:
                source.fail(str(problem), number, line, whole=paragraph)
                return [], ""
            numbers.append(number)
            data.append(tabbed)
    return numbers, "\n".join(data)


class Table:
    """Splits lines of `width` cells, separated by single tabs, all lines of a sentence at once."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._line = b"\t" * (width - 1) + b"\n"

    def columns(self, text: str) -> list[list[str]] | None:
        """The cells of each column; None if a line has more or fewer.

        The tabs and newlines of the text alone must spell so many equal lines: one comparison for all.
        """
        marks = text.encode().translate(None, _NO_MARKS)
        if marks != (self._line * (marks.count(b"\n") + 1))[:-1]:
            return None
        cells = text.replace("\n", "\t").split("\t")
        return [cells[column :: self.width] for column in range(self.width)]


class Interned:
    """One string for all equal cells, so that a corpus in memory does not hold each tag a million times.

    What is kept is bounded by the text it came from: cells may be few and long.
    """

    def __init__(self) -> None:
        self._cells: dict[str, str] = {}
        self._passed = 0

    def begin(self, text: str) -> None:
        """Say which text the next cells come from."""
        self._passed += len(text)
        if self._passed > _INTERNED:
            self._cells, self._passed = {}, len(text)

    def __call__(self, cells: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self._cells.setdefault, cells, cells))


def format_rows(sentence: Sentence, columns: Sequence[Sequence[str]], separator: str) -> str:
    """The lines of a sentence and a blank one, sure to be read back as the same cells."""
    if not len(sentence):
        refuse(sentence, "a sentence without tokens cannot be written as lines of columns")
    # A single column has no tab to show that a space does not separate.
    forbidden = {separator, "\n", "\r", " " if len(columns) == 1 else separator}
    for column in columns:
        if "" in column or not forbidden.isdisjoint("".join(column)):
            cell = next(cell for cell in column if not cell or not forbidden.isdisjoint(cell))
            refuse(sentence, f"{shown(cell)} cannot be a column: it is empty or holds a separator")
    return "\n".join(separator.join(row) for row in zip(*columns, strict=True)) + "\n\n"
