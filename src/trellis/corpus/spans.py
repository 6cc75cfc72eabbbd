"""JSON Lines with a text and its labelled character spans, in the shapes that annotation tools export.

    {"text": "Ada wrote", "label": [[0, 3, "PER"]]}                                 doccano; also "labels"
    {"text": "Ada wrote", "entities": [{"start_offset": 0, "end_offset": 3,         doccano with relations
     "label": "PER"}]}
    {"text": "Ada wrote", "spans": [{"start": 0, "end": 3, "label": "PER"}]}        Prodigy
    ["Ada wrote", {"entities": [[0, 3, "PER"]]}]                                    spaCy's training tuples
    {"data": {"text": "Ada wrote"}, "annotations": [{"result": [{"type": "labels",  Label Studio, as lines
     "value": {"start": 0, "end": 3, "labels": ["PER"]}}]}]}                        or as one array

Ends are exclusive. The text is tokenized; a token that a span cuts is split there, unless `align` says otherwise, and
the report counts it. White space at the edge of a span is not a token. Records that were rejected, skipped or not
approved are left out and counted. A span that has a text of its own must have it at its offsets, which then may count
UTF-16 code units, as JavaScript does.

What to do about a span that cuts a token (`align`):

    split    the token is split there: nothing of the annotation is lost
    expand   the span takes the whole token
    skip     the sentence is left out
    error    the sentence is refused
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, get_args

from trellis.corpus.annotations import (
    Annotators,
    CharSpan,
    Marked,
    Quoted,
    Selection,
    check_gold,
    parse_task,
    placed,
    quoted,
)
from trellis.corpus.jsonl import RecordFields, dumps, records
from trellis.corpus.source import LeftOut, LineError, Source, names_of, refuse_illegal
from trellis.errors import DataError, TagError, shown
from trellis.tags import Scheme, Span, spans_from_tags, tags_from_spans
from trellis.text import Offsets, Sentence, Splitter, Tokenizer, get_tokenizer

Align = Literal["split", "expand", "skip", "error"]
Note = Callable[[str, str], None]
"""Told of each change: its kind, and what it was."""
SPAN_FIELDS = ("label", "labels", "entities", "spans")


def read(
    source: Source,
    *,
    tokenizer: str | Tokenizer | Splitter = "words",
    scheme: Scheme | str = Scheme.IOB2,
    align: Align = "split",
    annotator: str | None = None,
    majority: bool = False,
    unapproved: bool = False,
    gold: bool = True,
) -> Iterator[Sentence]:
    """One sentence per record: the tokens of its text, tagged by its spans if it has a field for them.

    Args:
        source: the file.
        tokenizer: how texts are split.
        scheme: how spans are written as tags.
        align: what to do about a span that cuts a token: split the token, expand the span, skip the sentence, or error.
        annotator: whose annotations to take where several people annotated.
        majority: take the spans that more than half of them marked.
        unapproved: take doccano's examples that nobody approved, too.
        gold: False takes only the texts, of all records; all fields are the frames of the sentences.

    """
    check_align(align)
    choice = Selection(annotator, majority, unapproved, gold)
    tokenize = get_tokenizer(tokenizer)
    target = Scheme.parse(scheme) if isinstance(scheme, str) else scheme
    for marked in _marked(source, choice):
        try:
            yield _sentence(marked, source, tokenize, target, align)
        except LeftOut as reason:
            source.report.left_out[str(reason)] += 1
        except (LineError, TagError) as problem:
            source.fail(str(problem), marked.number, marked.line)


def _marked(source: Source, choice: Selection) -> Iterator[Marked]:
    """The texts that count; what is wrong or left out is reported."""
    people = Annotators(choice)
    for number, line, record in records(source):
        try:
            for found in parse_record(record, choice):
                fields = None if choice.gold else RecordFields(record[1] if isinstance(record, list) else record)
                marked = replace(found, number=number, line=line, fields=fields)
                # A flat record is one annotation; a task of Label Studio has all of them.
                is_flat = isinstance(record, dict) and not isinstance(record.get("data"), dict)
                decided = people.take(record, marked) if choice.gold and is_flat else marked
                if decided is not None:
                    yield decided
        except LeftOut as reason:
            source.report.left_out[str(reason)] += 1
        except LineError as problem:
            source.fail(str(problem), number, line)
    yield from people.decided()


def _sentence(marked: Marked, source: Source, tokenize: Tokenizer, scheme: Scheme, align: Align) -> Sentence:
    offsets: Sequence[Offsets] = tokenize(marked.text)
    tags = None
    if marked.spans is not None:
        place = f"{source.name}:{marked.number}"
        changes: list[tuple[str, str]] = []
        offsets, spans = aligned(marked.text, offsets, marked.spans, align, lambda *change: changes.append(change))
        tags = tags_from_spans(spans, len(offsets), scheme)
        if marked.utf16:
            source.report.change("texts whose spans count UTF-16 code units, read so", place)
        for kind, what in changes:  # noted once nothing can be refused any more
            source.report.change(kind, f"{place}: {what}")
    tokens = tuple(marked.text[start:end] for start, end in offsets)
    return Sentence(tokens, tags, marked.text, offsets, {}, source.name, (marked.number,), marked.fields)


def write(sentences: Iterable[Sentence], *, shape: str = "label", scheme: Scheme | str = Scheme.IOB2) -> Iterator[str]:
    """A record a line; a sentence without text is written with its tokens separated by spaces.

    `shape` is one of ``label`` and ``entities`` (``[start, end, label]``), ``spans`` (objects) and
    ``label_studio``.
    """
    if shape not in _SHAPES:
        raise DataError(f"unknown shape {shape!r}, expected one of {', '.join(_SHAPES)}")
    source = Scheme.parse(scheme) if isinstance(scheme, str) else scheme
    for sentence in sentences:
        whole = sentence.with_text()
        spans = None
        if whole.tags is not None:
            refuse_illegal(whole, source)
            offsets = whole.offsets or ()
            found = spans_from_tags(whole.tags, source)
            spans = [CharSpan(offsets[span.start][0], offsets[span.end - 1][1], span.label) for span in found]
        yield dumps(_shaped(shape, whole.text or "", spans))


def parse_record(record: Any, choice: Selection = Selection()) -> list[Marked]:  # noqa: B008 - it is frozen
    """The texts of a record with their spans; None where it has no field for them."""
    if isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict):
        record = {**record[1], "text": record[0]}
    if not isinstance(record, dict):
        raise LineError("expected a JSON object with a text and its spans")
    if isinstance(record.get("data"), dict):
        return parse_task(record, choice)
    if not isinstance(record.get("text"), str):
        raise LineError(f"expected a string in 'text', found the fields {names_of(record)}")
    fields = [name for name in SPAN_FIELDS if name in record]
    field = next((name for name in fields if isinstance(record[name], list)), fields[0] if fields else None)
    if not choice.gold:
        return [Marked(record["text"], None)]
    check_gold(record, choice)
    if field is None:
        return [Marked(record["text"], None)]
    if not isinstance(record[field], list):
        raise LineError(f"expected a list of spans in {field!r}, found {shown(record[field])}")
    spans, utf16 = placed(record["text"], [_parse_span(value) for value in record[field]])
    return [Marked(record["text"], spans, utf16=utf16)]


def _parse_span(value: Any) -> Quoted:
    """A span from ``[start, end, label]`` or from an object under any of the usual names."""
    found: Sequence[Any] = ()
    if isinstance(value, list):
        found = value
    elif isinstance(value, dict):
        label = value.get("label", value.get("labels"))
        if isinstance(label, list) and len(label) == 1:
            label = label[0]
        start, end = value.get("start", value.get("start_offset")), value.get("end", value.get("end_offset"))
        found = start, end, label
    if len(found) != 3 or [type(part) for part in found] != [int, int, str]:
        raise LineError(f"expected a span as [start, end, label], found {shown(value)}")
    return quoted(CharSpan(*found), value if isinstance(value, dict) else {})


_SHAPES = ("label", "entities", "spans", "label_studio")


def _shaped(shape: str, text: str, spans: list[CharSpan] | None) -> dict[str, Any]:
    if shape == "label_studio":
        task: dict[str, Any] = {"data": {"text": text}}
        if spans is not None:
            fixed = {"from_name": "label", "to_name": "text", "type": "labels"}
            values = [{"start": start, "end": end, "labels": [label]} for start, end, label in spans]
            task["annotations"] = [{"result": [{**fixed, "value": value} for value in values]}]
        return task
    if spans is None:
        return {"text": text}
    return {"text": text, shape: [span._asdict() if shape == "spans" else list(span) for span in spans]}


def check_align(how: str) -> None:
    """Refuse anything but the four ways."""
    if how not in get_args(Align):
        raise DataError(f"align must be 'split', 'expand', 'skip' or 'error', got {how!r:.80}")


def aligned(
    text: str, offsets: Sequence[Offsets], spans: Sequence[CharSpan], how: Align, note: Note
) -> tuple[Sequence[Offsets], list[Span]]:
    """The tokens, split where they have to be, and the spans over them."""
    for span in spans:
        if not 0 <= span.start < span.end <= len(text):
            size = len(text)
            raise LineError(
                f"{_name(span)} does not lie in the text of {size} characters: expected 0 <= start < end <= {size}"
            )
    if how == "split":
        offsets = _split(text, offsets, sorted({edge for span in spans for edge in span[:2]}), note)
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    return offsets, [_token_span(span, text, starts, ends, how, note) for span in spans]


def _split(text: str, offsets: Sequence[Offsets], edges: list[int], note: Note) -> list[Offsets]:
    """The tokens, each cut at the edges that lie within it."""
    result: list[Offsets] = []
    for start, end in offsets:
        inner = edges[bisect_right(edges, start) : bisect_left(edges, end)]
        marks = [start, *inner, end]
        result += pairwise(marks)
        if inner:
            parts = " ".join(text[a:b] for a, b in pairwise(marks))
            note("tokens split where a span cuts them", f"{shown(text[start:end])} became {shown(parts)}")
    return result


def _token_span(span: CharSpan, text: str, starts: list[int], ends: list[int], how: Align, note: Note) -> Span:
    """The tokens that a character span covers."""
    first, last = bisect_right(ends, span.start), bisect_left(starts, span.end) - 1
    if first > last:
        raise LineError(f"{_name(span)} covers no token, only {shown(text[span.start : span.end])}")
    for index, cut in ((first, starts[first] < span.start), (last, ends[last] > span.end)):
        if cut and how == "skip":
            raise LeftOut("sentences with a span that cuts a token")
        if cut and how == "error":
            token = text[starts[index] : ends[index]]
            raise LineError(
                f"{_name(span)} cuts the token {shown(token)} at [{starts[index]}, {ends[index]}]; expected spans to "
                "begin and end with a token: align 'split' splits the token, 'expand' takes all of it, 'skip' leaves "
                "the sentence out"
            )
    if starts[first] < span.start or ends[last] > span.end:
        whole = text[starts[first] : ends[last]]
        note("spans expanded to whole tokens", f"{shown(text[span.start : span.end])} became {shown(whole)}")
    return Span(first, last + 1, span.label)


def _name(span: CharSpan) -> str:
    return f"the span [{span.start}, {span.end}, {shown(span.label)}]"
