"""Tables with a header: CSV, TSV and Excel sheets, with a row per token or a row per sentence.

    Sentence #,Word,POS,Tag          the first row names the columns
    Sentence: 1,Ada,NNP,B-PER        a sentence begins where this cell changes;
    ,slept,VBD,O                     where it is empty, the row belongs to the sentence above
    ,,,                              an empty row ends a sentence, too

    sentence,tags                    a row per sentence: words between spaces, or lists as Python and JSON write them
    Ada slept,"['B-PER', 'O']"

Cells are separated by commas, semicolons, tabs or bars, whichever make columns of the first row, and may be quoted. The
columns of tokens, tags and sentences are found by their usual names: `TOKEN_NAMES` and so on in `trellis.corpus.sniff`.
`columns` gives other names, and then the file need not have any. Further columns stay with the sentences.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NoReturn

from trellis.corpus.sniff import (
    DELIMITERS_OF_CELLS,
    SENTENCE_NAMES,
    SPAN_LABEL,
    TAG_NAMES,
    TOKEN_NAMES,
    TOKEN_NUMBER_NAMES,
    cells_of,
    position_of,
    usual_name,
)
from trellis.corpus.source import Column, LineError, Source, column_index, names_of, refuse
from trellis.errors import DataError, needed, number_of, shown
from trellis.text import Sentence
from trellis.untrusted import JSONSyntaxError, parse_json

Row = tuple[int, Sequence[str]]
"""The number of its first line, and its cells."""

LONG = 1000
"""Sentences of more tokens than this are reported: rows between them are probably missing."""
_UNDIVIDED = 200
"""A table whose rows nothing divides into sentences may have this many."""
_LINES_OF_CELL = 1000
_MOST_NAMES = 100_000  # of sentences, that are remembered
AGAIN = "sentences with the name of an earlier one (do numbers begin again, or are the rows of sentences not together?)"
_SAMPLE = 50  # rows
_NAME_IN_LIST = re.compile(r"""\s*,?\s*(?:u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|([^\s,'"\[\]()]+))""")
_SPACE, _SPACE_OR_COMMA = re.compile(r"[ \t\n]+"), re.compile(r"[ \t\n,]+")
_WITH_NUMBER = re.compile(r"(?s).*\d.*")
_SEPARATOR_LINE = re.compile(r"(?i)sep=(.)")


@dataclass(frozen=True, slots=True)
class SentenceName:
    """What a table calls a sentence, as the frame of the sentence."""

    name: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column is what; `whole` says that a row is a sentence."""

    names: Sequence[str]
    token: int
    tag: int | None
    sentence: int | None
    number: int | None
    """The column that counts the tokens of each sentence, where no column names the sentences."""
    whole: bool

    @classmethod
    def of(
        cls, names: Sequence[str], sample: Sequence[Sequence[str]], tokens: Column | None, tags: Column | None
    ) -> Layout:
        """The layout of a table with these columns and first rows; a column that is missing is a `LineError`."""
        sentence, number = position_of(SENTENCE_NAMES, names), None
        token = position_of(TOKEN_NAMES, names) if tokens is None else column_index(tokens, names)
        if token is None and sentence is not None:  # the sentence itself, maybe beside its number
            called = [i for i, name in enumerate(names) if usual_name(name) in SENTENCE_NAMES]
            cells = {i: [row[i] for row in sample if len(row) == len(names)] for i in called}
            texts = {i: sum(cell.count(" ") + cell.startswith("[") for cell in cells[i]) for i in called}
            token = max((i for i in called if texts[i]), key=lambda i: (texts[i], i), default=None)
            sentence = next((i for i in called if i != token), None)
        if token is None:
            raise LineError(
                f"expected the name of a column of tokens ({', '.join(TOKEN_NAMES[:4])}), found {names_of(names)}; "
                "name it with --tokens and that of the tags with --tags, or all columns with --columns, like --columns "
                'token,tag (in Python tokens="...", tags="...", columns=[...])'
            )
        tag = position_of(TAG_NAMES, names) if tags is None else column_index(tags, names)
        if sentence == token:
            sentence = None
        if sentence is None:
            number = position_of(TOKEN_NUMBER_NAMES, names)
        twice = next((name for i, name in enumerate(names) if name and name in names[:i]), None)
        if twice is not None:
            raise LineError(f"expected columns of different names, found two named {shown(twice)}")
        tag = None if tag == token else tag
        rows = [row for row in sample if len(row) == len(names) and row[token]]
        # Cells are sentences if they are lists, or have as many words as tags, and some have spaces between words.
        counts = [
            (len(_items(row[token])), 1 if tag is None else len(_items(row[tag], _SPACE_OR_COMMA))) for row in rows
        ]
        lists = [row[token][:1] == "[" for row in rows]
        several = [row for row in rows if " " in row[token]]
        matching = [words for (words, tags), is_list in zip(counts, lists, strict=True) if words == tags or is_list]
        whole = max(matching, default=0) > 1 and len(matching) * 2 > len(rows) and bool(several or any(lists))
        if not whole and len(several) * 2 > len(rows):
            tagged = "" if tag is None else f" with {shown(several[0][tag])}"
            spans = ""
            if {"start", "end"} <= set(map(usual_name, names)):
                spans = '; spans are read from JSON Lines, a text in each: {"text": "...", "label": [[0, 3, "X"]]}'
            raise LineError(
                "expected a token per row, or a sentence with as many tags, "
                f"found {shown(several[0][token])}{tagged}{spans}"
            )
        return cls(names, token, tag, sentence, number, whole)

    @property
    def extra(self) -> list[tuple[str, int]]:
        roles = (self.token, self.tag, self.sentence)
        return [(name, i) for i, name in enumerate(self.names) if name and i not in roles]


def sentences_of_rows(
    rows: Iterable[Row],
    layout: Layout,
    *,
    path: str | None,
    fail: Callable[[str, int, Sequence[str]], None],
    again: Callable[[str, int], None],
    names: Sequence[str] | None = None,
) -> Iterator[Sentence]:
    """The sentences of the rows below a header; a row that is wrong goes to `fail`, and its sentence is left out.

    `again` is told of sentences with the name of an earlier one, and the numbers of their rows.
    """
    if layout.whole:
        for number, cells in rows:
            if any(cells):
                try:
                    yield _whole_sentence(cells, number, layout, path, names)
                except LineError as error:
                    fail(str(error), number, cells)
        return
    group: list[Row] = []
    name, count, is_broken, divided = "", -1, False, layout.sentence is not None
    seen: set[str] = set()
    for row in chain(rows, [(0, ())]):
        number, cells = row
        is_blank = not any(cells)
        problem = None if is_blank else _problem(cells, layout)
        begins = is_blank
        if not is_blank and layout.sentence is not None and len(cells) == len(layout.names):
            begins = bool(cells[layout.sentence]) and cells[layout.sentence] != name
            name = cells[layout.sentence] or name
            if begins and name in seen:
                again(name, number)
            if len(seen) < _MOST_NAMES:
                seen.add(name)
        elif not is_blank and layout.number is not None and problem is None:
            here = int(cells[layout.number]) if cells[layout.number].isdecimal() else count + 1
            begins, count = here <= count, here
        if begins:
            divided |= number > 0
            if group and not is_broken:
                yield _sentence(group, layout, path, names)
            group, is_broken = [], False
        if problem is not None:
            is_broken = True
            fail(problem, number, cells)
        elif not is_blank:
            group.append(row)
            if len(group) > _UNDIVIDED and not divided:
                how = "rename the column that divides them to sentence"
                if path is not None:
                    how = "name all columns with --columns (in Python columns=[...]), one of them sentence"
                raise DataError(
                    f"{path or 'the table'}: expected a column that names the sentences (sentence, sentence_id, ...) "
                    f"or empty rows between them, found {len(group):,} rows that nothing divides; {how}"
                )


def _problem(cells: Sequence[str], layout: Layout) -> str | None:
    if len(cells) != len(layout.names):
        return f"expected {number_of(len(layout.names), 'cell')} as in the first row, found {len(cells)}"
    if not cells[layout.token]:
        return f"expected a token in the column {shown(layout.names[layout.token])}, found an empty cell"
    if not layout.whole and "\n" in cells[layout.token]:
        return "expected a token, found a cell of several lines: is a quotation mark not closed?"
    if layout.tag is not None and not cells[layout.tag]:
        return f"expected a tag in the column {shown(layout.names[layout.tag])}, found an empty cell"
    return None


def _sentence(group: list[Row], layout: Layout, path: str | None, names: Sequence[str] | None) -> Sentence:
    columns = list(zip(*(cells for _, cells in group), strict=True))
    tags = None if layout.tag is None else columns[layout.tag]
    if tags is not None and names is not None:
        tags = tuple(_spelled(tag, names) for tag in tags)
    name = "" if layout.sentence is None else group[0][1][layout.sentence]
    return Sentence(
        columns[layout.token],
        tags,
        columns={name: columns[i] for name, i in layout.extra},
        path=path,
        lines=[number for number, _ in group],
        frame=SentenceName(name) if name else None,
    )


def _whole_sentence(
    cells: Sequence[str], number: int, layout: Layout, path: str | None, names: Sequence[str] | None
) -> Sentence:
    problem = _problem(cells, layout)
    if problem is not None:
        raise LineError(problem)
    words = _items(cells[layout.token])
    tags = None if layout.tag is None else _items(cells[layout.tag], _SPACE_OR_COMMA)
    if tags is not None and len(tags) != len(words):
        raise LineError(
            f"expected as many tags as words, found {len(tags)} in {shown(layout.names[layout.tag or 0])} and "
            f"{len(words)} in {shown(layout.names[layout.token])}"
        )
    if tags is not None and names is not None:
        tags = [_spelled(tag, names) for tag in tags]
    lists = ((name, _items(cells[i], _SPACE_OR_COMMA)) for name, i in layout.extra if cells[i])
    columns = {name: items for name, items in lists if len(items) == len(words)}
    name = "" if layout.sentence is None else cells[layout.sentence]
    frame = SentenceName(name) if name else None
    return Sentence(words, tags, columns=columns, path=path, lines=(number,), frame=frame)


def _items(cell: str, separator: re.Pattern[str] = _SPACE) -> list[str]:
    """The items of a list as JSON, Python or NumPy writes it, or else the parts of a text."""
    if len(cell) < 2 or (cell[0], cell[-1]) != ("[", "]"):
        return [part for part in separator.split(cell) if part]
    try:
        return list(map(str, parse_json(cell)))
    except JSONSyntaxError:
        matches = list(_NAME_IN_LIST.finditer(cell, 1, len(cell) - 1))
        return [str(ast.literal_eval(match[1])) if match[1] else match[2] for match in matches]


def _spelled(tag: str, names: Sequence[str]) -> str:
    """The name of a tag that is a number."""
    if not tag.isdecimal() or int(tag) >= len(names):
        raise LineError(f"expected ids 0 to {len(names) - 1} as tags, found {shown(tag)}")
    return names[int(tag)]


def read(
    source: Source,
    *,
    tokens: Column | None = None,
    tags: Column | None = None,
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    gold: bool = True,
) -> Iterator[Sentence]:
    """The sentences of a file of cells, or of the first sheet of an Excel or OpenDocument file.

    Args:
        source: the file.
        tokens: the column of the tokens, by name or index.
        tags: the column of the tags, by name or index.
        columns: names of all columns, instead of those in the first row; then the file need not have any.
        names: the names of tags that are whole numbers.
        gold: False for files to be tagged, whose column of tags is not read.

    """
    rows = _rows(source) if source.data is None else _rows_of_sheet(source)
    number, first = next((row for row in rows if any(row[1])), (0, None))
    if first is None:
        return
    header, ahead = first, list(islice(rows, _SAMPLE))
    try:
        if columns is not None:
            if len(columns) != len(first):
                raise LineError(f"expected the {len(columns)} columns {', '.join(columns)}, found {len(first)}")
            if not _is_header(first, [cells for _, cells in ahead], columns):
                ahead.insert(0, (number, first))
            header = columns
        layout = Layout.of(header, [cells for _, cells in ahead], tokens, tags)
    except LineError as problem:
        raise DataError(f"{source.name}:{number}: {problem}") from None
    layout = layout if gold else replace(layout, tag=None)
    roles = {"tokens": layout.token, "tags": layout.tag, "sentences": layout.sentence}
    found = ", ".join(f"{role} in {layout.names[i]}" for role, i in roles.items() if i is not None)
    source.report.reason += f"; {found}"

    def fail(problem: str, line: int, cells: Sequence[str]) -> None:
        source.fail(problem, line, ",".join(cells))

    def again(name: str, line: int) -> None:
        source.report.change(AGAIN, f"{source.name}:{line}: {name}")

    try:
        yield from sentences_of_rows(chain(ahead, rows), layout, path=source.name, fail=fail, again=again, names=names)
    except LineError as problem:  # a tag without a name
        raise DataError(f"{source.name}: {problem}") from None


def _is_header(first: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[str]) -> bool:
    """Whether the first row names the columns: by usual names, or where only the rows below have tags or numbers."""
    if position_of(TOKEN_NAMES, first) is not None or list(first) == list(columns):
        return True
    for names, form in ((TAG_NAMES, SPAN_LABEL), (SENTENCE_NAMES, _WITH_NUMBER)):
        column = position_of(names, columns)
        if column is not None and first[column] and not form.fullmatch(first[column]):
            below = [cells[column] for cells in rows if any(cells[column : column + 1])]
            if any(cell not in ("O", "o") for cell in below) and all(map(form.fullmatch, below)):
                return True
    return False


def _rows_of_sheet(source: Source) -> Iterator[Row]:
    pandas = needed("pandas", "excel", f"{source.name}: an Excel sheet")
    try:
        book = pandas.ExcelFile(io.BytesIO(source.data or b""))
        table = pandas.read_excel(book, header=None, dtype=str, na_filter=False)
    except ImportError as error:  # pandas names the package that reads this kind of file
        raise DataError(f"{source.name}: {error}") from None
    except Exception as error:  # whatever its readers make of a damaged file
        raise DataError(f"{source.name}: pandas cannot read it: {type(error).__name__}: {error}") from None
    for name in book.sheet_names[1:]:
        source.report.change("sheets behind the first, which are not read", str(name))
    for number, row in enumerate(table.itertuples(index=False), 1):
        yield number, [str(cell).strip() for cell in row]


def _rows(source: Source) -> Iterator[Row]:
    """The rows of a file; a quoted cell may go on over several lines."""
    head = [line for line in source.head.split("\n")[:-1] or [source.head] if line.strip()]
    marked = _SEPARATOR_LINE.fullmatch(head[0]) if head else None  # Excel's own way to say what separates cells
    delimiter = marked[1] if marked else delimiter_of(head[:1])
    # Quotation marks are characters like others in columns separated by tabs where some of them stand alone.
    is_quoted = delimiter in ",;" or all(cells_of(line, delimiter) is not None for line in head)
    start, pending = 0, ""
    for number, line in source.lines():
        if marked and not start and line == head[0]:
            continue
        text = f"{pending}\n{line}" if pending else line
        start = start if pending else number
        cells = cells_of(text, delimiter, quoted=is_quoted)
        if cells is not None or not is_quoted:
            pending = ""
            yield start, cells or []
        elif number - start < _LINES_OF_CELL and text.count('"') % 2:
            pending = text
        else:
            pending = ""
            source.fail(
                "expected a cell whose quotation marks are closed or doubled, found one that is not", start, text
            )
            yield start, []
    if pending:
        source.fail("expected a closing quotation mark, found the end of the file", start, pending.partition("\n")[0])


def delimiter_of(lines: Sequence[str]) -> str:
    """The mark that makes the most cells of the first line."""
    counts = {mark: len(cells_of(line, mark) or ()) for line in lines for mark in DELIMITERS_OF_CELLS}
    return max(counts, key=lambda mark: counts[mark], default=",")


class TableWriter:
    """Rows of CSV, the first time with a header above them; all sentences must have the same columns."""

    def __init__(self, delimiter: str = ",") -> None:
        self._delimiter = delimiter
        self._header: list[str] | None = None
        self._count = 0

    def rows(self, sentence: Sentence, columns: dict[str, Sequence[str]]) -> str:
        """A row for each token: the name or number of the sentence, and these columns."""
        self._count += 1
        if not len(sentence):
            return ""  # the numbers tell
        header = ["sentence", *columns]
        if self._header not in (None, header):
            refuse(sentence, f"expected the columns {', '.join(self._header or ())}, found {', '.join(header)}")
        frame = sentence.frame
        name = frame.name if isinstance(frame, SentenceName) else str(self._count)
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self._delimiter, lineterminator="\n")
        writer.writerows([] if self._header else [header])
        writer.writerows((name, *cells) for cells in zip(*columns.values(), strict=True))
        self._header = header
        return out.getvalue()


def write(sentences: Iterable[Sentence], *, delimiter: str = ",") -> Iterator[str]:
    """A header, and a row per token: its sentence, itself, further columns, and its tag."""
    if delimiter not in DELIMITERS_OF_CELLS:
        raise DataError(f"delimiter must be one of {', '.join(map(repr, DELIMITERS_OF_CELLS))}, got {delimiter!r:.80}")
    table = TableWriter(delimiter)
    for sentence in sentences:
        if not len(sentence):
            refuse(sentence, "a sentence without tokens has no rows in a table")
        yield table.rows(sentence, table_columns(sentence))


def table_columns(sentence: Sentence) -> dict[str, Sequence[str]]:
    """Tokens, further columns and tags by name."""
    name = "predicted" if "tag" in sentence.columns else "tag"  # beside the tags that a file had before it was tagged
    tags = {} if sentence.tags is None else {name: sentence.tags}
    for name in sentence.columns:
        if name in ("sentence", "token", *tags):
            refuse(sentence, f"a column named {name!r} would stand beside the one of that name")
    return {"token": sentence.tokens, **sentence.columns, **tags}


def write_excel(sentences: Iterable[Sentence]) -> NoReturn:
    """Refused: Excel opens CSV."""
    raise DataError("Excel sheets are only read: write csv, which Excel opens")
