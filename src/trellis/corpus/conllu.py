"""CoNLL-U, the format of Universal Dependencies: ten columns, a blank line after each sentence.

    # text = Dámelo ya         comments stand before the words; this one is the raw text
    1-2  Dámelo  _  _ ...      a multiword token: the next words are its parts
    1    Da      dar  VERB ... ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
    1.1  ...                   an empty node, for ellipsis

Comments, multiword tokens and empty nodes take no part in tagging. They stay with their sentence, so that a file that
is read and written again differs in nothing but the tags.

Tags come from any of the ten columns, UPOS unless told otherwise. ``tags="form"`` reads word segmentation
instead: the words are joined, the tokens are their characters, and the tags say where a word begins and ends
(BMES).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from sys import intern

from trellis.corpus.conll import format_rows
from trellis.corpus.segmented import sentence_from_words
from trellis.corpus.sniff import SPAN_LABEL
from trellis.corpus.source import LineError, Source, refuse
from trellis.errors import DataError, shown
from trellis.text import Offsets, Sentence

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_TEXT = "# text = "


@dataclass(frozen=True, slots=True)
class Frame:
    """The lines of a sentence that are no words, each with the number of words before it."""

    tags: str | None
    """The column that the tags came from."""
    lines: tuple[tuple[int, str], ...]


def read(
    source: Source, *, tokens: str = "form", tags: str | None = "upos", columns: Sequence[str] | None = None
) -> Iterator[Sentence]:
    """Sentences of words; of the other columns, those in `columns` (by default all) are kept by name.

    ``tags="misc.NER"`` takes the tags from ``NER=...`` in MISC.
    """
    token = _index(tokens)
    field, _, name = (tags or "").partition(".")
    tag = None if tags is None else _index(field)
    others = [one for one in FIELDS[1:] if one not in (tokens, tags)] if columns is None else columns
    extra = [(one, _index(one)) for one in others]
    for lines, paragraph in source.paragraphs():
        frame: list[tuple[int, str]] = []
        text, numbers, rows = _words(source, lines, paragraph, frame)
        if not rows:
            continue
        cells = list(zip(*rows, strict=True))
        if tag == token:
            yield sentence_from_words(cells[token], path=source.name, line=numbers[0])
            continue
        labels = None if tag is None else cells[tag]
        if name and labels is not None:
            pairs = [[pair.partition("=") for pair in cell.split("|")] for cell in labels]
            labels = tuple(next((value for key, _, value in several if key == name), "") for several in pairs)
            if "" in labels:
                at = labels.index("")
                problem = f"expected {name}=... in the column {field}"
                source.fail(problem, numbers[at], "\t".join(rows[at]), whole=paragraph)
                continue
        words = tuple(map(intern, cells[token]))
        yield Sentence(
            words,
            None if labels is None else tuple(map(intern, labels)),
            text,
            None if text is None else _align(words, text),
            {one: tuple(map(intern, cells[i])) for one, i in extra},
            source.name,
            numbers,
            Frame(tags, tuple(frame)),
        )


def write(sentences: Iterable[Sentence], *, tags: str | None = None) -> Iterator[str]:
    """Each sentence with all that was around its words, or with its text if that is all that is known.

    Tags go to the column `tags`: by default the one they were read from, else UPOS, or ``misc.NER`` for those of spans.
    ``misc.NAME`` writes ``NAME=tag`` into MISC, beside what is there. Further columns go where their names say.
    """
    if tags is not None:
        _index(tags.partition(".")[0])
    for sentence in sentences:
        frame = sentence.frame if isinstance(sentence.frame, Frame) else None
        column = tags or (frame and frame.tags) or ("misc.NER" if _are_spans(sentence.tags or ()) else "upos")
        rows = format_rows(sentence, _columns(sentence, column.lower()), "\t")
        if frame is None:
            if sentence.text is not None and ("\n" in sentence.text or "\r" in sentence.text):
                refuse(sentence, "a text with a line break cannot be written as CoNLL-U")
            yield rows if sentence.text is None else f"{_TEXT}{sentence.text}\n{rows}"
        else:
            lines = rows.removesuffix("\n").split("\n")
            for position, line in reversed(frame.lines):
                lines.insert(position, line)
            yield "\n".join(lines) + "\n"


def _are_spans(tags: Sequence[str]) -> bool:
    """Whether these are labels of spans with types and O, and not parts of speech."""
    return bool(tags) and all(tag == "O" or (len(tag) > 1 and SPAN_LABEL.fullmatch(tag)) for tag in tags)


def _columns(sentence: Sentence, column: str) -> list[Sequence[str]]:
    blank = ("_",) * len(sentence)
    field, _, name = column.partition(".")
    tags = sentence.columns.get(field, blank) if sentence.tags is None else sentence.tags
    if name and sentence.tags is not None:
        cells = sentence.columns.get(field, blank)
        pairs = [f"{name.upper()}={tag}" for tag in tags]
        tags = [pair if cell == "_" else f"{cell}|{pair}" for cell, pair in zip(cells, pairs, strict=True)]
    ids = tuple(str(i) for i in range(1, len(sentence) + 1))
    known = {**sentence.columns, field: tags, "id": ids, "form": sentence.tokens}
    unknown = [name for name in known if name not in FIELDS]
    if unknown:
        refuse(
            sentence,
            f"CoNLL-U has no column {shown(unknown[0])}; it has {', '.join(FIELDS)}; --columns names those of IN",
        )
    return [known.get(name, blank) for name in FIELDS]


def _index(name: str) -> int:
    if name.lower() not in FIELDS:
        raise DataError(f"unknown column {name!r}, expected one of {', '.join(FIELDS)}")
    return FIELDS.index(name.lower())


def _words(
    source: Source, lines: range, paragraph: str, frame: list[tuple[int, str]]
) -> tuple[str | None, list[int], list[list[str]]]:
    """The raw text and the words of a sentence with their lines; no words, once reported, if one is bad.

    Lines that are no words are added to `frame`.
    """
    text = None
    numbers: list[int] = []
    rows: list[list[str]] = []
    for number, line in zip(lines, paragraph.split("\n"), strict=True):
        if line.startswith("#") and not rows:
            text = line[len(_TEXT) :] if line.startswith(_TEXT) else text
            source.report.ignored["comments"] += 1
            frame.append((0, line))
            continue
        try:
            row = line.split("\t")
            if _is_word(row, len(rows) + 1, source):
                numbers.append(number)
                rows.append(row)
            else:
                frame.append((len(rows), line))
        except LineError as problem:
            source.fail(str(problem), number, line, whole=paragraph)
            return None, [], []
    return text, numbers, rows


def _is_word(row: list[str], expected: int, source: Source) -> bool:
    """Whether this is the next word, and not a multiword token or an empty node."""
    if len(row) != len(FIELDS):
        raise LineError(f"expected {len(FIELDS)} columns separated by tabs, found {len(row)}")
    identifier = row[0]
    if identifier == str(expected):
        if not row[1]:
            raise LineError("expected a word, found an empty column")
        return True
    for mark, kind in (("-", "multiword tokens"), (".", "empty nodes")):
        first, separator, last = identifier.partition(mark)
        if separator and f"{first}{last}".isdecimal():
            source.report.ignored[kind] += 1
            return False
    raise LineError(f"expected the word with ID {expected}, found ID {shown(identifier)}")


def _align(words: Sequence[str], text: str) -> list[Offsets] | None:
    """Where the words stand in the text, or None where they do not spell it (contractions may not)."""
    offsets, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            return None
        end = start + len(word)
        offsets.append((start, end))
    return offsets
