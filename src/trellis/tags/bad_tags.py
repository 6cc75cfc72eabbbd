"""Illegal gold tags: where they are, and what to do about them.

    error    refuse them, naming the first and how many there are
    repair   read them as conlleval and seqeval's default mode do: an I after O begins a span
    drop     leave the whole sequences out

A label that the scheme cannot read is repaired by its spelling (``o`` is O, ``b_PER`` is B-PER); one that spells
nothing counts as outside every span.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from trellis.errors import TagError, number_of
from trellis.tags.detection import Detection, respelled
from trellis.tags.scheme import Role, Scheme, Style
from trellis.tags.spans import make_label, parse_label, spans_from_tags, tags_from_spans, validate_tags

OnBadTags = Literal["error", "repair", "drop"]
SHOWN = 10
"""Changes that a summary lists one by one."""


class BadTag(NamedTuple):
    """An illegal tag: the sequence and the position it stands at, and why it is illegal."""

    sequence: int
    position: int
    tag: str
    reason: str


class TagChange(NamedTuple):
    """A tag that was repaired."""

    sequence: int
    position: int
    before: str
    after: str


@dataclass(frozen=True)
class Mended:
    """Tags that are legal in their scheme, and what was done for it."""

    tags: list[Sequence[str] | None]
    """One item per sequence; None where it was dropped."""
    bad: list[BadTag] = field(default_factory=list)
    changes: list[TagChange] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """How many sequences were left out."""
        return sum(tags is None for tags in self.tags)


def check_on_bad_tags(how: str) -> None:
    """Refuse anything but the three ways."""
    if how not in get_args(OnBadTags):
        raise TagError(f"on_bad_tags must be 'error', 'repair' or 'drop', got {how!r:.80}")


def mend(sequences: Sequence[Sequence[str]], found: Detection, how: OnBadTags) -> Mended:
    """The sequences in the spelling of the scheme, with bad tags repaired or dropped.

    With "error" the bad tags are returned untouched, for whoever knows their places to refuse.
    """
    check_on_bad_tags(how)
    tags: list[Sequence[str] | None] = list(sequences)
    if found.spelling:
        tags = [[found.spelling.get(tag, tag) for tag in sequence] for sequence in sequences]
    if found.scheme is Scheme.PLAIN or found.is_clean:
        return Mended(tags)
    bad = [
        BadTag(number, violation.position, violation.tag, violation.reason)
        for number, sequence in enumerate(tags)
        for violation in validate_tags(sequence or (), found.scheme, style=found.style)
    ]
    changes: list[TagChange] = []
    # What cannot be read counts as outside: O, or where no token is (segmented text) a span of one token.
    has_outside = any("O" in (sequence or ()) for sequence in tags) or Role.S not in found.scheme.letters.values()
    outside = "O" if has_outside else make_label(Role.S, "", found.scheme, found.style)
    for number in dict.fromkeys(item.sequence for item in bad):
        before = tags[number] or ()
        if how == "drop":
            tags[number] = None
        elif how == "repair":
            after = repair_tags(before, found.scheme, style=found.style, outside=outside)
            changed = [i for i in range(len(after)) if after[i] != before[i]]
            changes += [TagChange(number, i, before[i], after[i]) for i in changed]
            tags[number] = after
    return Mended(tags, bad, changes)


Place = Callable[[int, int], str]
"""How messages call a token: from its sequence and its position to, say, ``train.conll:17``."""


def refusal(mended: Mended, found: Detection, place: Place) -> str:
    """The first bad tag, where it is, and how many there are."""
    first = mended.bad[0]
    sequences = len({item.sequence for item in mended.bad})
    return (
        f"{place(first.sequence, first.position)}: {named(first, found)}; {counted(len(mended.bad))} "
        f"in {sequences:,} of {number_of(len(mended.tags), 'sentence')}"
    )


def named(bad: BadTag, found: Detection) -> str:
    """A bad tag, and why it is one."""
    return f"bad tag {bad.tag!r:.80}: {bad.reason} ({found.scheme.value})"


def counted(count: int) -> str:
    """How many bad tags there are."""
    return f"{count:,} bad tag{'s' * (count > 1)}"


def summary(mended: Mended, found: Detection, place: Place) -> list[str]:
    """What was done about bad tags, if there were any: the first ten with their places, then how many more."""
    if not mended.bad:
        return []
    if mended.dropped:
        done = f"{mended.dropped:,} of {number_of(len(mended.tags), 'sentence')} dropped for bad tags"
        items = [f"{place(bad.sequence, bad.position)}: {bad.tag}: {bad.reason}" for bad in mended.bad[:SHOWN]]
        more = len(mended.bad) - SHOWN
    else:
        done = f"{len(mended.changes):,} tag{'s' * (len(mended.changes) > 1)} repaired"
        changes = mended.changes[:SHOWN]
        items = [f"{place(change.sequence, change.position)}: {change.before} -> {change.after}" for change in changes]
        more = len(mended.changes) - SHOWN
    items += [f"and {more:,} more"] if more > 0 else []
    return [f"{done} ({found.scheme.value}):", *(f"  {item}" for item in items)]


def spelling_note(found: Detection) -> list[str]:
    """That the tags were written in another way, if they were."""
    if not found.spelling:
        return []
    return [f"the tags are {found.scheme.value} in another spelling; read {spellings(found)}"]


def spellings(found: Detection) -> str:
    """The first labels that were written in another way: ``b as B, e as E, ...``."""
    some = [f"{before} as {after}" for before, after in list(found.spelling.items())[:4]]
    return ", ".join(some) + ", ..." * (len(found.spelling) > len(some))


def repair_tags(tags: Sequence[str], scheme: Scheme, *, style: Style = Style.PREFIX, outside: str = "O") -> list[str]:
    """Legal tags with the spans that lenient reading finds; labels that cannot be read become `outside`."""
    read = [_readable(tag, scheme, style) or outside for tag in tags]
    return tags_from_spans(spans_from_tags(read, scheme, style=style), len(read), scheme, style=style)


def _readable(tag: str, scheme: Scheme, style: Style) -> str | None:
    for candidate in (tag, respelled(tag)):
        if candidate is not None:
            try:
                parse_label(candidate, scheme, style)
            except TagError:
                continue
            return candidate
    return None
