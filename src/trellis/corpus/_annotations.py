"""Records of annotation tools: whose annotation counts, and which records are not gold at all.

Prodigy's rejected and ignored records, Label Studio's cancelled and skipped tasks and doccano's unapproved examples are
left out. Where several people annotated one text, one of them is chosen by name, or what more than half of them marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trellis.corpus._alignment import CharSpan
from trellis.corpus._errors import LeftOut, LineError
from trellis.corpus._json import RecordFields
from trellis.errors import shown

_NAMES = ("_annotator_id", "_session_id", "annotator")
_APPROVERS = ("annotation_approver", "annotations_approved_by")
_APPROVALS = ("approved", "is_approved", "is_confirmed")


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
