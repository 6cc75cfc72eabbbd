"""What a tagger is given: sentences or bare inputs, with or without labels, checked once when they come in.

A label may be only partly known: ``None`` says nothing about a token, a set or list of labels says that it is one of
them. The labels and states that a model learns follow from these data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from trellis import metrics, store
from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.corpus.bad_tags import OnBadTags, check_on_bad_tags, mend, notes_on, refusal, spellings
from trellis.corpus.rows import from_rows, is_frame
from trellis.corpus.source import SHOWN
from trellis.corpus.tables import LONG
from trellis.errors import ConfigError, DataError, ModelError, TagError, number_of, shown, some_of, warn
from trellis.lazy import cached
from trellis.tags import (
    Detection,
    Role,
    Scheme,
    StateMap,
    TagSet,
    detect,
    scheme_to_learn,
)
from trellis.tags.detection import NumberedLabels, detect_pairs
from trellis.tags.tagset import FINER
from trellis.text import Sentence, Splitter, fold_tokens, graphemes, learned_words, splitter
from trellis.training import DevScores
from trellis.training.process_group import ProcessGroup

Label = str | None | Iterable[str]
Scores: TypeAlias = "metrics.EntityScores | metrics.TaggingScores"  # a text: to tag, neither is imported
MOST_PAIRS = 10_000
"""Pairs of labels with a state of their own: with this many, one table of the chain takes 800 MB."""
_FEW_WORDS, _SEVERAL = 0.05, 100
"""A corpus of characters may have this share of longer tokens; beyond this many of them, the share so far decides."""
TOKENIZER = (
    "how raw text is split: words, english, characters, whitespace, regex:PATTERN, package.module:function, or a\n"
    "file of Hugging Face's tokenizers (.json); unset: like the training data"
)
"""The explanation of the setting `tokenizer`, which every family has."""
Supervised = Sequence[Sentence] | tuple[Sequence[Any], Sequence[Sequence[Label]]]


@dataclass(frozen=True, slots=True)
class LabelFacts:
    """Which labels a corpus has and how they follow each other; several processes merge theirs."""

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
    """The label facts of all processes, if several train together."""
    first: int = 0
    """The number of the first sentence, for messages."""
    numbers: Sequence[int] | None = None
    """The number of each sentence, for messages, if some were left out."""

    @classmethod
    def of(cls, inputs: Iterable[Any], labels: Iterable[Sequence[Label]] | None = None, *, first: int = 0) -> Labelled:
        """Check that each input has its labels, one per token."""
        items = listed(inputs)
        tags: list[Sequence[Label]] = []
        if labels is None:
            for i, item in enumerate(items, first):
                if not isinstance(item, Sentence):
                    how = "give labels, or Sentence objects (HMM.fit_unlabelled learns without any)"
                    if isinstance(item, Mapping):
                        how = "trellis.corpus.from_rows(...) makes sentences of such rows"
                    elif isinstance(item, list | tuple) and all(
                        isinstance(one, tuple) and len(one) == 2 for one in item
                    ):
                        how = "of pairs of tokens and labels, Sentence(*zip(*pairs)) makes a sentence"
                    raise DataError(f"sentence {i} is a {type(item).__name__} without labels: {how}")
                if item.tags is None:
                    raise DataError(f"{name_of(i, item)} has no tags")
                tags.append(item.tags)
        else:
            tags = list(labels)
            for i, sequence in enumerate(tags if not {*map(type, tags)} <= {list, tuple} else ()):
                if isinstance(sequence, str) or not hasattr(sequence, "__len__"):
                    raise DataError(
                        f"the labels of sentence {first + i} must be a list with one label per token, "
                        f"got {sequence!r:.40}"
                    )
                tags[i] = sequence if isinstance(sequence, list | tuple) else list(sequence)
            if len(tags) != len(items):
                raise DataError(
                    f"{len(tags)} sequences of labels for {number_of(len(items), 'sentence')}: expected as many"
                )
        for i, item in enumerate(items, first):
            if type(item) is not list:
                check_sized(i, item)
        lengths = list(map(len, items))
        if note := long_sentence(items, lengths, first):
            warn(note)
        if lengths != list(map(len, tags)):
            i = next(i for i, item in enumerate(items) if len(item) != len(tags[i]))
            counts = f"{number_of(len(items[i]), 'token')} and {number_of(len(tags[i]), 'label')}"
            raise DataError(f"{name_of(first + i, items[i])} has {counts}: expected as many")
        partial = not all(issubclass(kind, str) for kind in set(map(type, chain.from_iterable(tags))))
        for i, sequence in enumerate(tags if partial else ()):
            for position, label in enumerate(sequence):
                several = isinstance(label, Collection) and all(isinstance(one, str) for one in label)
                if not (label is None or isinstance(label, str) or several):
                    where = f"{name_of(first + i, items[i])}, position {position}"
                    raise DataError(f"{where}: a label must be a string, None or several strings, got {shown(label)}")
        return cls(items, tags, partial, first=first)

    def part(self, start: int, stop: int) -> Labelled:
        """The inputs `start` to ``stop - 1``, with their labels."""
        numbers = None if self.numbers is None else self.numbers[start:stop]
        inputs, labels = self.inputs[start:stop], self.labels[start:stop]
        return Labelled(inputs, labels, self.partial, first=self.first + start, numbers=numbers)

    @property
    def lengths(self) -> IntArray:
        """The number of tokens of each sentence."""
        return np.fromiter(map(len, self.labels), dtype=np.int64, count=len(self.labels))

    def strings(self) -> list[list[str]]:
        """The labels, if all are fully known."""
        if self.partial:
            raise DataError("a label is only partly known: expected one label per token")
        return [[str(label) for label in sequence] for sequence in self.labels]

    @cached
    def _numbered(self) -> NumberedLabels:
        """The labels that are fully known, as numbers."""
        return NumberedLabels(self.fragments())

    def fragments(self) -> Iterator[Sequence[str]]:
        """The longest stretches of fully known labels."""
        for sequence in self.labels:
            if not self.partial:
                yield sequence  # type: ignore[misc]
                continue
            run: list[str] = []
            for label in sequence:
                if isinstance(label, str):
                    run.append(label)
                elif run:
                    yield run
                    run = []
            yield run

    def choices(self) -> set[str]:
        """The labels of tokens that have several possible ones."""
        return self._facts.choices

    @property
    def has_known(self) -> bool:
        """Whether any label is fully known."""
        return any(after for _, after in self._facts.pairs)

    def detect(self, scheme: str | None) -> Detection:
        """The scheme given, or the one that fits best, and what does not fit it."""
        return as_given(self.detect_spelled(scheme))

    def detect_spelled(self, scheme: str | None) -> Detection:
        """The scheme as in `detect`, where labels in another spelling are read as the scheme writes them."""
        return detect_pairs(self._facts.pairs, scheme=None if scheme is None else Scheme.parse(scheme))

    def labels_in(self, detected: Detection) -> TagSet:
        """The labels, and those that the scheme implies: with B-LST there is I-LST."""
        labels = self._facts.labels.union(self._numbered.names)
        return TagSet.from_labels(labels, detected.scheme, detected.style, complete=True)

    def shared_by(self, group: ProcessGroup) -> Labelled:
        """These sentences, with the label facts of all processes."""
        if group.count == 1:
            return self
        facts = LabelFacts.merged(group.gather(self.facts()))
        return replace(self, partial=facts.partial, shared=facts)

    def facts(self) -> LabelFacts:
        """The label facts of these sentences."""
        labels = chain.from_iterable(self.labels if self.partial else ())
        choices = (label for label in labels if label is not None and not isinstance(label, str))
        return LabelFacts(self._numbered.pairs(), set(chain.from_iterable(choices)), self.partial)

    @cached
    def _facts(self) -> LabelFacts:
        """The label facts of all processes, or of these sentences if there is one process."""
        return self.facts() if self.shared is None else self.shared

    def place(self, sentence: int, position: int) -> str:
        """The name of a token in messages: its file and line where they are known."""
        item = self.inputs[sentence]
        line = item.line_of(position) if isinstance(item, Sentence) else None
        if line is not None and item.path is not None:
            return f"{item.path}:{line}"
        return f"{self.name(sentence)}, position {position}"

    def encode(self, tags: TagSet) -> IntArray:
        """Ids of all labels, flat; an unknown one is an error that names the sentence. Not for partial labels."""
        for i, sequence in enumerate(self.labels if any(name not in tags for name in self._numbered.names) else ()):
            try:
                tags.encode(sequence)  # type: ignore[arg-type]
            except TagError as error:
                raise TagError(f"{self.name(i)}: {error}") from None
        by_number = np.array([-1, *tags.encode(self._numbered.names)], dtype=np.int64)
        ids: IntArray = by_number[self._numbered.codes]
        return ids[ids >= 0]

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
        row = -1
        for i, sequence in enumerate(self.labels):
            for position, label in enumerate(sequence):
                row += 1
                if label is None:
                    mask[row] = True
                    continue
                options = [label] if isinstance(label, str) else list(label)
                try:
                    if not options:
                        raise DataError("no label is possible; None says that all are")
                    mask[row, tags.encode(options)] = True
                except (DataError, TagError) as error:
                    raise type(error)(f"{self.name(i)}, position {position}: {error}") from None
        return mask

    def encode_states(self, states: StateMap) -> IntArray:
        """Ids of the states of all labels, flat, as `encode`."""
        return states.encode(self.encode(states.tags), self.lengths)

    def allowed_states(self, states: StateMap) -> BoolArray:
        """``(N, S)``: the states each token may have."""
        return states.allowed(self.allowed(states.tags))

    def name(self, sentence: int) -> str:
        """The name of a sentence in messages."""
        number = self.first + sentence if self.numbers is None else self.numbers[sentence]
        return name_of(number, self.inputs[sentence])


def label_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], tags: TagSet) -> Scores:
    """Scores of spans if the labels have a scheme, of single tags if they have none."""
    if tags.scheme is Scheme.PLAIN:
        return metrics.tagging_scores(gold, predicted)
    return metrics.entity_scores(gold, predicted, scheme=tags.scheme, style=tags.style)


def headline(scores: Scores) -> float:
    """The one number that people look at: F1 of spans, or the accuracy of single tags."""
    return scores.accuracy if isinstance(scores, metrics.TaggingScores) else scores.micro.f1


def dev_scores(dev: Labelled, predicted: Sequence[Sequence[str]], tags: TagSet) -> DevScores:
    """The scores that training watches, of predicted labels of held-out sentences."""
    scores = label_scores(dev.strings(), predicted, tags)
    if isinstance(scores, metrics.TaggingScores):
        return DevScores(scores.accuracy, accuracy=scores.accuracy)
    return DevScores(scores.micro.f1, scores.micro.precision, scores.micro.recall, scores.accuracy)


def listed(inputs: Iterable[Any]) -> Sequence[Any]:
    """The inputs as a sequence, those of a table as sentences; a single string or sentence is a mistake."""
    if isinstance(inputs, str | bytes | PathLike | Sentence):
        file = "" if isinstance(inputs, Sentence) else "; of a file, trellis.corpus.read(path) gives its sentences"
        raise DataError(f"expected a list of sentences, got one {type(inputs).__name__}: put it into a list{file}")
    if isinstance(inputs, Mapping) or is_frame(inputs):
        return list(from_rows(inputs))
    if not isinstance(inputs, Iterable):
        raise DataError(f"expected a list of sentences, got {shown(inputs)}")
    return inputs if type(inputs) in (list, tuple) else list(inputs)  # type: ignore[return-value]


def check_sentence_weights(weights: FloatArray, count: int) -> None:
    """Refuse weights that are not one finite number >= 0 for each of `count` sentences."""
    wrong = weights[~((weights >= 0) & (weights < np.inf))]
    if weights.shape != (count,) or len(wrong):
        got = wrong[0] if weights.shape == (count,) else weights.shape
        raise ModelError(f"sentence_weights must be {count} finite numbers >= 0, one per sentence, got {got}")


def check_sized(number: int, item: Any) -> None:
    """Refuse what is no sequence of tokens: a number, or a generator, which could be read only once."""
    if not hasattr(item, "__len__"):
        raise DataError(f"sentence {number} must be a list of tokens or a Sentence, got {shown(item)}")


def tokens_of(item: Any) -> Sequence[Any]:
    """The tokens of a sentence, or of a plain sequence."""
    if isinstance(item, Sentence):
        return item.tokens
    tokens: Sequence[Any] = item.tolist() if isinstance(item, np.ndarray) else item
    return tokens


def are_characters(inputs: Sequence[Any]) -> bool:
    """Whether nearly all tokens are single characters: a few odd ones make no words of a corpus of characters."""
    total = words = 0
    for tokens in map(tokens_of, inputs):
        total += len(tokens)
        for token in tokens:
            if not isinstance(token, str) or (len(token) != 1 and len(graphemes(token)) != 1):
                words += 1
        if words > _SEVERAL and words > _FEW_WORDS * total:
            return False  # a corpus of words is not read to its end
    return total > words and words <= _FEW_WORDS * total


def long_sentence(items: Sequence[Any], lengths: Sequence[int], first: int = 0) -> str | None:
    """A note on the longest sentence if it has more tokens than any sentence has."""
    longest = max(lengths, default=0)
    if longest <= LONG:
        return None
    name = name_of(first + lengths.index(longest), items[lengths.index(longest)])
    return (
        f"{name} has {longest:,} tokens: is a blank line missing, or a column that numbers the sentences? "
        f"{number_of(sum(length > LONG for length in lengths), 'sentence')} of more than {LONG:,} tokens in all"
    )


def name_of(number: int, item: Any) -> str:
    """How messages call a sentence: its number, and its file and line if they are known."""
    where = item.where if isinstance(item, Sentence) else ""
    return f"sentence {number} ({where})" if where else f"sentence {number}"


def as_given(detected: Detection) -> Detection:
    """Labels in another spelling stay as they are, plain: what was given is what is predicted."""
    return Detection(Scheme.PLAIN, detected.style, 0, {}, {}) if detected.spelling else detected


def check_tokens(offsets: IntArray, data: Labelled) -> None:
    """Kernels walk labels and features side by side: an input whose `len` is not what it holds must not get there."""
    counted, expected = np.diff(offsets), data.lengths
    if not np.array_equal(counted, expected):
        i = int(np.flatnonzero(counted != expected)[0])
        problem = f"contains {counted[i]} tokens but its length is {expected[i]}: expected the same number"
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


def segments(tags: TagSet) -> bool:
    """Whether the labels only say where words begin and end."""
    return tags.scheme is not Scheme.PLAIN and all(role is not Role.O and not kind for role, kind in tags.parsed)


def cuts_words(tags: TagSet, how: Splitter) -> bool:
    """Whether a model makes words of characters: its labels say where they begin and end, and maybe what they are."""
    every_token = tags.scheme is not Scheme.PLAIN and all(role is not Role.O for role, _ in tags.parsed)
    return every_token and (not how.separator or segments(tags))


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
    is_split_so = all(  # as when a reader has used it
        isinstance(item, Sentence) and item.offsets is not None and plain.split(item.text or "") == list(item.tokens)
        for item in (inputs if strings else ())
    )
    return plain if is_split_so else learned_words(inputs)


def learned_tag_set(data: Labelled, scheme: str | None, constraints: bool, earlier: TagSet | None) -> TagSet:
    """The labels to learn: those of an earlier model first, then those of the data, at least two in all."""
    spelled = data.detect_spelled(scheme)
    detected = as_given(spelled)
    _refuse_bad(data, detected, constraints)
    tags = data.labels_in(detected)
    if earlier is None:
        if spelled.spelling:  # learned as they are, which costs spans and constraints
            warn(
                f"the labels look like {spelled.scheme.value} in another spelling ({spellings(spelled)}) and are "
                "learned as plain labels, without spans: on_bad_tags='repair' writes them as the scheme does, and "
                "scheme='plain' says that they are meant so"
            )
    else:
        new = [label for label in tags.labels if label not in earlier]
        tags = TagSet((*earlier.labels, *new), earlier.scheme, earlier.style)
    if len(tags) < 2:
        only = f"only the label {tags.labels[0]!r} occurs" if len(tags) else "no label occurs"
        raise ModelError(f"there is nothing to learn: {only}, and a tagger chooses between at least two")
    return tags


def check_held_out(dev: Labelled, tags: TagSet) -> None:
    """Refuse labels that the scheme cannot read; those that training lacks are fine, and count as missed."""
    detected = detect(dev.strings(), scheme=tags.scheme, style=tags.style)
    if detected.odd or detected.spelling:
        odd = detected.odd or dict.fromkeys(detected.spelling, 1)
        _refuse_bad(dev, replace(detected, odd=odd, spelling={}), constraints=False)
    for note in unseen_labels("the held-out corpus", dev.strings(), tags.labels):
        warn(f"held-out {note}")


def unseen_labels(name: str, labels: Iterable[Sequence[str]], known: Sequence[str]) -> list[str]:
    """A note on labels that a model does not know; sentences about something else are refused."""
    counts = Counter(chain.from_iterable(labels))
    unseen = Counter({label: count for label, count in counts.items() if label not in known})
    listed = some_of([f"{label} ({count:,})" for label, count in unseen.most_common()], SHOWN)
    if unseen and counts.keys() - unseen.keys() <= {"O"}:
        raise DataError(
            f"{name} has the labels {listed}, and the model gives {some_of(known, 5)}: they have none in common, so "
            "nothing could be right. Is it another file, model, or column (--tags)?"
        )
    told = f"tokens with labels that the training data lack, which count as missed: {unseen.total():,}, with {listed}"
    return [told] if unseen else []


def learned_states(tags: TagSet, learn_scheme: str | None, legal: bool, earlier: StateMap | None) -> StateMap:
    """The states to learn: in the scheme of an earlier model, else in the one asked for.

    If sequences need not be `legal`, these are the labels: another scheme could not write all of them.
    """
    if earlier is not None:
        return StateMap.of(tags, earlier.scheme)
    return StateMap.of(tags, scheme_to_learn(tags, learn_scheme) if legal else None)


def stored_states(stored: store.Stored, tags: TagSet) -> StateMap:
    """The states that a saved model learned."""
    schemes = dict.fromkeys([tags.scheme.value, *(scheme.value for scheme in FINER)])
    return StateMap.of(tags, Scheme(stored.manifest.choice("learn_scheme", list(schemes))))


# Order 2: the first L states of a chain are labels by themselves, the others pairs (P, 2) of a label and the one before
# it. A pair without a state of its own counts as its second label by itself, so each sequence of labels is exactly one
# sequence of states; see docs/decisions/0006-order-2.md.


def labels_of_histories(pairs: IntArray, L: int) -> IntArray:
    """``(L + P,)``: the label of each state."""
    return np.concatenate([np.arange(L), pairs[:, 1]])


def history_states(pairs: IntArray, L: int) -> IntArray:
    """``(L + 1, L)``: the state of each pair of labels; the last row, which is also row -1, is for the first token."""
    state = np.tile(np.arange(L), (L + 1, 1))
    state[pairs[:, 0], pairs[:, 1]] = L + np.arange(len(pairs))
    return state


def history_chain(
    pairs: IntArray, start: FloatArray, transitions: FloatArray, rows: FloatArray, nothing: float
) -> tuple[FloatArray, FloatArray]:
    """Start (S,) and transitions (S, S) of the chain over histories, `nothing` where they do not join.

    They come from those of labels, (L,) and (L, L), and from `rows` (P, L), what follows each pair.
    """
    L = len(start)
    states, labels = history_states(pairs, L), labels_of_histories(pairs, L)
    first, steps = np.full(len(labels), nothing), np.full((len(labels), len(labels)), nothing)
    first[states[-1]] = start
    np.put_along_axis(steps, states[labels], np.vstack([transitions, rows]), axis=1)
    return first, steps


def stored_pairs(stored: store.Stored, name: str, L: int, least: int = 0) -> IntArray:
    """The pairs in a file, each once; the first label may be as low as `least`."""
    pairs = stored.array(name, np.int64, (None, 2), least, L - 1)
    if len(pairs) > MOST_PAIRS or len(np.unique(pairs, axis=0)) < len(pairs):
        raise stored.refused(name, f"must have each pair once, and at most {MOST_PAIRS} of them")
    return pairs


def most_common_pairs(counts: FloatArray, most: int) -> IntArray:
    """The `most` pairs (P, 2) with the highest counts (L, L) above zero, in order."""
    flat = counts.ravel()
    ranked = np.argsort(-flat, kind="stable")[:most]
    return np.stack(np.divmod(np.sort(ranked[flat[ranked] > 0]), len(counts)), axis=1)


def mended(data: Labelled, scheme: str | None, how: OnBadTags) -> tuple[Labelled, list[int]]:
    """The data without bad tags, and which of the sentences were kept; what was done is a warning.

    A sentence with partly known labels is never bad; its labels are only written as the scheme spells them.
    """
    numbers = list(range(len(data.inputs)))
    if how == "error":
        return data, numbers
    check_on_bad_tags(how)
    full = [i for i in numbers if not data.partial or all(isinstance(label, str) for label in data.labels[i])]
    detected = data.detect_spelled(scheme) if how == "repair" else data.detect(scheme)
    result = mend([list(map(str, data.labels[i])) for i in full], detected, how)
    if not (result.bad or detected.spelling):
        return data, numbers
    warn("\n".join(notes_on(result, detected, lambda number, position: data.place(full[number], position))))

    def spelled(label: Label) -> Label:
        if label is None or isinstance(label, str):
            return label and detected.spelling.get(label, label)
        return [detected.spelling.get(one, one) for one in label]

    tags: dict[int, Sequence[Label] | None] = dict(zip(full, result.tags, strict=True))
    tags |= {i: list(map(spelled, data.labels[i])) for i in numbers if i not in tags}
    remaining = [i for i in numbers if tags[i] is not None]
    inputs, labels = [data.inputs[i] for i in remaining], [tags[i] or () for i in remaining]
    return replace(data, inputs=inputs, labels=labels, shared=None, numbers=remaining), remaining


def _refuse_bad(data: Labelled, detected: Detection, constraints: bool) -> None:
    """Labels that break the scheme would have probability zero, and those that it cannot read have no meaning."""
    if data.partial or not (detected.odd or (constraints and detected.violations)):
        return
    result = mend(data.strings(), detected, "error")
    if data.shared is not None and not result.bad:
        raise DataError(f"labels of another process break the {detected.scheme.value} scheme: see its message")
    where = data.place(result.bad[0].sequence, result.bad[0].position)
    free = ", or set constraints=False" if not detected.odd else ""
    raise DataError(f"{where}: {refusal(result, detected)}; or give another scheme{free}")
