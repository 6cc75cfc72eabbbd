"""JSON Lines with a text and its labelled character spans, in the shapes that annotation tools export.

    {"text": "Ada wrote", "label": [[0, 3, "PER"]]}                                 doccano; also "labels"
    {"text": "Ada wrote", "entities": [{"start_offset": 0, "end_offset": 3,         doccano with relations
     "label": "PER"}]}
    {"text": "Ada wrote", "spans": [{"start": 0, "end": 3, "label": "PER"}]}        Prodigy
    ["Ada wrote", {"entities": [[0, 3, "PER"]]}]                                    spaCy's training tuples
    {"data": {"text": "Ada wrote"}, "annotations": [{"result": [{"type": "labels",  Label Studio, as lines
     "value": {"start": 0, "end": 3, "labels": ["PER"]}}]}]}                        or as one array

Ends are exclusive. The text is tokenized, and each span must begin and end with a token: one that cuts a
token is an error, which a finer tokenizer (``tokenizer="characters"``) settles. White space at the edge of a
span is not a token.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from trellis.corpus._errors import LineError, names_of, refuse_illegal
from trellis.corpus._json import dumps, records
from trellis.corpus._source import Source
from trellis.errors import DataError, TagError
from trellis.tags import Scheme, Span, spans_from_tags, tags_from_spans
from trellis.text import Offsets, Sentence, Splitter, Tokenizer, get_tokenizer
from trellis.untrusted import shown

SPAN_FIELDS = ("label", "labels", "entities", "spans")


class CharSpan(NamedTuple):
    """Characters ``start`` to ``end - 1`` with a label."""

    start: int
    end: int
    label: str


def read(
    source: Source, *, tokenizer: str | Tokenizer | Splitter = "words", scheme: Scheme | str = Scheme.IOB2
) -> Iterator[Sentence]:
    """A sentence a record: the tokens of its text, tagged by its spans if it has a field for them."""
    tokenize = get_tokenizer(tokenizer)
    target = Scheme.parse(scheme) if isinstance(scheme, str) else scheme
    for number, line, record in records(source):
        try:
            text, spans = parse_record(record)
            offsets = tokenize(text)
            tags = None if spans is None else _tags(text, offsets, spans, target)
        except (LineError, TagError) as problem:
            source.fail(str(problem), number, line)
            continue
        tokens = tuple(text[start:end] for start, end in offsets)
        yield Sentence(tokens, tags, text, offsets, path=source.name, lines=(number,))


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


def parse_record(record: Any) -> tuple[str, list[CharSpan] | None]:
    """The text of a record and its spans; None where it has no field for them."""
    if isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict):
        record = {**record[1], "text": record[0]}
    if not isinstance(record, dict):
        raise LineError("expected a JSON object with a text and its spans")
    if isinstance(record.get("data"), dict):
        return _parse_label_studio(record)
    if not isinstance(record.get("text"), str):
        raise LineError(f"expected a string in 'text', found the fields {names_of(record)}")
    field = next((name for name in SPAN_FIELDS if name in record), None)
    return record["text"], None if field is None else _parse_spans(record[field], field)


def _parse_label_studio(task: dict[str, Any]) -> tuple[str, list[CharSpan] | None]:
    texts = [value for value in task["data"].values() if isinstance(value, str)]
    text = task["data"].get("text", texts[0] if len(texts) == 1 else None)
    if not isinstance(text, str):
        raise LineError("expected one text in 'data'")
    annotations = task.get("annotations", task.get("completions"))
    if annotations is None:
        return text, None
    valid = [item for item in _objects(annotations, "annotations") if not item.get("was_cancelled")]
    if len(valid) > 1:
        raise LineError(f"expected one annotation of the task, found {len(valid)}; export one annotator's")
    results = [result for item in valid for result in _objects(item.get("result"), "result")]
    values = [result.get("value") for result in results if result.get("type", "labels") == "labels"]
    return text, _parse_spans(values, "result") if valid else None


def _objects(values: Any, field: str) -> list[dict[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise LineError(f"expected a list of objects in {field!r}")
    return values


def _parse_spans(values: Any, field: str) -> list[CharSpan]:
    if not isinstance(values, list):
        raise LineError(f"expected a list of spans in {field!r}, found {shown(values)}")
    return [_parse_span(value) for value in values]


def _parse_span(value: Any) -> CharSpan:
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
    return CharSpan(*found)


def _tags(text: str, offsets: Sequence[Offsets], spans: list[CharSpan], scheme: Scheme) -> list[str]:
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    return tags_from_spans((_token_span(span, text, starts, ends) for span in spans), len(offsets), scheme)


def _token_span(span: CharSpan, text: str, starts: list[int], ends: list[int]) -> Span:
    """The tokens that a character span covers."""
    name = f"the span [{span.start}, {span.end}, {shown(span.label)}]"
    if not 0 <= span.start < span.end <= len(text):
        raise LineError(f"{name} does not lie in the text of {len(text)} characters")
    first, last = bisect_right(ends, span.start), bisect_left(starts, span.end) - 1
    if first > last:
        raise LineError(f"{name} covers no token, only {shown(text[span.start : span.end])}")
    for index, cut in ((first, starts[first] < span.start), (last, ends[last] > span.end)):
        if cut:
            token = text[starts[index] : ends[index]]
            raise LineError(
                f"{name} cuts the token {shown(token)} at [{starts[index]}, {ends[index]}]; "
                "expected spans to begin and end with a token"
            )
    return Span(first, last + 1, span.label)


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
