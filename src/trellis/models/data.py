"""What a tagger is given: sentences or bare inputs, with or without labels, checked once when they come in.

A label may be only partly known: ``None`` says nothing about a token, a set or list of labels says that it is one of
them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import ConfigError, DataError, DataWarning, ModelError, TagError
from trellis.tags import (
    Detection,
    OnBadTags,
    Scheme,
    TagSet,
    TagStates,
    check_on_bad_tags,
    detect,
    mend,
    refusal,
    scheme_to_learn,
    summary,
)
from trellis.tags.detection import count_pairs, detect_pairs
from trellis.tags.mending import SHOWN, spelling_note, spellings
from trellis.text import Sentence, graphemes
from trellis.training.processes import Team
from trellis.untrusted import shown

Label = str | None | Iterable[str]
Supervised = Sequence[Sentence] | tuple[Sequence[Any], Sequence[Sequence[Label]]]


@dataclass(frozen=True, slots=True)
class LabelFacts:
    """What follows from all labels of a corpus, however many processes have a part of it."""

    pairs: dict[tuple[str, str], int]
    """How often each label follows another one."""
    choices: set[str]
    partial: bool

    @classmethod
    def merged(cls, parts: Sequence[LabelFacts]) -> LabelFacts:
        """Those of several processes together."""
        pairs: Counter[tuple[str, str]] = Counter()
        for part in parts:
            pairs.update(part.pairs)
        choices = set[str]().union(*(part.choices for part in parts))
        return cls(dict(pairs), choices, any(part.partial for part in parts))

    @property
    def labels(self) -> set[str]:
        """All that occur."""
        return self.choices.union(after for _, after in self.pairs if after)


@dataclass(frozen=True)
class Labelled:
    """Inputs (a `Sentence`, a list of tokens, or a list of features each) with their labels."""

    inputs: Sequence[Any]
    labels: Sequence[Sequence[Label]]
    partial: bool
    shared: LabelFacts | None = None
    """What the labels of all processes say, if several train together."""

    @classmethod
    def of(cls, inputs: Iterable[Any], labels: Iterable[Sequence[Label]] | None = None) -> Labelled:
        """Check that each input has its labels, one per token."""
        items = listed(inputs)
        if labels is None:
            tags: list[Sequence[Label]] = [_own_tags(i, item) for i, item in enumerate(items)]
        else:
            tags = [_checked(i, own) for i, own in enumerate(labels)]
            if len(tags) != len(items):
                raise DataError(f"{len(tags)} sequences of labels for {len(items)} sentences: expected as many")
        for i, (item, own) in enumerate(zip(items, tags, strict=True)):
            check_sized(i, item)
            if len(own) != len(item):
                raise DataError(f"{name_of(i, item)} has {len(item)} tokens and {len(own)} labels: expected as many")
        partial = any(type(label) is not str and not isinstance(label, str) for own in tags for label in own)
        if partial:
            _check_choices(items, tags)
        return cls(items, tags, partial)

    def part(self, start: int, stop: int) -> Labelled:
        """Some of the inputs, with their labels."""
        return Labelled(self.inputs[start:stop], self.labels[start:stop], self.partial)

    @property
    def lengths(self) -> IntArray:
        """Tokens of each sentence."""
        return np.fromiter(map(len, self.labels), dtype=np.int64, count=len(self.labels))

    def strings(self) -> list[list[str]]:
        """The labels, if all are fully known."""
        if self.partial:
            raise DataError("a label is only partly known: expected one label per token")
        return [[str(label) for label in own] for own in self.labels]

    def fragments(self) -> Iterator[Sequence[str]]:
        """The longest stretches of fully known labels."""
        for own in self.labels:
            if not self.partial:
                yield own  # type: ignore[misc]
                continue
            run: list[str] = []
            for label in own:
                if isinstance(label, str):
                    run.append(label)
                elif run:
                    yield run
                    run = []
            yield run

    def choices(self) -> set[str]:
        """The labels that occur among several possible ones of a token."""
        if self.shared is not None:
            return self.shared.choices
        sets = (label for own in self.labels for label in own if label is not None and not isinstance(label, str))
        return set(chain.from_iterable(sets)) if self.partial else set()

    @property
    def has_known(self) -> bool:
        """Whether any label is fully known."""
        if self.shared is not None:
            return any(after for _, after in self.shared.pairs)
        return any(map(len, self.fragments()))

    def detect(self, scheme: str | None) -> Detection:
        """The scheme given, or the one that fits best, and what does not fit it."""
        return _as_given(self.detect_spelled(scheme))

    def detect_spelled(self, scheme: str | None) -> Detection:
        """The same; labels that are only spelled in another way are read as the scheme writes them."""
        pairs = count_pairs(self.fragments()) if self.shared is None else self.shared.pairs
        return detect_pairs(pairs, scheme=None if scheme is None else Scheme.parse(scheme))

    def tag_set(self, scheme: str | None) -> TagSet:
        """The labels with the scheme given, or with the one that fits best; see `labels_in`."""
        return self.labels_in(self.detect(scheme))

    def labels_in(self, found: Detection) -> TagSet:
        """The labels, and those that the scheme implies: with B-LST there is I-LST."""
        labels = self.choices().union(*self.fragments()) if self.shared is None else self.shared.labels
        return TagSet.from_labels(labels, found.scheme, found.style, complete=True)

    def shared_by(self, team: Team) -> Labelled:
        """The same sentences, with what the labels of all processes say."""
        if team.count == 1:
            return self
        own = LabelFacts(count_pairs(self.fragments()), self.choices(), self.partial)
        facts = LabelFacts.merged(team.gather(own))
        return replace(self, partial=facts.partial, shared=facts)

    def place(self, sentence: int, position: int) -> str:
        """How messages call a token: by file and line where they are known."""
        item = self.inputs[sentence]
        line = item.line_of(position) if isinstance(item, Sentence) else None
        if line is not None and item.path is not None:
            return f"{item.path}:{line}"
        return self._place(sentence, position)

    def encode(self, tags: TagSet) -> IntArray:
        """Ids of all labels, flat; an unknown one is an error that names the sentence. Not for partial labels."""
        ids = {label: i for i, label in enumerate(tags.labels)}
        flat: Iterator[Any] = chain.from_iterable(self.labels)
        try:
            return np.fromiter(map(ids.__getitem__, flat), dtype=np.int64, count=int(self.lengths.sum()))
        except KeyError:
            self._raise_unknown(tags)

    def token_weights(self, tags: TagSet, label_weights: Mapping[str, float] | None) -> FloatArray | None:
        """``(N,)``: how much each token counts, by its label, which must be fully known; None if all count the same."""
        if label_weights is None:
            return None
        by_label = _weights_by_label(tags, label_weights)
        if self.partial:
            raise ModelError("label_weights need labels that are fully known")
        weights: FloatArray = by_label[self.encode(tags)]
        return weights

    def allowed(self, tags: TagSet) -> BoolArray:
        """``(N, L)``: the labels each token may have."""
        mask = np.zeros((int(self.lengths.sum()), len(tags)), dtype=np.bool_)
        row = 0
        for i, own in enumerate(self.labels):
            for position, label in enumerate(own):
                mask[row] = _choices(tags, label, partial(self._place, i, position))
                row += 1
        return mask

    def encode_states(self, states: TagStates) -> IntArray:
        """Ids of the states of all labels, flat, as `encode`."""
        return states.encode(self.encode(states.tags), self.lengths)

    def allowed_states(self, states: TagStates) -> BoolArray:
        """``(N, S)``: the states each token may have."""
        return states.allowed(self.allowed(states.tags))

    def _place(self, sentence: int, position: int) -> str:
        return f"{name_of(sentence, self.inputs[sentence])}, position {position}"

    def _raise_unknown(self, tags: TagSet) -> NoReturn:
        for i, own in enumerate(self.labels):
            try:
                tags.encode(own)  # type: ignore[arg-type]
            except TagError as error:
                raise TagError(f"{name_of(i, self.inputs[i])}: {error}") from None
        raise AssertionError("all labels are known")


def _choices(tags: TagSet, label: Label, where: Callable[[], str]) -> BoolArray:
    mask = np.zeros(len(tags), dtype=np.bool_)
    if label is None:
        return ~mask
    options = [label] if isinstance(label, str) else list(label)
    if not options:
        raise DataError(f"{where()}: no label is possible; None says that all are")
    try:
        mask[tags.encode(options)] = True
    except TagError as error:
        raise TagError(f"{where()}: {error}") from None
    return mask


def listed(inputs: Iterable[Any]) -> Sequence[Any]:
    """The inputs as a sequence; a single string or sentence in their place is a mistake."""
    if isinstance(inputs, str | bytes | Sentence):
        raise DataError(f"expected a list of sentences, got one {type(inputs).__name__}: put it into a list")
    if not isinstance(inputs, Iterable):
        raise DataError(f"expected a list of sentences, got {shown(inputs)}")
    return inputs if type(inputs) in (list, tuple) else list(inputs)  # type: ignore[return-value]


def check_sized(number: int, item: Any) -> None:
    """Refuse what is no sequence of tokens: a number, or a generator, which could be read only once."""
    if not hasattr(item, "__len__"):
        raise DataError(f"sentence {number} must be a list of tokens or a Sentence, got {shown(item)}")


def _check_choices(items: Sequence[Any], labels: Sequence[Sequence[Label]]) -> None:
    """A label is a string, None where it is unknown, or several strings one of which is right."""
    for i, own in enumerate(labels):
        for position, label in enumerate(own):
            several = isinstance(label, Collection) and all(isinstance(one, str) for one in label)
            if not (label is None or isinstance(label, str) or several):
                raise DataError(
                    f"{name_of(i, items[i])}, position {position}: a label must be a string, None or several strings, "
                    f"got {shown(label)}"
                )


def tokens_of(item: Any) -> Sequence[Any]:
    """The tokens of a sentence, or of a plain sequence."""
    if isinstance(item, Sentence):
        return item.tokens
    tokens: Sequence[Any] = item.tolist() if isinstance(item, np.ndarray) else item
    return tokens


def are_characters(inputs: Sequence[Any]) -> bool:
    """Whether all tokens are single characters."""
    tokens = chain.from_iterable(map(tokens_of, inputs))
    first = next(tokens, "")
    return all(map(_is_character, chain([first], tokens)))


def _is_character(token: Any) -> bool:
    return isinstance(token, str) and (len(token) == 1 or len(graphemes(token)) == 1)


def name_of(number: int, item: Any) -> str:
    """How messages call a sentence: its number, and its file and line if they are known."""
    where = item.where if isinstance(item, Sentence) else ""
    return f"sentence {number} ({where})" if where else f"sentence {number}"


def _own_tags(number: int, item: Any) -> Sequence[str]:
    if not isinstance(item, Sentence):
        raise DataError(
            f"sentence {number} is a {type(item).__name__} without labels: give labels, or Sentence objects "
            "(HMM.fit_unlabelled learns without any)"
        )
    if item.tags is None:
        raise DataError(f"{name_of(number, item)} has no tags")
    return item.tags


def _checked(number: int, labels: Any) -> Sequence[Label]:
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise DataError(f"the labels of sentence {number} must be a list with one label per token, got {labels!r:.40}")
    return labels if isinstance(labels, list | tuple) else list(labels)


def learned_tag_set(data: Labelled, scheme: str | None, constraints: bool, before: TagSet | None) -> TagSet:
    """The labels to learn: those of an earlier model first, then those of the data, at least two in all."""
    spelled = data.detect_spelled(scheme)
    found = _as_given(spelled)
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


def _as_given(found: Detection) -> Detection:
    """Labels in another spelling stay as they are, plain: what was given is what is predicted."""
    return Detection(Scheme.PLAIN, found.style, 0, {}, {}) if found.spelling else found


def _tell_spelling(found: Detection) -> None:
    """Labels in another spelling are learned as they are, which costs spans and constraints: say so."""
    if found.spelling:
        warnings.warn(
            f"the labels look like {found.scheme.value} in another spelling ({spellings(found)}) and are learned as "
            "plain labels, without spans: on_bad_tags='repair' writes them as the scheme does, and scheme='plain' "
            "says that they are meant so",
            DataWarning,
            stacklevel=6,
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
        warnings.warn(
            f"held-out tokens with labels that the training data lack, which count as missed: {unseen.total():,}, "
            f"with {listed}{', ...' if len(unseen) > SHOWN else ''}",
            DataWarning,
            stacklevel=4,
        )


def learned_states(tags: TagSet, learn_scheme: str | None, legal: bool, before: TagStates | None) -> TagStates:
    """The states to learn: in the scheme of an earlier model, else in the one asked for.

    If sequences need not be `legal`, these are the labels: another scheme could not write all of them.
    """
    if before is not None:
        return TagStates.of(tags, before.scheme)
    return TagStates.of(tags, scheme_to_learn(tags, learn_scheme) if legal else None)


def _weights_by_label(tags: TagSet, weights: Mapping[str, float]) -> FloatArray:
    """``(L,)``: how much a token of each label counts; 1 unless given."""
    by_label = np.ones(len(tags))
    for label, weight in weights.items():
        if not (np.isfinite(weight) and weight >= 0):
            raise ConfigError(f"label_weights: the weight of {label!r} must be a finite number >= 0, got {weight!r}")
        by_label[tags.id(label)] = weight
    return by_label


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
    warnings.warn("\n".join(notes), DataWarning, stacklevel=4)
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
