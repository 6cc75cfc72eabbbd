"""brat's standoff format: a folder of texts (.txt), each with its annotations (.ann) beside it.

    note.txt    Ada slept in London.
    note.ann    T1<tab>PER 0 3<tab>Ada
                R1<tab>sleeps_in Arg1:T1 Arg2:T2

Lines that begin with T are spans, with offsets in characters; a span in several parts is read as one from the first to
the last. Those and the lines of other kinds, relations and notes, say, are counted. A text is split into sentences:
where a line ends, unless lines are wrapped, and where a sentence ends within a line. No span is cut by that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from pathlib import Path

from trellis.corpus.annotation_tools import (
    Align,
    CharSpan,
    Marked,
    Overlaps,
    characters_of_units,
    check_choices,
    sentence_of_spans,
)
from trellis.corpus.source import LeftOut, LineError, Source, StrPath, open_output, refuse, refuse_illegal
from trellis.errors import DataError, TagError, number_of, shown, some_of, warn
from trellis.tags import Scheme, spans_from_tags
from trellis.text import Offsets, Sentence, Splitter, Tokenizer, split_sentences, splitter

_SPAN = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
_LINE = re.compile(r"[^\r\n]+")
_BREAKS = re.compile(r"[\r\n]+")
_WRAPPED = re.compile(r"[^\s.!?:;。！？][ \t]*\n[ \t]*[^\W\d_A-Z]")
_KINDS = {
    "R": "relations (R)",
    "*": "relations (*)",
    "E": "events (E)",
    "A": "attributes (A)",
    "M": "attributes (M)",
    "N": "references (N)",
    "#": "notes (#)",
}
_SENTENCES = 100  # of one document that is made of a corpus


@dataclass(frozen=True, slots=True)
class Document:
    """The text that a sentence begins in, as its frame; `name` is that of its files without the suffix."""

    name: str
    text: str
    start: int


def read(
    source: Source,
    *,
    tokenizer: str | Tokenizer | Splitter = "words",
    scheme: Scheme | str = Scheme.IOB2,
    align: Align = "split",
    overlaps: Overlaps = "error",
    gold: bool = True,
) -> Iterator[Sentence]:
    """The sentences of a folder with .ann files, at any depth, or of one .ann file; ``gold=False`` takes only texts."""
    check_choices(align, overlaps)
    tokenize = tokenizer if callable(tokenizer) else splitter(tokenizer).offsets
    target, root = Scheme.parse(scheme), Path(source.name)
    files = [root] if source.folder is None else sorted(source.folder.rglob("*.ann"))
    if not files:
        raise DataError(f"{source.name}: expected a folder of brat with .ann files, found a folder without any")
    texts = set() if source.folder is None else {path.with_suffix(".ann") for path in source.folder.rglob("*.txt")}
    if alone := len(texts.difference(files)):
        source.report.left_out["texts without annotations (.ann)"] += alone
    for path in files:
        annotations, whole = source.beside(path), source.beside(path.with_suffix(".txt"))
        text = whole.decoded()
        spans = _spans(annotations, text) if gold else []
        name = path.stem if source.folder is None else path.relative_to(root).with_suffix("").as_posix()
        for start, end in _sentences(text, spans):
            inside = [CharSpan(a - start, b - start, label) for a, b, label in spans if start <= a < end]
            number = text.count("\n", 0, start) + 1
            marked = Marked(text[start:end], inside if gold else None, number)
            try:
                sentence = sentence_of_spans(marked, whole, tokenize, target, align, overlaps)
                yield replace(sentence, frame=Document(name, text, start))
            except LeftOut as reason:
                source.report.left_out[str(reason)] += 1
            except (LineError, TagError) as problem:
                whole.fail(str(problem), number, text[start:end].partition("\n")[0])


def _spans(annotations: Source, text: str) -> list[CharSpan]:
    """The spans of a file of annotations; all else in it is counted."""
    spans: list[CharSpan] = []
    report, units = annotations.report, characters_of_units(text)
    for number, line in annotations.lines():
        where = f"{annotations.name}:{number}"
        if line.strip() and not line.startswith("T"):
            report.change(f"{_KINDS.get(line[0], 'other lines')} of brat, which are not read", where)
        if not line.startswith("T"):
            continue
        match = _SPAN.fullmatch(line.rstrip())
        if match is None:
            annotations.fail("expected a span as T1<tab>LABEL START END<tab>text", number, line)
            continue
        edges = map(int, re.split("[ ;]", match[2]))
        given = list(zip(edges, edges, strict=True))
        in_units = [(units.get(a, -1), units.get(b, -1)) for a, b in given]
        parts = next((parts for parts in (given, in_units) if _are_at(text, parts, match[3])), None)
        if parts is None:
            where_text = [text[max(a, 0) : max(b, 0)] for a, b in given]
            problem = f"expected the text {shown(match[3] or '')} at {match[2]}, found {shown(' '.join(where_text))}"
            annotations.fail(f"{problem} in a text of {len(text)} characters", number, line)
            continue
        if parts is not given:
            report.change("spans that count UTF-16 code units, read so", where)
        span = CharSpan(parts[0][0], parts[-1][1], match[1])
        if any(text[a:b].strip() for (_, a), (b, _) in pairwise(parts)):
            change = f"{shown(match[3])} became {shown(text[span.start : span.end])}"
            report.change("spans in several parts, read as one from the first to the last", f"{where}: {change}")
        spans.append(span)
    return sorted(spans)


def _are_at(text: str, parts: Sequence[Offsets], quote: str | None) -> bool:
    """Whether the parts of a span lie one behind the other in the text, and are what the annotation quotes."""
    edges = [0, *(edge for part in parts for edge in part), len(text)]
    in_order = all(a <= b for a, b in pairwise(edges)) and edges[1] < edges[-2]
    return in_order and (not quote or " ".join(text[a:b] for a, b in parts).split() == quote.split())


def _sentences(text: str, spans: list[CharSpan]) -> Iterator[Offsets]:
    """Start and end of each sentence; a span that goes on in the next one joins both."""
    lines = [(0, len(text))]
    if not _WRAPPED.search(text):
        lines = [match.span() for match in re.finditer(r"[^\n]+", text)]
    parts = [(start + a, start + b) for start, end in lines for a, b in split_sentences(text[start:end])]
    ends = iter(spans)
    span, sentence = next(ends, None), None
    for start, end in parts:
        if sentence is not None and start >= sentence[1]:
            yield sentence
            sentence = None
        sentence = (start if sentence is None else sentence[0], max(end, 0 if sentence is None else sentence[1]))
        while span is not None and span.start < sentence[1]:
            sentence = (sentence[0], max(sentence[1], span.end))
            span = next(ends, None)
    if sentence is not None:
        yield sentence


def write(folder: StrPath, sentences: Iterable[Sentence], *, scheme: Scheme | str = Scheme.IOB2) -> None:
    """Write documents into a folder: those that the sentences were read from, else new ones, a sentence per line."""
    target, source, names = Path(folder), Scheme.parse(scheme), set[str]()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror or error}; expected a folder for brat") from None
    for name, group in _documents(sentences):
        if name in names:
            refuse(group[0], f"expected the sentences of the document {name} one after another, found others between")
        names.add(name)
        frame, text, lines = group[0].frame, "", list[str]()
        for sentence in group:
            whole = sentence.with_text()
            start = sentence.frame.start if isinstance(sentence.frame, Document) else len(text)
            text += f"{whole.text}\n"
            refuse_illegal(sentence, source)
            for first, last, label in spans_from_tags(sentence.tags or (), source):
                if not label or re.search(r"\s", label):
                    refuse(
                        sentence, f"{shown(label)} cannot be the label of a span in brat: it is empty or has a space"
                    )
                begin, end = (whole.offsets or ())[first][0], (whole.offsets or ())[last - 1][1]
                quote = (whole.text or "")[begin:end]
                parts = ";".join(
                    f"{start + begin + m.start()} {start + begin + m.end()}" for m in _LINE.finditer(quote)
                )
                lines.append(f"T{len(lines) + 1}\t{label} {parts}\t{_BREAKS.sub(' ', quote)}\n")
        text = frame.text if isinstance(frame, Document) else text
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix, content in ((".txt", text), (".ann", "".join(lines))):
            with open_output(path.parent / f"{path.name}{suffix}") as file:
                file.write(content.encode())
    others = sorted(str(path.relative_to(target)) for path in target.rglob("*.ann"))
    if others := [name for name in others if name.removesuffix(".ann") not in names]:
        warn(f"{folder} has {number_of(len(others), 'other document')}, that it had before: {some_of(others)}")


def _documents(sentences: Iterable[Sentence]) -> Iterator[tuple[str, list[Sentence]]]:
    """Names of documents and their sentences; a new one has a hundred sentences of one file."""

    def document(sentence: Sentence) -> tuple[bool, str]:
        if isinstance(sentence.frame, Document):
            return True, sentence.frame.name
        return False, "text" if sentence.path in (None, "<stdin>") else Path(str(sentence.path)).name.partition(".")[0]

    count = Counter[str]()
    for (is_whole, name), run in groupby(sentences, document):
        while group := list(run if is_whole else islice(run, _SENTENCES)):
            count[name] += 1
            yield name if is_whole else f"{name}-{count[name]:03}", group
