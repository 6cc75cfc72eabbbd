"""Texts with labelled character spans, as JSON Lines in the shapes that annotation tools export.

    {"text": "Ada wrote", "label": [[0, 3, "PER"]]}                                 doccano; also "labels"
    {"text": "Ada wrote", "entities": [{"start_offset": 0, "end_offset": 3,         doccano with relations
     "label": "PER"}]}
    {"text": "Ada wrote", "spans": [{"start": 0, "end": 3, "label": "PER"}]}        Prodigy
    ["Ada wrote", {"entities": [[0, 3, "PER"]]}]                                    spaCy's training tuples
    {"data": {"text": "Ada wrote"}, "annotations": [{"result": [{"type": "labels",  Label Studio, as lines
     "value": {"start": 0, "end": 3, "labels": ["PER"]}}]}]}                        or as one array

Ends are exclusive. A span that says which text it marks must have that text at its offsets, which may then count UTF-16
code units, as JavaScript does: characters beyond U+FFFF, emoji above all, count as two.

The text is tokenized. White space at the edge of a span is not a token. What to do about a span that cuts a token
(`align`):

    split    the token is split there, and the report counts it: nothing of the annotation is lost
    expand   the span takes the whole token
    skip     the sentence is left out
    error    the sentence is refused

A token has one tag, so of spans that overlap only one can stay (`overlaps`): the longest, or the first; with error none
does. Those that go are counted and shown.

Prodigy's rejected and ignored records, Label Studio's cancelled and skipped tasks and doccano's unapproved examples are
left out and counted. Where several people annotated one text, one of them is chosen by name, or what more than half of
them marked.

Label Studio's tasks are plain text, HTML and dialogues:

    labels            {"start": 0, "end": 3, "labels": ["PER"]}
    hypertextlabels   {"start": "/p[1]/text()[1]", "startOffset": 0, "globalOffsets": {"start": 0, "end": 3}, ...}
    paragraphlabels   {"start": "0", "startOffset": 0, "end": "0", "endOffset": 3}: one text per utterance

Results of other types (choices, relations) say nothing about spans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, get_args

from trellis.corpus.jsonl import RecordFields, dumps, records
from trellis.corpus.source import LeftOut, LineError, Source, names_of, refuse_illegal
from trellis.errors import DataError, TagError, shown
from trellis.tags import Scheme, Span, spans_from_tags, tags_from_spans
from trellis.text import Offsets, Sentence, Splitter, Tokenizer, splitter

Align = Literal["split", "expand", "skip", "error"]
Overlaps = Literal["longest", "first", "error"]
Changes = list[tuple[str, str]]
"""The kind of each change, and what it was."""
SPAN_FIELDS = ("label", "labels", "entities", "spans")
_NAMES = ("_annotator_id", "_session_id", "annotator")
_APPROVERS = ("annotation_approver", "annotations_approved_by")
_APPROVALS = ("approved", "is_approved", "is_confirmed")
_TYPES = ("labels", "hypertextlabels", "paragraphlabels")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


class CharSpan(NamedTuple):
    """Characters ``start`` to ``end - 1`` with a label."""

    start: int
    end: int
    label: str


Quoted = tuple[CharSpan, str | None]
"""A span, and the text that it says it marks, if it does."""


@dataclass(frozen=True, slots=True)
class Selection:
    annotator: str | None = None
    majority: bool = False
    unapproved: bool = False
    gold: bool = True
    """False: only the texts are wanted, of all records."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A text and the spans marked in it; None where nothing is said about spans."""

    text: str
    spans: list[CharSpan] | None
    number: int = 0
    line: str = ""
    utf16: bool = False
    """Whether the offsets of its spans were given in UTF-16 code units."""
    fields: RecordFields | None = None


def read(
    source: Source,
    *,
    tokenizer: str | Tokenizer | Splitter = "words",
    scheme: Scheme | str = Scheme.IOB2,
    align: Align = "split",
    overlaps: Overlaps = "error",
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
        overlaps: which of overlapping spans stays: longest, first, or error.
        annotator: whose annotations to take where several people annotated.
        majority: take the spans that more than half of them marked.
        unapproved: take doccano's examples that nobody approved, too.
        gold: False takes only the texts, of all records; all fields are the frames of the sentences.

    """
    check_choices(align, overlaps)
    choice = Selection(annotator, majority, unapproved, gold)
    tokenize = tokenizer if callable(tokenizer) else splitter(tokenizer).offsets
    target = Scheme.parse(scheme)
    for marked in _marked(source, choice):
        try:
            yield sentence_of_spans(marked, source, tokenize, target, align, overlaps)
        except LeftOut as reason:
            source.report.left_out[str(reason)] += 1
        except (LineError, TagError) as problem:
            source.fail(str(problem), marked.number, marked.line)


def check_choices(align: str, overlaps: str) -> None:
    """Refuse other ways to treat spans that cut tokens or overlap than those that exist."""
    for name, value, known in (("align", align, get_args(Align)), ("overlaps", overlaps, get_args(Overlaps))):
        if value not in known:
            raise DataError(f"{name} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, got {value!r:.80}")


def _marked(source: Source, choice: Selection) -> Iterator[Marked]:
    """The texts that count; what is wrong or left out is reported."""
    first_annotators: dict[object, tuple[str, int]] = {}  # of each text, with the line
    annotations: dict[object, list[Marked]] = {}  # of each text, where the majority decides
    for number, line, record in records(source):
        # A flat record is one annotation; a task of Label Studio has all of them.
        is_flat = isinstance(record, dict) and not isinstance(record.get("data"), dict)
        try:
            for parsed in parse_record(record, choice):
                fields = None if choice.gold else RecordFields(record[1] if isinstance(record, list) else record)
                marked = replace(parsed, number=number, line=line, fields=fields)
                annotator = _annotator(record, choice.annotator) if choice.gold and is_flat else None
                if annotator is not None and choice.annotator is None:
                    text = record.get("_input_hash", marked.text)
                    if choice.majority:
                        annotations.setdefault(text, []).append(marked)
                        continue
                    other, other_line = first_annotators.setdefault(text, (annotator, number))
                    if other != annotator:
                        raise LineError(
                            f"{shown(other)} annotated the same text at line {other_line}, and {shown(annotator)} "
                            "here; choose one with --annotator, or take the --majority"
                        )
                yield marked
        except LeftOut as reason:
            source.report.left_out[str(reason)] += 1
        except LineError as problem:
            source.fail(str(problem), number, line)
    for group in annotations.values():
        spans = majority([marked.spans or [] for marked in group])
        yield replace(group[0], spans=spans, utf16=any(marked.utf16 for marked in group))


def _annotator(record: dict[str, Any], wanted: str | None) -> str | None:
    """Who annotated a record, if it says so; it is left out if somebody else is wanted."""
    name = next((str(record[field]) for field in _NAMES if record.get(field) is not None), None)
    if wanted is not None and name is None:
        raise LineError(f"expected the name of an annotator, found none in {', '.join(_NAMES)}")
    if wanted is not None and name is not None and not is_called(name, wanted):
        raise LeftOut("records of other annotators")
    return name


def sentence_of_spans(
    marked: Marked, source: Source, tokenize: Tokenizer, scheme: Scheme, align: Align, overlaps: Overlaps
) -> Sentence:
    """The tokens of a text, tagged by its spans; what is changed for that is reported."""
    offsets: Sequence[Offsets] = tokenize(marked.text)
    tags = None
    if marked.spans is not None:
        where = f"{source.name}:{marked.number}"
        changes: Changes = []
        offsets, spans = aligned(marked.text, offsets, marked.spans, align, changes)
        spans = _without_overlaps(spans, marked.spans, marked.text, overlaps, changes)
        tags = tags_from_spans(spans, len(offsets), scheme)
        if marked.utf16:
            source.report.change("texts whose spans count UTF-16 code units, read so", where)
        for kind, what in changes:  # noted once nothing can be refused any more
            source.report.change(kind, f"{where}: {what}")
    tokens = tuple(marked.text[start:end] for start, end in offsets)
    return Sentence(tokens, tags, marked.text, offsets, {}, source.name, (marked.number,), marked.fields)


def write(sentences: Iterable[Sentence], *, shape: str = "label", scheme: Scheme | str = Scheme.IOB2) -> Iterator[str]:
    """One record per line; a sentence without text is written with its tokens separated by spaces.

    `shape` is one of ``label`` and ``entities`` (``[start, end, label]``), ``spans`` (objects) and
    ``label_studio``.
    """
    if shape not in _SHAPES:
        raise DataError(f"unknown shape {shape!r}, expected one of {', '.join(_SHAPES)}")
    source = Scheme.parse(scheme)
    for sentence in sentences:
        whole = sentence.with_text()
        spans = None
        if whole.tags is not None:
            refuse_illegal(whole, source)
            offsets = whole.offsets or ()
            of_tokens = spans_from_tags(whole.tags, source)
            spans = [CharSpan(offsets[span.start][0], offsets[span.end - 1][1], span.label) for span in of_tokens]
        yield dumps(_shaped(shape, whole.text or "", spans))


def parse_record(record: Any, choice: Selection) -> list[Marked]:
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
    answer = record.get("answer")
    if answer in ("reject", "ignore"):
        raise LeftOut(f"records with the answer {answer!r} (Prodigy)")
    unapproved = any(name in record and not record[name] for name in _APPROVERS) or any(
        record.get(name) is False for name in _APPROVALS
    )
    if unapproved and not choice.unapproved:
        raise LeftOut("unapproved examples (doccano)")
    if field is None:
        return [Marked(record["text"], None)]
    if not isinstance(record[field], list):
        raise LineError(f"expected a list of spans in {field!r}, found {shown(record[field])}")
    spans, utf16 = in_characters(record["text"], [_parse_span(value) for value in record[field]])
    return [Marked(record["text"], spans, utf16=utf16)]


def _parse_span(value: Any) -> Quoted:
    """A span from ``[start, end, label]`` or from an object under any of the usual names."""
    parts: Sequence[Any] = ()
    if isinstance(value, list):
        parts = value
    elif isinstance(value, dict):
        label = value.get("label", value.get("labels"))
        if isinstance(label, list) and len(label) == 1:
            label = label[0]
        start, end = value.get("start", value.get("start_offset")), value.get("end", value.get("end_offset"))
        parts = start, end, label
    if len(parts) != 3 or [type(part) for part in parts] != [int, int, str]:
        raise LineError(f"expected a span as [start, end, label], found {shown(value)}")
    return CharSpan(*parts), _quote(value) if isinstance(value, dict) else None


def _quote(value: dict[str, Any]) -> str | None:
    return value["text"] if isinstance(value.get("text"), str) else None


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


def aligned(
    text: str, offsets: Sequence[Offsets], spans: Sequence[CharSpan], how: Align, changes: Changes
) -> tuple[Sequence[Offsets], list[Span]]:
    """The tokens, split where they have to be, and the spans over them; what is changed is added to `changes`."""
    for span in spans:
        if not 0 <= span.start < span.end <= len(text):
            size = len(text)
            raise LineError(
                f"{_name(span)} does not lie in the text of {size} characters: expected 0 <= start < end <= {size}"
            )
    if how == "split":
        offsets = _split(text, offsets, sorted({edge for span in spans for edge in span[:2]}), changes)
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    return offsets, [_token_span(span, text, starts, ends, how, changes) for span in spans]


def _split(text: str, offsets: Sequence[Offsets], edges: list[int], changes: Changes) -> list[Offsets]:
    """The tokens, each cut at the edges that lie within it."""
    result: list[Offsets] = []
    for start, end in offsets:
        inner = edges[bisect_right(edges, start) : bisect_left(edges, end)]
        marks = [start, *inner, end]
        result += pairwise(marks)
        if inner:
            parts = " ".join(text[a:b] for a, b in pairwise(marks))
            changes.append(("tokens split where a span cuts them", f"{shown(text[start:end])} became {shown(parts)}"))
    return result


def _token_span(span: CharSpan, text: str, starts: list[int], ends: list[int], how: Align, changes: Changes) -> Span:
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
        changed = f"{shown(text[span.start : span.end])} became {shown(whole)}"
        changes.append(("spans expanded to whole tokens", changed))
    return Span(first, last + 1, span.label)


def _without_overlaps(
    spans: Sequence[Span], marked: Sequence[CharSpan], text: str, how: Overlaps, changes: Changes
) -> list[Span]:
    """The spans that share no token; those that go are told in characters."""
    pairs = sorted({*zip(spans, marked, strict=True)})  # the same span marked twice is one
    if all(a.end <= b.start for (a, _), (b, _) in pairwise(pairs)):
        return [span for span, _ in pairs]
    order = pairs if how != "longest" else sorted(pairs, key=lambda pair: (pair[1].start - pair[1].end, pair))
    chosen: list[tuple[Span, CharSpan]] = []
    for span, where in order:
        over = next((other for one, other in chosen if span.start < one.end and one.start < span.end), None)
        if over is None:
            chosen.append((span, where))
            continue
        lost, stays = (f"{_name(one)} {shown(text[one.start : one.end])}" for one in (where, over))
        if how == "error":
            raise LineError(
                f"{lost} and {stays} overlap, and a token has one tag; --overlaps longest or first (in Python "
                "overlaps=) takes one of them"
            )
        changes.append(("overlapping spans left out", f"{lost} overlaps {stays}"))
    return sorted(span for span, _ in chosen)


def _name(span: CharSpan) -> str:
    return f"the span [{span.start}, {span.end}, {shown(span.label)}]"


def is_called(name: str, wanted: str) -> bool:
    """Whether an annotator is meant; Prodigy puts the name of the data before that of a session."""
    return name == wanted or name.endswith(f"-{wanted}")


def majority(annotations: Sequence[Iterable[CharSpan]]) -> list[CharSpan]:
    """The spans that more than half of the annotators marked."""
    votes = Counter(span for spans in annotations for span in set(spans))
    return sorted(span for span, count in votes.items() if 2 * count > len(annotations))


def in_characters(text: str, spans: Sequence[Quoted]) -> tuple[list[CharSpan], bool]:
    """The spans with offsets that count characters, and whether they were given in UTF-16 code units."""
    wrong = next((span for span in spans if not _fits(text, *span)), None)
    if wrong is None:
        return [span for span, _ in spans], False
    character = characters_of_units(text)
    edges = [(character.get(span.start, -1), character.get(span.end, -1)) for span, _ in spans]
    converted = [CharSpan(*pair, span.label) for pair, (span, _) in zip(edges, spans, strict=True)]
    quotes = [quote for _, quote in spans]
    if all(min(pair) >= 0 for pair in edges) and all(map(partial(_fits, text), converted, quotes)):
        return converted, True
    (start, end, label), quote = wrong
    raise LineError(
        f"expected {shown(quote)}, the text of the span, at [{start}, {end}, {shown(label)}], "
        f"found {shown(text[start:end] if 0 <= start <= end else '')}"
    )


def characters_of_units(text: str) -> dict[int, int]:
    """The number of the character that begins at each UTF-16 code unit; none begins within a character."""
    units = accumulate((1 + (char > "\uffff") for char in text), initial=0)
    return {unit: number for number, unit in enumerate(units)}


def _fits(text: str, span: CharSpan, quote: str | None) -> bool:
    """Whether the quote stands there; tools may trim it, and Label Studio writes the end of a line as backslash, n."""
    if quote is None:
        return True
    marked = text[span.start : span.end] if 0 <= span.start <= span.end else ""
    return marked == quote or marked.strip() == quote.replace("\\n", "\n").strip()


def parse_task(task: dict[str, Any], choice: Selection) -> list[Marked]:
    """The texts of a task (one, or one per utterance) with their spans; None where it has no annotations at all."""
    data, annotations = task["data"], task.get("annotations", task.get("completions"))
    content = _content(data)
    items = annotations if isinstance(annotations, list) else []
    results = [item.get("result") for item in items if isinstance(item, dict)]
    flat = [result for several in results if isinstance(several, list) for result in several]
    types = {result.get("type") for result in flat if isinstance(result, dict)}
    is_html = "hypertextlabels" in types or ("html" in data and "text" not in data)
    page = _Page(content) if isinstance(content, str) and is_html else None
    if page is not None:
        texts = [page.text]
    elif isinstance(content, str):
        texts = [content]
    elif all(isinstance(item, dict) and isinstance(item.get("text"), str) for item in content):
        texts = [item["text"] for item in content]
    else:
        raise LineError("expected a list of objects with a 'text' in 'data'")
    if annotations is None or not choice.gold:
        return [Marked(text, None) for text in texts]
    chosen = _chosen(_objects(annotations, "annotations"), choice)
    by_annotation = [_spans(item, len(texts), page) for item in chosen]
    tagged = []
    for number, text in enumerate(texts):
        read = [in_characters(text, [span for i, span in spans if i == number]) for spans in by_annotation]
        spans = read[0][0] if len(read) == 1 else majority([spans for spans, _ in read])
        tagged.append(Marked(text, spans, utf16=any(utf16 for _, utf16 in read)))
    return tagged


def _content(data: dict[str, Any]) -> Any:
    named = [data[name] for name in ("text", "html", "dialogue") if isinstance(data.get(name), str | list)]
    candidates = (
        named
        or [value for value in data.values() if isinstance(value, str)]
        or [value for value in data.values() if isinstance(value, list)]
    )
    if not named and len(candidates) != 1:
        raise LineError("expected one text in 'data'")
    return candidates[0]


def _chosen(annotations: list[dict[str, Any]], choice: Selection) -> list[dict[str, Any]]:
    """The annotations that count: one, or all where the majority is asked for."""
    valid = [item for item in annotations if not (item.get("was_cancelled") or item.get("skipped"))]
    if not valid:
        raise LeftOut("tasks that were cancelled or skipped" if annotations else "tasks without annotations")
    if choice.annotator is not None:
        valid = [item for item in valid if any(is_called(name, choice.annotator) for name in _names(item))]
        if not valid:
            raise LeftOut("tasks of other annotators")
    if len(valid) > 1 and not choice.majority:
        names = ", ".join("/".join(_names(item)) or "?" for item in valid)
        raise LineError(
            f"expected one annotation of the task, found {len(valid)} by {names}; "
            "choose one with --annotator, or take the --majority"
        )
    return valid


def _names(annotation: dict[str, Any]) -> list[str]:
    """All that an annotator may be called: number, e-mail address, user name, full name."""
    by = annotation.get("completed_by")
    if not isinstance(by, dict):
        return [] if by is None else [str(by)]
    full = " ".join(str(by[part]) for part in ("first_name", "last_name") if by.get(part))
    known = [by.get("email"), by.get("username"), by.get("id"), full]
    return [str(name) for name in known if name not in (None, "")]


def _spans(annotation: dict[str, Any], count: int, page: _Page | None) -> list[tuple[int, Quoted]]:
    """The spans of an annotation, each with the number of its text in the task."""
    spans: list[tuple[int, Quoted]] = []
    for result in _objects(annotation.get("result"), "result"):
        kind, value = result.get("type", "labels"), result.get("value")
        if kind not in _TYPES:
            continue
        if not isinstance(value, dict):
            raise LineError(f"expected a span in 'value', found {shown(value)}")
        labels = value.get(kind, value.get("labels"))
        if not isinstance(labels, list) or len(labels) != 1 or not isinstance(labels[0], str):
            raise LineError(f"expected one label of a span, found {shown(value)}")
        if kind == "paragraphlabels":
            first, last = (str(value.get(name)) for name in ("start", "end"))
            if first != last or not first.isdecimal() or int(first) >= count:
                raise LineError(f"expected a span within one of {count} paragraphs, found one from {first} to {last}")
            number, start, end = int(first), value.get("startOffset"), value.get("endOffset")
        elif page is not None:
            number, (start, end) = 0, page.offsets(value)
        else:
            number, start, end = 0, value.get("start"), value.get("end")
        if type(start) is not int or type(end) is not int:
            raise LineError(f"expected a span with a start and an end, found {shown(value)}")
        spans.append((number, (CharSpan(start, end, labels[0]), _quote(value))))
    return spans


def _objects(values: Any, field: str) -> list[dict[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise LineError(f"expected a list of objects in {field!r}")
    return values


class _Page(HTMLParser):
    """The text of an HTML page, and where each of its text nodes begins, by XPath."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self._size = 0
        self._path: list[tuple[str, Counter[str]]] = [("", Counter())]
        self.nodes: dict[str, int] = {}
        self.feed(html)
        self.close()
        self.text = "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        parent, seen = self._path[-1]
        seen[tag] += 1
        if tag not in _VOID:
            self._path.append((f"{parent}/{tag}[{seen[tag]}]", Counter()))

    def handle_endtag(self, tag: str) -> None:
        """Leave the innermost element of that name, if one is open."""
        for depth in range(len(self._path) - 1, 0, -1):
            if self._path[depth][0].rpartition("/")[2].startswith(f"{tag}["):
                del self._path[depth:]
                return

    def handle_data(self, data: str) -> None:
        parent, seen = self._path[-1]
        seen["text()"] += 1
        self.nodes[f"{parent}/text()[{seen['text()']}]"] = self._size
        self._pieces.append(data)
        self._size += len(data)

    def offsets(self, value: dict[str, Any]) -> tuple[Any, Any]:
        offsets = value.get("globalOffsets")
        if isinstance(offsets, dict):
            return offsets.get("start"), offsets.get("end")
        return self._offset(value, "start"), self._offset(value, "end")

    def _offset(self, value: dict[str, Any], edge: str) -> int:
        path, offset = value.get(edge), value.get(f"{edge}Offset")
        steps = [step if step.endswith("]") else f"{step}[1]" for step in str(path).strip("/").split("/")]
        node = self.nodes.get("/" + "/".join(steps))
        if node is None or type(offset) is not int:
            raise LineError(f"expected the XPath of a text of the page in {edge!r}, found {shown(path)}")
        return node + offset
