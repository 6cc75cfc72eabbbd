"""Records of annotation tools: texts with spans of characters, whose annotation counts, and which are not gold at all.

Prodigy's rejected and ignored records, Label Studio's cancelled and skipped tasks and doccano's unapproved examples are
left out. Where several people annotated one text, one of them is chosen by name, or what more than half of them marked.

Spans that also say which text they mark must have it at their offsets. Tools written in JavaScript count UTF-16 code
units: characters beyond U+FFFF, emoji above all, count as two.

Label Studio's tasks are plain text, HTML and dialogues:

    labels            {"start": 0, "end": 3, "labels": ["PER"]}
    hypertextlabels   {"start": "/p[1]/text()[1]", "startOffset": 0, "globalOffsets": {"start": 0, "end": 3}, ...}
    paragraphlabels   {"start": "0", "startOffset": 0, "end": "0", "endOffset": 3}: one text per utterance

Results of other types (choices, relations) say nothing about spans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import accumulate
from typing import Any, NamedTuple

from trellis.corpus.jsonl import RecordFields
from trellis.corpus.source import LeftOut, LineError
from trellis.errors import shown

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


@dataclass(frozen=True, slots=True)
class Selection:
    """Which annotations are wanted."""

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


def check_gold(record: dict[str, Any], choice: Selection) -> None:
    """Raise `LeftOut` for a record that those who annotated it did not accept."""
    answer = record.get("answer")
    if answer in ("reject", "ignore"):
        raise LeftOut(f"records with the answer {answer!r} (Prodigy)")
    unapproved = any(name in record and not record[name] for name in _APPROVERS) or any(
        record.get(name) is False for name in _APPROVALS
    )
    if unapproved and not choice.unapproved:
        raise LeftOut("unapproved examples (doccano)")


def annotator_of(record: dict[str, Any]) -> str | None:
    """The name of who annotated a record, where it has one."""
    return next((str(record[name]) for name in _NAMES if record.get(name) is not None), None)


def is_called(name: str, wanted: str) -> bool:
    """Whether an annotator is meant; Prodigy puts the name of the data before that of a session."""
    return name == wanted or name.endswith(f"-{wanted}")


def majority(annotations: Sequence[Iterable[CharSpan]]) -> list[CharSpan]:
    """The spans that more than half of the annotators marked."""
    votes = Counter(span for spans in annotations for span in set(spans))
    return sorted(span for span, count in votes.items() if 2 * count > len(annotations))


@dataclass(slots=True)
class Annotators:
    """Records of one text by several people, one after another anywhere in a file."""

    choice: Selection
    _first: dict[object, tuple[str, int]] = field(default_factory=dict)
    _groups: dict[object, list[Marked]] = field(default_factory=dict)

    def take(self, record: dict[str, Any], marked: Marked) -> Marked | None:
        """The record if it counts; None where it waits for the others of its text."""
        name = annotator_of(record)
        if self.choice.annotator is not None:
            if name is None:
                raise LineError(f"expected the name of an annotator, found none in {', '.join(_NAMES)}")
            if not is_called(name, self.choice.annotator):
                raise LeftOut("records of other annotators")
            return marked
        if name is None:
            return marked
        key = record.get("_input_hash", marked.text)
        if self.choice.majority:
            self._groups.setdefault(key, []).append(marked)
            return None
        other, number = self._first.setdefault(key, (name, marked.number))
        if other != name:
            raise LineError(
                f"{shown(other)} annotated the same text at line {number}, and {shown(name)} here; "
                "choose one with --annotator, or take the --majority"
            )
        return marked

    def decided(self) -> Iterator[Marked]:
        """What the majority says about each text, in the order of the first records."""
        for group in self._groups.values():
            first = group[0]
            spans = majority([own.spans or [] for own in group])
            yield replace(first, spans=spans, utf16=any(own.utf16 for own in group))


class Quoted(NamedTuple):
    """A span with the text that it says it marks, or None."""

    span: CharSpan
    quote: str | None


def quoted(span: CharSpan, value: dict[str, Any]) -> Quoted:
    """A span with the ``text`` of the object that it was read from."""
    quote = value.get("text")
    return Quoted(span, quote if isinstance(quote, str) else None)


def placed(text: str, spans: Sequence[Quoted]) -> tuple[list[CharSpan], bool]:
    """The spans in characters, and whether they were given in UTF-16 code units."""
    wrong = next((own for own in spans if not _fits(text, own)), None)
    if wrong is None:
        return [own.span for own in spans], False
    converted = _from_utf16(text, spans)
    if converted is not None and all(_fits(text, own) for own in converted):
        return [own.span for own in converted], True
    (start, end, label), quote = wrong
    raise LineError(
        f"expected {shown(quote)}, the text of the span, at [{start}, {end}, {shown(label)}], "
        f"found {shown(text[start:end] if 0 <= start <= end else '')}"
    )


def _fits(text: str, own: Quoted) -> bool:
    """Whether the quote stands there; tools may trim it, and Label Studio writes the end of a line as backslash, n."""
    (start, end, _), quote = own
    if quote is None:
        return True
    found = text[start:end] if 0 <= start <= end else ""
    return found == quote or found.strip() == quote.replace("\\n", "\n").strip()


def _from_utf16(text: str, spans: Sequence[Quoted]) -> list[Quoted] | None:
    """The spans with offsets that count characters; None where one lies outside or within a character."""
    units = accumulate((1 + (char > "\uffff") for char in text), initial=0)
    character = {unit: number for number, unit in enumerate(units)}
    edges = [(character.get(own.span.start), character.get(own.span.end)) for own in spans]
    found = [
        Quoted(CharSpan(start, end, own.span.label), own.quote)
        for own, (start, end) in zip(spans, edges, strict=True)
        if start is not None and end is not None
    ]
    return found if len(found) == len(spans) else None


def parse_task(task: dict[str, Any], choice: Selection) -> list[Marked]:
    """The texts of a task (one, or one per utterance) with their spans; None where it has no annotations at all."""
    data, annotations = task["data"], task.get("annotations", task.get("completions"))
    content = _content(data)
    items = annotations if isinstance(annotations, list) else []
    results = [item.get("result") for item in items if isinstance(item, dict)]
    types = {r.get("type") for own in results if isinstance(own, list) for r in own if isinstance(r, dict)}
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
    marked = [_spans(item, len(texts), page) for item in chosen]
    result = []
    for number, text in enumerate(texts):
        found = [placed(text, [span for place, span in spans if place == number]) for spans in marked]
        own = [spans for spans, _ in found]
        utf16 = any(utf16 for _, utf16 in found)
        result.append(Marked(text, own[0] if len(own) == 1 else majority(own), utf16=utf16))
    return result


def _content(data: dict[str, Any]) -> Any:
    named = [data[name] for name in ("text", "html", "dialogue") if isinstance(data.get(name), str | list)]
    found = (
        named
        or [value for value in data.values() if isinstance(value, str)]
        or [value for value in data.values() if isinstance(value, list)]
    )
    if not named and len(found) != 1:
        raise LineError("expected one text in 'data'")
    return found[0]


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
    found: list[tuple[int, Quoted]] = []
    for result in _objects(annotation.get("result"), "result"):
        kind, value = result.get("type", "labels"), result.get("value")
        if kind not in _TYPES:
            continue
        if not isinstance(value, dict):
            raise LineError(f"expected a span in 'value', found {shown(value)}")
        found.append(_span(kind, value, count, page))
    return found


def _span(kind: str, value: dict[str, Any], count: int, page: _Page | None) -> tuple[int, Quoted]:
    labels = value.get(kind, value.get("labels"))
    if not isinstance(labels, list) or len(labels) != 1 or not isinstance(labels[0], str):
        raise LineError(f"expected one label of a span, found {shown(value)}")
    if kind == "paragraphlabels":
        first, last = (str(value.get(name)) for name in ("start", "end"))
        if first != last or not first.isdecimal() or int(first) >= count:
            raise LineError(f"expected a span within one of {count} paragraphs, found one from {first} to {last}")
        number, start, end = int(first), value.get("startOffset"), value.get("endOffset")
    elif page is not None:
        number, (start, end) = 0, page.place(value)
    else:
        number, start, end = 0, value.get("start"), value.get("end")
    if type(start) is not int or type(end) is not int:
        raise LineError(f"expected a span with a start and an end, found {shown(value)}")
    return number, quoted(CharSpan(start, end, labels[0]), value)


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
        """Enter an element."""
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
        """A text node."""
        parent, seen = self._path[-1]
        seen["text()"] += 1
        self.nodes[f"{parent}/text()[{seen['text()']}]"] = self._size
        self._pieces.append(data)
        self._size += len(data)

    def place(self, value: dict[str, Any]) -> tuple[Any, Any]:
        """Start and end of a region in the text."""
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
