"""Label Studio's tasks: plain text, HTML and dialogues, by one annotator or several.

    labels            {"start": 0, "end": 3, "labels": ["PER"]}
    hypertextlabels   {"start": "/p[1]/text()[1]", "startOffset": 0, "globalOffsets": {"start": 0, "end": 3}, ...}
    paragraphlabels   {"start": "0", "startOffset": 0, "end": "0", "endOffset": 3}: one text per utterance

Results of other types (choices, relations) say nothing about spans.
"""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Any

from trellis.corpus._alignment import CharSpan
from trellis.corpus._annotations import Marked, Selection, is_called, majority
from trellis.corpus._errors import LeftOut, LineError
from trellis.corpus._quotes import Quoted, placed, quoted
from trellis.errors import shown

_TYPES = ("labels", "hypertextlabels", "paragraphlabels")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)

Spans = list[tuple[int, Quoted]]
"""The number of a text of the task, and a span in it."""


def parse_task(task: dict[str, Any], choice: Selection) -> list[Marked]:
    """The texts of a task (one, or one per utterance) with their spans; None where it has no annotations at all."""
    content, annotations = _content(task["data"]), task.get("annotations", task.get("completions"))
    page = _Page(content) if isinstance(content, str) and _is_html(task, annotations) else None
    texts = _texts(content) if page is None else [page.text]
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


def _is_html(task: dict[str, Any], annotations: Any) -> bool:
    items = annotations if isinstance(annotations, list) else []
    results = [item.get("result") for item in items if isinstance(item, dict)]
    types = {r.get("type") for own in results if isinstance(own, list) for r in own if isinstance(r, dict)}
    return "hypertextlabels" in types or ("html" in task["data"] and "text" not in task["data"])


def _content(data: dict[str, Any]) -> Any:
    named = [data[name] for name in ("text", "html", "dialogue") if isinstance(data.get(name), str | list)]
    found = named or [value for value in data.values() if isinstance(value, str)] or _dialogues(data)
    if not named and len(found) != 1:
        raise LineError("expected one text in 'data'")
    return found[0]


def _dialogues(data: dict[str, Any]) -> list[Any]:
    return [value for value in data.values() if isinstance(value, list)]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not all(isinstance(item, dict) and isinstance(item.get("text"), str) for item in content):
        raise LineError("expected a list of objects with a 'text' in 'data'")
    return [item["text"] for item in content]


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


def _spans(annotation: dict[str, Any], count: int, page: _Page | None) -> Spans:
    found: Spans = []
    for result in _objects(annotation.get("result"), "result"):
        kind, value = result.get("type", "labels"), result.get("value")
        if kind not in _TYPES:
            continue
        if not isinstance(value, dict):
            raise LineError(f"expected a span in 'value', found {shown(value)}")
        found.append(_span(kind, value, count, page))
    return found


def _span(kind: str, value: dict[str, Any], count: int, page: _Page | None) -> tuple[int, Quoted]:
    label = _label(value.get(kind, value.get("labels")), value)
    if kind == "paragraphlabels":
        number, start, end = _paragraph(value, count)
    elif page is not None:
        number, (start, end) = 0, page.place(value)
    else:
        number, start, end = 0, value.get("start"), value.get("end")
    if type(start) is not int or type(end) is not int:
        raise LineError(f"expected a span with a start and an end, found {shown(value)}")
    return number, quoted(CharSpan(start, end, label), value)


def _label(labels: Any, value: Any) -> str:
    if not isinstance(labels, list) or len(labels) != 1 or not isinstance(labels[0], str):
        raise LineError(f"expected one label of a span, found {shown(value)}")
    return labels[0]


def _paragraph(value: dict[str, Any], count: int) -> tuple[int, Any, Any]:
    first, last = (str(value.get(name)) for name in ("start", "end"))
    if first != last or not first.isdecimal() or int(first) >= count:
        raise LineError(f"expected a span within one of {count} paragraphs, found one from {first} to {last}")
    return int(first), value.get("startOffset"), value.get("endOffset")


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
