"""What a tagger is given: sentences or bare inputs, with or without labels, checked once when they come in.

A label may be only partly known: ``None`` says nothing about a token, a set or list of labels says that it is one of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import ConfigError, DataError, ModelError, TagError, number_of, shown, warn
from trellis.lazy import cached
from trellis.tags import (
    Detection,
    OnBadTags,
    Role,
    Scheme,
    StateMap,
    TagSet,
    check_on_bad_tags,
    detect,
    mend,
    parse_label,
    refusal,
    scheme_to_learn,
    summary,
)
from trellis.tags.bad_tags import SHOWN, spelling_note, spellings
from trellis.tags.detection import NumberedLabels, count_pairs, detect_pairs
from trellis.text import Sentence, Splitter, fold_tokens, graphemes, learned_words, splitter
from trellis.training.process_group import ProcessGroup

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
        """The facts of several processes together."""
        pairs: Counter[tuple[str, str]] = Counter()
        for part in parts:
            pairs.update(part.pairs)
        choices = set[str]().union(*(part.choices for part in parts))
        return cls(dict(pairs), choices, any(part.partial for part in parts))

    @property
    def labels(self) -> set[str]:
        """All labels that occur."""
        return self.choices.union(after for _, after in self.pairs if after)


@dataclass(frozen=True)
class Labelled:
    """Inputs (a `Sentence`, a list of tokens, or a list of features each) with their labels."""

    inputs: Sequence[Any]
    labels: Sequence[Sequence[Label]]
    partial: bool
    shared: LabelFacts | None = None
    """What the labels of all processes say, if several train together."""
    first: int = 0
    """The number of the first sentence, for messages."""

    @classmethod
    def of(cls, inputs: Iterable[Any], labels: Iterable[Sequence[Label]] | None = None, *, first: int = 0) -> Labelled:
        """Check that each input has its labels, one per token."""
        items = listed(inputs)
        if labels is None:
            tags: list[Sequence[Label]] = [_own_tags(i, item) for i, item in enumerate(items, first)]
        else:
            tags = list(labels)
            if not {*map(type, tags)} <= {list, tuple}:
                tags = [_checked(i, own) for i, own in enumerate(tags, first)]
            if len(tags) != len(items):
                raise DataError(
                    f"{len(tags)} sequences of labels for {number_of(len(items), 'sentence')}: expected as many"
                )
        _check_lengths(items, tags, first)
        partial = not all(issubclass(kind, str) for kind in set(map(type, chain.from_iterable(tags))))
        if partial:
            _check_choices(items, tags, first)
        return cls(items, tags, partial, first=first)

    def part(self, start: int, stop: int) -> Labelled:
        """Some of the inputs, with their labels."""
        return Labelled(self.inputs[start:stop], self.labels[start:stop], self.partial, first=self.first + start)

    @property
    def lengths(self) -> IntArray:
        """The number of tokens of each sentence."""
        return np.fromiter(map(len, self.labels), dtype=np.int64, count=len(self.labels))

    def strings(self) -> list[list[str]]:
        """The labels, if all are fully known."""
        self._require_known()
        return [[str(label) for label in own] for own in self.labels]

    def distinct(self) -> list[str]:
        """The labels in the order in which they first occur, if all are fully known."""
        self._require_known()
        return list(dict.fromkeys(map(str, self._numbered.names)))

    @cached
    def _numbered(self) -> NumberedLabels:
        """The labels as numbers, if all are fully known."""
        return NumberedLabels(self.fragments())

    def _require_known(self) -> None:
        if self.partial:
            raise DataError("a label is only partly known: expected one label per token")

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
        return as_given(self.detect_spelled(scheme))

    def detect_spelled(self, scheme: str | None) -> Detection:
        """The same; labels that are only spelled in another way are read as the scheme writes them."""
        pairs = self._pairs() if self.shared is None else self.shared.pairs
        return detect_pairs(pairs, scheme=None if scheme is None else Scheme.parse(scheme))

    def tag_set(self, scheme: str | None) -> TagSet:
        """The labels with the scheme given, or with the one that fits best; see `labels_in`."""
        return self.labels_in(self.detect(scheme))

    def labels_in(self, found: Detection) -> TagSet:
        """The labels, and those that the scheme implies: with B-LST there is I-LST."""
        if self.shared is not None:
            labels = self.shared.labels
        else:
            labels = self.choices().union(*self.fragments()) if self.partial else set(self._numbered.names)
        return TagSet.from_labels(labels, found.scheme, found.style, complete=True)

    def shared_by(self, team: ProcessGroup) -> Labelled:
        """The same sentences, with what the labels of all processes say."""
        if team.count == 1:
            return self
        facts = LabelFacts.merged(team.gather(self.facts()))
        return replace(self, partial=facts.partial, shared=facts)

    def facts(self) -> LabelFacts:
        """What the labels of these sentences say."""
        return LabelFacts(self._pairs(), self.choices(), self.partial)

    def _pairs(self) -> dict[tuple[str, str], int]:
        return count_pairs(self.fragments()) if self.partial else self._numbered.pairs()

    def place(self, sentence: int, position: int) -> str:
        """The name of a token in messages: its file and line where they are known."""
        item = self.inputs[sentence]
        line = item.line_of(position) if isinstance(item, Sentence) else None
        if line is not None and item.path is not None:
            return f"{item.path}:{line}"
        return self._place(sentence, position)

    def encode(self, tags: TagSet) -> IntArray:
        """Ids of all labels, flat; an unknown one is an error that names the sentence. Not for partial labels."""
        ids = {label: i for i, label in enumerate(tags.labels)}
        try:
            by_number = np.array([-1, *map(ids.__getitem__, self._numbered.names)], dtype=np.int64)
        except KeyError:
            self._raise_unknown(tags)
        found: IntArray = by_number[self._numbered.codes]
        return found[found >= 0]

    def token_weights(self, tags: TagSet, label_weights: Mapping[str, float] | None) -> FloatArray | None:
        """``(N,)``: how much each token counts, by its label, which must be fully known; None if all count the same."""
        if label_weights is None:
            return None
        by_label = np.ones(len(tags))
        for label, weight in label_weights.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise ConfigError(
                    f"label_weights: the weight of {label!r} must be a finite number >= 0, got {weight!r}"
                )
            by_label[tags.id(label)] = weight
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

    def encode_states(self, states: StateMap) -> IntArray:
        """Ids of the states of all labels, flat, as `encode`."""
        return states.encode(self.encode(states.tags), self.lengths)

    def allowed_states(self, states: StateMap) -> BoolArray:
        """``(N, S)``: the states each token may have."""
        return states.allowed(self.allowed(states.tags))

    def _place(self, sentence: int, position: int) -> str:
        return f"{self.name(sentence)}, position {position}"

    def name(self, sentence: int) -> str:
        """The name of a sentence in messages."""
        return name_of(self.first + sentence, self.inputs[sentence])

    def _raise_unknown(self, tags: TagSet) -> NoReturn:
        for i, own in enumerate(self.labels):
            try:
                tags.encode(own)  # type: ignore[arg-type]
            except TagError as error:
                raise TagError(f"{self.name(i)}: {error}") from None
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


def _check_lengths(items: Sequence[Any], labels: Sequence[Sequence[Label]], first: int) -> None:
    for i, item in enumerate(items, first):
        if type(item) is not list:
            check_sized(i, item)
    if list(map(len, items)) == list(map(len, labels)):
        return
    for i, (item, own) in enumerate(zip(items, labels, strict=True), first):
        if len(own) != len(item):
            raise DataError(
                f"{name_of(i, item)} has {number_of(len(item), 'token')} and {number_of(len(own), 'label')}: "
                "expected as many"
            )


def check_sized(number: int, item: Any) -> None:
    """Refuse what is no sequence of tokens: a number, or a generator, which could be read only once."""
    if not hasattr(item, "__len__"):
        raise DataError(f"sentence {number} must be a list of tokens or a Sentence, got {shown(item)}")


def _check_choices(items: Sequence[Any], labels: Sequence[Sequence[Label]], first: int) -> None:
    """A label is a string, None where it is unknown, or several strings one of which is right."""
    for i, own in enumerate(labels):
        for position, label in enumerate(own):
            several = isinstance(label, Collection) and all(isinstance(one, str) for one in label)
            if not (label is None or isinstance(label, str) or several):
                place = f"{name_of(first + i, items[i])}, position {position}"
                raise DataError(f"{place}: a label must be a string, None or several strings, got {shown(label)}")


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


def as_given(found: Detection) -> Detection:
    """Labels in another spelling stay as they are, plain: what was given is what is predicted."""
    return Detection(Scheme.PLAIN, found.style, 0, {}, {}) if found.spelling else found


def check_tokens(offsets: IntArray, data: Labelled) -> None:
    """Kernels walk labels and features side by side: an input whose `len` is not what it holds must not get there."""
    found, expected = np.diff(offsets), data.lengths
    if not np.array_equal(found, expected):
        i = int(np.flatnonzero(found != expected)[0])
        problem = f"contains {found[i]} tokens but its length is {expected[i]}: expected the same number"
        raise DataError(f"{data.name(i)} {problem}")


def inputs_of(given: Sequence[Any], how: Splitter, *, with_gaps: bool) -> tuple[list[Any], list[str | None]]:
    """Token lists or sentences for a model, and the raw text of each that is no more than a token list.

    Offsets are left for later, when they are asked for, unless the tokens alone do not tell them. With `with_gaps`,
    texts with white space inside become sentences, which know where it is.
    """
    inputs: list[Any] = []
    texts: list[str | None] = []
    for item in given:
        lazy = isinstance(item, str) and how.covers and not (with_gaps and len(item.split(None, 1)) > 1)
        texts.append(item if lazy else None)
        inputs.append(how.split(item) if lazy else how.sentence(item) if isinstance(item, str) else item)
    return inputs, texts


@lru_cache(maxsize=32)
def segments(tags: TagSet) -> bool:
    """Whether the labels only say where words begin and end."""
    if tags.scheme is Scheme.PLAIN:
        return False
    parsed = [parse_label(label, tags.scheme, tags.style) for label in tags.labels]
    return all(role is not Role.O and not kind for role, kind in parsed)


def cuts_words(tags: TagSet, how: Splitter) -> bool:
    """Whether a model makes words of characters: its labels say where they begin and end, and maybe what they are."""
    return segments(tags) or (not how.separator and _leaves_nothing_out(tags))


@lru_cache(maxsize=32)
def _leaves_nothing_out(tags: TagSet) -> bool:
    """Whether every label puts its token into a span of several tokens or one."""
    return tags.scheme is not Scheme.PLAIN and all(role is not Role.O for role, _ in tags.parsed)


def gaps_of(inputs: Sequence[Any], raw: Sequence[bool]) -> IntArray:
    """The tokens, numbered through the batch, that come after white space in the raw texts."""
    gaps, count = [np.empty(0, dtype=np.int64)], 0
    for item, is_raw in zip(inputs, raw, strict=True):
        if is_raw and isinstance(item, Sentence) and item.offsets is not None:
            ends = np.array(item.offsets, dtype=np.int64).reshape(-1, 2)
            gaps.append(count + 1 + np.flatnonzero(ends[1:, 0] > ends[:-1, 1]))
        count += len(tokens_of(item))
    return np.concatenate(gaps)


def folded(inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs as models see them that make no difference between full-width and half-width forms."""

    def fold(item: Any) -> Any:
        tokens = tokens_of(item)
        try:
            changed = fold_tokens(tokens)
        except TypeError:  # not strings: the model says so, with the place
            return item
        if changed is tokens:
            return item
        return item._changed(tokens=tuple(changed)) if isinstance(item, Sentence) and item.columns else changed

    return [fold(item) for item in inputs]


def tokenizer_for(setting: Any, inputs: Sequence[Any]) -> Splitter:
    """The tokenizer that is asked for, or the one that makes such tokens of raw text."""
    if setting is not None:
        return splitter(setting)
    if are_characters(inputs):
        return splitter("characters")
    kinds = set(map(type, chain.from_iterable(map(tokens_of, inputs))))
    strings = all(issubclass(kind, str) for kind in kinds)  # else the model says so, with the place
    plain = splitter("words")
    return plain if not strings or _is_split_by(inputs, plain) else learned_words(inputs)


def _is_split_by(inputs: Sequence[Any], how: Splitter) -> bool:
    """Whether the tokens of all inputs are what this makes of their texts, as when a reader has used it."""
    return all(
        isinstance(item, Sentence) and item.offsets is not None and how.split(item.text or "") == list(item.tokens)
        for item in inputs
    )


def learned_tag_set(data: Labelled, scheme: str | None, constraints: bool, before: TagSet | None) -> TagSet:
    """The labels to learn: those of an earlier model first, then those of the data, at least two in all."""
    spelled = data.detect_spelled(scheme)
    found = as_given(spelled)
    _refuse_bad(data, found, constraints)
    tags = data.labels_in(found)
    if before is None:
        if spelled.spelling:  # learned as they are, which costs spans and constraints
            warn(
                f"the labels look like {spelled.scheme.value} in another spelling ({spellings(spelled)}) and are "
                "learned as plain labels, without spans: on_bad_tags='repair' writes them as the scheme does, and "
                "scheme='plain' says that they are meant so"
            )
    else:
        new = [label for label in tags.labels if label not in before]
        tags = TagSet((*before.labels, *new), before.scheme, before.style)
    if len(tags) < 2:
        only = f"only the label {tags.labels[0]!r} occurs" if len(tags) else "no label occurs"
        raise ModelError(f"there is nothing to learn: {only}, and a tagger chooses between at least two")
    return tags


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
