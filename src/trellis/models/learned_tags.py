"""The labels that a model learns, and what is done about those that break their scheme."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trellis.errors import DataError, ModelError, warn
from trellis.models.data import Labelled, as_given
from trellis.tags import (
    Detection,
    OnBadTags,
    StateMap,
    TagSet,
    check_on_bad_tags,
    detect,
    mend,
    refusal,
    scheme_to_learn,
    summary,
)
from trellis.tags.bad_tags import SHOWN, spelling_note, spellings


def learned_tag_set(data: Labelled, scheme: str | None, constraints: bool, before: TagSet | None) -> TagSet:
    """The labels to learn: those of an earlier model first, then those of the data, at least two in all."""
    spelled = data.detect_spelled(scheme)
    found = as_given(spelled)
    _refuse_bad(data, found, constraints)
    tags = data.labels_in(found)
    if before is None:
        _tell_spelling(spelled)
    else:
        new = [label for label in tags.labels if label not in before]
        tags = TagSet((*before.labels, *new), before.scheme, before.style)
    if len(tags) < 2:
        only = f"only the label {tags.labels[0]!r} occurs" if len(tags) else "no label occurs"
        raise ModelError(f"there is nothing to learn: {only}, and a tagger chooses between at least two")
    return tags


def _tell_spelling(found: Detection) -> None:
    """Labels in another spelling are learned as they are, which costs spans and constraints: say so."""
    if found.spelling:
        warn(
            f"the labels look like {found.scheme.value} in another spelling ({spellings(found)}) and are learned as "
            "plain labels, without spans: on_bad_tags='repair' writes them as the scheme does, and scheme='plain' "
            "says that they are meant so"
        )


def check_held_out(dev: Labelled, tags: TagSet) -> None:
    """Refuse labels that the scheme cannot read; those that training lacks are fine, and count as missed."""
    found = detect(dev.strings(), scheme=tags.scheme, style=tags.style)
    if found.odd or found.spelling:
        odd = found.odd or dict.fromkeys(found.spelling, 1)
        _refuse_bad(dev, replace(found, odd=odd, spelling={}), constraints=False)
    unseen = Counter(label for own in dev.labels for label in own if label not in tags)
    if unseen:
        listed = ", ".join(f"{label} ({count:,})" for label, count in unseen.most_common(SHOWN))
        warn(
            f"held-out tokens with labels that the training data lack, which count as missed: {unseen.total():,}, "
            f"with {listed}{', ...' if len(unseen) > SHOWN else ''}"
        )


def learned_states(tags: TagSet, learn_scheme: str | None, legal: bool, before: StateMap | None) -> StateMap:
    """The states to learn: in the scheme of an earlier model, else in the one asked for.

    If sequences need not be `legal`, these are the labels: another scheme could not write all of them.
    """
    if before is not None:
        return StateMap.of(tags, before.scheme)
    return StateMap.of(tags, scheme_to_learn(tags, learn_scheme) if legal else None)


def mended(data: Labelled, scheme: str | None, how: OnBadTags) -> tuple[Labelled, list[int]]:
    """The data without bad tags, and which of the sentences were kept; what was done is a warning."""
    check_on_bad_tags(how)
    every = list(range(len(data.inputs)))
    if how == "error" or data.partial:
        return data, every
    found = data.detect_spelled(scheme) if how == "repair" else data.detect(scheme)
    result = mend(data.strings(), found, how)
    if not (result.bad or found.spelling):
        return data, every
    notes = [*spelling_note(found), *summary(result, found, data.place)]
    warn("\n".join(notes))
    kept = [i for i in every if result.tags[i] is not None]
    return Labelled([data.inputs[i] for i in kept], [result.tags[i] or () for i in kept], partial=False), kept


def _refuse_bad(data: Labelled, found: Detection, constraints: bool) -> None:
    """Labels that break the scheme would have probability zero, and those that it cannot read have no meaning."""
    if data.partial or not (found.odd or (constraints and found.violations)):
        return
    result = mend(data.strings(), found, "error")
    if data.shared is not None and not result.bad:
        raise DataError(f"labels of another process break the {found.scheme.value} scheme: see its message")
    problem = refusal(result, found, data.place)
    free = ", or set constraints=False" if not found.odd else ""
    raise DataError(
        f"{problem}: on_bad_tags='repair' reads them as seqeval does, 'drop' leaves these sentences out; "
        f"or give another scheme{free}"
    )
