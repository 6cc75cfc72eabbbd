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
                marked = replace(found, number=number, line=line, fields=None if choice.gold else _fields(record))
                own = people.take(record, marked) if choice.gold and _is_flat(record) else marked
                if own is not None:
                    yield own
        except LeftOut as reason:
            source.report.left_out[str(reason)] += 1
        except LineError as problem:
            source.fail(str(problem), number, line)
    yield from people.decided()


def _fields(record: Any) -> RecordFields:
    """All fields of a record that could be parsed."""
    return RecordFields(record[1] if isinstance(record, list) else record)


def _is_flat(record: Any) -> bool:
    """Whether a record is one annotation; a task of Label Studio has all of them."""
    return isinstance(record, dict) and not isinstance(record.get("data"), dict)


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
        spans = None if whole.tags is None else _char_spans(whole, whole.offsets or (), source)
        yield dumps(_SHAPES[shape](whole.text or "", spans))


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
    spans, utf16 = placed(record["text"], _parse_spans(record[field], field))
    return [Marked(record["text"], spans, utf16=utf16)]


def _parse_spans(values: Any, field: str) -> list[Quoted]:
    if not isinstance(values, list):
        raise LineError(f"expected a list of spans in {field!r}, found {shown(values)}")
    return [_parse_span(value) for value in values]


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


def _char_spans(sentence: Sentence, offsets: Sequence[Offsets], scheme: Scheme) -> list[CharSpan]:
    tags = sentence.tags or ()
    refuse_illegal(sentence, scheme)
    spans = spans_from_tags(tags, scheme)
    return [CharSpan(offsets[span.start][0], offsets[span.end - 1][1], span.label) for span in spans]


def _as_lists(field: str) -> Callable[[str, list[CharSpan] | None], dict[str, Any]]:
    def shape(text: str, spans: list[CharSpan] | None) -> dict[str, Any]:
        return {"text": text} if spans is None else {"text": text, field: [list(span) for span in spans]}

    return shape


def _as_objects(text: str, spans: list[CharSpan] | None) -> dict[str, Any]:
    return {"text": text} if spans is None else {"text": text, "spans": [span._asdict() for span in spans]}


def _as_label_studio(text: str, spans: list[CharSpan] | None) -> dict[str, Any]:
    task: dict[str, Any] = {"data": {"text": text}}
    if spans is not None:
        fixed = {"from_name": "label", "to_name": "text", "type": "labels"}
        values = [{"start": start, "end": end, "labels": [label]} for start, end, label in spans]
        task["annotations"] = [{"result": [{**fixed, "value": value} for value in values]}]
    return task


_SHAPES = {
    "label": _as_lists("label"),
    "entities": _as_lists("entities"),
    "spans": _as_objects,
    "label_studio": _as_label_studio,
}


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
        if cut:
            _settle(span, text[starts[index] : ends[index]], (starts[index], ends[index]), how)
    if starts[first] < span.start or ends[last] > span.end:
        whole = text[starts[first] : ends[last]]
        note("spans expanded to whole tokens", f"{shown(text[span.start : span.end])} became {shown(whole)}")
    return Span(first, last + 1, span.label)


def _settle(span: CharSpan, token: str, place: Offsets, how: Align) -> None:
    if how == "skip":
        raise LeftOut("sentences with a span that cuts a token")
    if how == "error":
        raise LineError(
            f"{_name(span)} cuts the token {shown(token)} at [{place[0]}, {place[1]}]; expected spans to begin and end "
            "with a token: align 'split' splits the token, 'expand' takes all of it, 'skip' leaves the sentence out"
        )


def _name(span: CharSpan) -> str:
    return f"the span [{span.start}, {span.end}, {shown(span.label)}]"
