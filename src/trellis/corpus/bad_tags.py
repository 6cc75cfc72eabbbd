r"""Gold tags that are not legal in their scheme: where they are, and what to do about them.

    error    refuse them, naming the first by file and line, and how many there are
    repair   read them as conlleval and seqeval's default mode do: an I after O begins a span
    drop     leave whole sentences out

A label that the scheme cannot read is repaired by its spelling (``o`` is O, ``b_PER`` is B-PER); one that spells
nothing counts as outside every span.

    clean = mend_tags(corpus.read("train.conll"), on_bad_tags="repair")
    print("\n".join(clean.notes))          # what was changed, the first ten changes by file and line
    tagger.fit(clean.sentences)

`mend` does the same for bare sequences of tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from trellis.corpus.source import SHOWN, first_lines, refuse_tag
from trellis.errors import TagError, number_of, some_of
from trellis.tags import (
    Detection,
    Role,
    Scheme,
    Style,
    detect,
    detect_pairs,
    make_label,
    respelled,
    spans_from_tags,
    tags_from_spans,
    try_parse_label,
    validate_tags,
)
from trellis.text import Sentence

OnBadTags = Literal["error", "repair", "drop"]
Place = Callable[[int, int], str]
"""How messages call a token: from its sequence and its position to, say, ``train.conll:17``."""
_HINT = (
    '--on-bad-tags repair (in Python on_bad_tags="repair") reads them as seqeval does, drop leaves their sentences out'
)


class BadTag(NamedTuple):
    """An illegal tag: the sequence and the position it stands at, and why it is illegal."""

    sequence: int
    position: int
    tag: str
    reason: str


class TagChange(NamedTuple):
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
        return sum(tags is None for tags in self.tags)


def check_on_bad_tags(how: str) -> None:
    """Refuse anything but the three ways."""
    if how not in get_args(OnBadTags):
        raise TagError(f"on_bad_tags must be 'error', 'repair' or 'drop', got {how!r:.80}")


def mend(sequences: Sequence[Sequence[str]], detection: Detection, how: OnBadTags) -> Mended:
    """The sequences in the spelling of the scheme, with bad tags repaired or dropped.

    With "error" the bad tags are returned untouched: the caller knows their places, and refuses them.
    """
    check_on_bad_tags(how)
    tags: list[Sequence[str] | None] = list(sequences)
    if detection.spelling:
        tags = [[detection.spelling.get(tag, tag) for tag in sequence] for sequence in sequences]
    if detection.scheme is Scheme.PLAIN or detection.is_clean:
        return Mended(tags)
    bad = [
        BadTag(number, violation.position, violation.tag, violation.reason)
        for number, sequence in enumerate(tags)
        for violation in validate_tags(sequence or (), detection.scheme, style=detection.style)
    ]
    changes: list[TagChange] = []
    # What cannot be read counts as outside: O, or where no token is (segmented text) a span of one token.
    has_outside = any("O" in (sequence or ()) for sequence in tags) or Role.S not in detection.scheme.letters.values()
    outside = "O" if has_outside else make_label(Role.S, "", detection.scheme, detection.style)
    for number in dict.fromkeys(item.sequence for item in bad):
        sequence = tags[number] or ()
        if how == "drop":
            tags[number] = None
        elif how == "repair":
            repaired = repair_tags(sequence, detection.scheme, style=detection.style, outside=outside)
            pairs = enumerate(zip(sequence, repaired, strict=True))
            changes += [TagChange(number, i, old, new) for i, (old, new) in pairs if old != new]
            tags[number] = repaired
    return Mended(tags, bad, changes)


def repair_tags(tags: Sequence[str], scheme: Scheme, *, style: Style = Style.PREFIX, outside: str = "O") -> list[str]:
    """Legal tags with the spans that lenient reading finds; labels that cannot be read become `outside`."""
    read = []
    for tag in tags:
        spellings = (tag, respelled(tag) or tag)
        read.append(next((one for one in spellings if try_parse_label(one, scheme, style)), outside))
    return tags_from_spans(spans_from_tags(read, scheme, style=style), len(read), scheme, style=style)


def refusal(mended: Mended, detection: Detection) -> str:
    """The first bad tag, how many there are, and what to do about them."""
    sequences = len({item.sequence for item in mended.bad})
    counts = f"{number_of(len(mended.bad), 'bad tag')} in {sequences:,} of {number_of(len(mended.tags), 'sentence')}"
    return f"{_named(mended.bad[0], detection)}; {counts}: {_HINT}"


def _named(bad: BadTag, detection: Detection) -> str:
    return f"bad tag {bad.tag!r:.80}: {bad.reason} ({detection.scheme.value})"


def spellings(detection: Detection) -> str:
    """The first labels that were written in another way: ``b as B, e as E, ...``."""
    return some_of([f"{label} as {spelled}" for label, spelled in detection.spelling.items()], 4)


def notes_on(mended: Mended, detection: Detection, place: Place) -> list[str]:
    """For people: another spelling that was read, and the tags repaired or dropped, the first ten with their places."""
    notes = []
    if detection.spelling:
        notes.append(f"the tags are {detection.scheme.value} in another spelling; read {spellings(detection)}")
    if not mended.bad:
        return notes
    if mended.dropped:
        done = f"{mended.dropped:,} of {number_of(len(mended.tags), 'sentence')} dropped for bad tags"
        items = [(bad.sequence, bad.position, f"{bad.tag}: {bad.reason}") for bad in mended.bad]
    else:
        done = f"{number_of(len(mended.changes), 'tag')} repaired"
        items = [(change.sequence, change.position, f"{change.before} -> {change.after}") for change in mended.changes]
    listed = [f"{place(sequence, position)}: {what}" for sequence, position, what in items[:SHOWN]]
    return [*notes, f"{done} ({detection.scheme.value}):", *first_lines(listed, len(items))]


@dataclass(frozen=True, slots=True)
class MendedSentences:
    """Sentences with legal tags, the scheme they are written in, and what was done."""

    sentences: list[Sentence]
    detection: Detection
    notes: list[str]
    """For people: another spelling that was recognised, tags that were repaired, sentences that were dropped."""


def mend_tags(
    sentences: Iterable[Sentence],
    *,
    on_bad_tags: OnBadTags = "error",
    scheme: Scheme | None = None,
    detection: Detection | None = None,
) -> MendedSentences:
    """The sentences with legal tags in the scheme that is given, was detected, or fits best."""
    known = list(sentences)
    tagged = [i for i, sentence in enumerate(known) if sentence.tags is not None]
    sequences = [known[i].tags or () for i in tagged]
    detection = detection or detect(sequences, scheme=scheme)
    result = mend(sequences, detection, on_bad_tags)
    if result.bad and on_bad_tags == "error":
        first = result.bad[0]
        number = tagged[first.sequence]
        refuse_tag(known[number], first.position, first.tag, refusal(result, detection), number)

    def place(sequence: int, position: int) -> str:
        sentence = known[tagged[sequence]]
        line = sentence.line_of(position)
        if line is None or sentence.path is None:
            return f"sentence {tagged[sequence]}, position {position}"
        return f"{sentence.path}:{line}"

    tags = dict(zip(tagged, result.tags, strict=True))
    legal = [
        sentence if tags.get(i) is sentence.tags else sentence.with_tags(tags[i])
        for i, sentence in enumerate(known)
        if i not in tags or tags[i] is not None
    ]
    return MendedSentences(legal, detection, notes_on(result, detection, place))


def refuse_bad_tags(sentences: Iterable[Sentence], *, scheme: Scheme | None = None) -> Iterator[Sentence]:
    """The sentences as they come; once all are read, bad tags are refused.

    Memory does not grow with them: of each step from tag to tag, only the first sentence that has it is kept.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    first: list[tuple[int, Sentence]] = []
    for number, sentence in enumerate(sentences):
        known = len(pairs)
        pairs.update(pairwise(("", *sentence.tags, "")) if sentence.tags else ())
        if len(pairs) > known:
            first.append((number, sentence))
        yield sentence
    detection = detect_pairs(pairs, scheme=scheme)
    bad = mend([sentence.tags or () for _, sentence in first], detection, "error").bad
    if bad:
        total = number_of(detection.violations + sum(detection.odd.values()), "bad tag")
        number, sentence = first[bad[0].sequence]
        problem = f"{_named(bad[0], detection)}; {total}: {_HINT}"
        refuse_tag(sentence, bad[0].position, bad[0].tag, problem, number)
