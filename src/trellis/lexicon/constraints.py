"""The distribution of a chain with what lexicons say: bonuses for preferred spans, conditions for those that must be.

Musts that overlap cannot all hold. As many as possible do, and among these sets the one with the best labelling does;
the others are reported as lost. A must that contradicts known labels is an error that names both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.chain import ChainScores
from trellis.errors import ModelError, NoPathError, shown, warn
from trellis.lexicon.bonus import Bonuses, ChainPart, Gaps, rewarded
from trellis.lexicon.lexicon import FEATURE_CODE, MUST_CODE, Entry, Lexicon
from trellis.lexicon.span_states import SpanStates, parted, span_types
from trellis.ragged import offsets_of, ranges
from trellis.tags import TagSet
from trellis.text import Sentence

_ANY = -1  # the type of an entry without a label


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Where entries of lexicons occur in a batch, those of learned features left out."""

    lexicons: Sequence[Lexicon]
    sequence: IntArray  # [M]
    begin: IntArray  # [M]
    end: IntArray  # [M]
    lexicon: IntArray  # [M] which of the lexicons
    entry: IntArray  # [M] which of its entries
    kind: IntArray  # [M] the type of its spans, an index into `SpanStates.kinds`; -1 is any
    must: BoolArray  # [M]
    lost: BoolArray  # [M] musts that gave way to others

    @classmethod
    def find(cls, lexicons: Sequence[Lexicon], inputs: Sequence[Any], tags: TagSet) -> Occurrences:
        """Where entries that prefer or must occur; those with labels that the model does not have are left out."""
        kinds = span_types(tags)
        columns: list[list[Any]] = []
        for number, lexicon in enumerate(lexicons):
            if not lexicon.has_spans:
                continue
            of_label = _types_of_labels(lexicon, kinds)
            match = lexicon.matches(inputs)
            code, kind = lexicon.columns.codes[match.entry], of_label[lexicon.columns.labels[match.entry]]
            kept = (code != FEATURE_CODE) & (kind >= _ANY)
            which = np.full(int(kept.sum()), number)
            columns.append(
                [*(x[kept] for x in match[:3]), which, match.entry[kept], kind[kept], code[kept] == MUST_CODE]
            )
        empty = [np.empty(0, dtype=np.int64)] * 6 + [np.empty(0, dtype=np.bool_)]
        *places, must = (np.concatenate(column) for column in zip(empty, *columns, strict=True))
        sequence, begin, end, which, entry, kind = places
        return cls(lexicons, sequence, begin, end, which, entry, kind, must, np.zeros_like(must))

    def __len__(self) -> int:
        """The number of occurrences."""
        return len(self.sequence)

    def which(self, row: int) -> Entry:
        """The entry that occurs."""
        return self.lexicons[int(self.lexicon[row])][int(self.entry[row])]

    def inner_tokens(self, lengths: IntArray) -> IntArray:
        """The tokens, numbered through the batch, that go on with a word or name which the token before is part of."""
        first = offsets_of(lengths)[self.sequence]
        pairs = zip((first + self.begin).tolist(), (first + self.end).tolist(), strict=True)
        return np.array(sorted({t for begin, end in pairs for t in range(begin + 1, end)}), dtype=np.int64)

    def take(self, rows: IntArray | BoolArray) -> Occurrences:
        """The occurrences in these rows."""
        return replace(self, **{name: value[rows] for name, value in vars(self).items() if name != "lexicons"})

    def bonuses(self, kinds: int) -> Bonuses:
        """The bonuses of those that are preferred, by type; an entry without a label gives its bonus to every type."""
        own = self.take(~self.must)
        bonus = np.zeros(len(own))
        for number, lexicon in enumerate(own.lexicons):
            mine = own.lexicon == number
            bonus[mine] = lexicon.columns.bonus[own.entry[mine]]
        repeats = np.where(own.kind == _ANY, kinds, 1)
        rows = np.repeat(np.arange(len(own)), repeats)
        within = ranges(0, repeats)
        kind = np.where(own.kind[rows] == _ANY, within, own.kind[rows])
        return Bonuses(own.sequence[rows], own.begin[rows], own.end[rows], kind, bonus[rows])


def _types_of_labels(lexicon: Lexicon, kinds: tuple[str, ...]) -> IntArray:
    """``(names + 1,)``: the type that each label of a lexicon stands for, -2 for none, and last -1, any, for no label.

    A model without types, such as a segmenter, takes every label as no label. If a model has no label of a lexicon
    whose entries all have one, that is an error; if it lacks some, a warning.
    """
    names = lexicon.labels
    if kinds == ("",):
        return np.full(len(names) + 1, _ANY)
    numbers = {kind: number for number, kind in enumerate(kinds)}
    found = np.array([*(numbers.get(name, _ANY - 1) for name in names), _ANY], dtype=np.int64)
    if names and found[:-1].max() < 0 and (lexicon.columns.labels >= 0).all():
        raise ModelError(
            f"no entry of the lexicon has a label of this model: the lexicon has {_listed(names)}, "
            f"the model {_listed(kinds)}"
        )
    labels = lexicon.columns.labels[lexicon.columns.codes != FEATURE_CODE]  # features are not what a model answers
    counts = np.bincount(labels[labels >= 0], minlength=len(names))
    unknown = np.flatnonzero((found[:-1] < _ANY) & (counts > 0))
    if len(unknown):
        warn(
            f"entries of the lexicon with labels that the model lacks, which are ignored: {counts[unknown].sum():,}, "
            f"with {_listed([names[number] for number in unknown])}; the model has {_listed(kinds)}"
        )
    return found


class LexiconChains(NamedTuple):
    """The chains of a batch with lexicons, which together are about each sequence once, and the occurrences in it."""

    parts: list[ChainPart]
    occurrences: Occurrences


def apply_lexicons(
    lexicons: Sequence[Lexicon],
    inputs: Sequence[Any],
    scores: ChainScores,
    tags: TagSet,
    state_labels: IntArray | None = None,
    *,
    known: BoolArray | None = None,
    gaps: IntArray | None = None,
    name: Callable[[int], str] = "sentence {}".format,
) -> LexiconChains:
    """The distribution over labellings of the inputs with what the lexicons say.

    Args:
        lexicons: those of their entries count that prefer or must.
        inputs: sentences or token lists, in which the entries are looked for.
        scores: of the inputs, by the model.
        tags: the labels of the model.
        state_labels: the label of each state of the chain; None if the states are the labels.
        known: ``(N, L)``, the labels that known labels allow, to which `scores` keep already.
        gaps: tokens, numbered through the batch, that come after white space: only words of a lexicon run across it.
        name: how messages call an input, by its number.

    """
    found = Occurrences.find(lexicons, inputs, tags)
    if gaps is None or not len(gaps):
        across = Gaps.none()
    else:
        bridged = np.isin(gaps, found.inner_tokens(scores.lengths))
        scores = parted(scores, gaps[~bridged], tags, state_labels)
        across = Gaps.of(gaps[bridged], scores.lengths)
    everything = np.arange(len(scores.lengths))
    if not len(found):
        return LexiconChains([ChainPart(everything, scores, state_labels)], found)
    states = SpanStates.of(scores, tags, state_labels)
    bonuses = found.bonuses(len(states.kinds))
    if not found.must.any():
        return LexiconChains(list(rewarded(scores, states, bonuses, state_labels, everything, across)), found)
    with_musts = np.unique(found.sequence[found.must])
    others = np.setdiff1d(everything, with_musts)
    parts: list[ChainPart] = []
    if len(others):
        free, gaps_of_others = bonuses.of_sequences(others), across.of_sequences(others)
        parts += rewarded(scores.take(others), states, free, state_labels, others, gaps_of_others)
    musts = _Musts(scores, states, tags, inputs, known, across, name, found, bonuses)
    strict, lost = musts.obeyed(with_musts)
    finer = SpanStates.of(strict, tags, states.labels)
    held = found.take(found.must & ~lost)
    open_gaps = _outside(across, held).of_sequences(with_musts)
    parts += rewarded(strict, finer, bonuses.of_sequences(with_musts), states.labels, with_musts, open_gaps)
    return LexiconChains(parts, replace(found, lost=lost))


def _outside(gaps: Gaps, held: Occurrences) -> Gaps:
    """The gaps that do not lie inside a must that holds."""
    places = zip(held.sequence.tolist(), held.begin.tolist(), held.end.tolist(), strict=True)
    inside = {(b, place) for b, begin, end in places for place in range(begin + 1, end)}
    rows = [n for n, gap in enumerate(zip(*(x.tolist() for x in gaps), strict=True)) if gap not in inside]
    return Gaps(gaps.sequence[rows], gaps.place[rows])


@dataclass(frozen=True, eq=False)
class _Musts:
    """A batch some of whose occurrences must be spans."""

    scores: ChainScores
    states: SpanStates
    tags: TagSet
    inputs: Sequence[Any]
    known: BoolArray | None
    gaps: Gaps
    name: Callable[[int], str]
    found: Occurrences
    bonuses: Bonuses

    def obeyed(self, sequences: IntArray) -> tuple[ChainScores, BoolArray]:
        """The chain of these inputs in which all musts hold that can, and which of the occurrences lost."""
        found, chain = self.found, self.states.chain(self.scores.take(sequences))
        rows = np.flatnonzero(found.must)
        order = rows[np.lexsort((found.end[rows], found.begin[rows], found.sequence[rows]))]
        musts = found.take(order)
        place = np.searchsorted(sequences, musts.sequence)
        self._check_known(musts)
        held = np.ones(len(musts), dtype=np.bool_)
        for number in np.unique(place[_overlapping(musts)]).tolist():
            own = np.flatnonzero(place == number)
            held[own] = self._largest_set(chain.part(number), musts.take(own), sequences[number : number + 1])
        # the states with which each must is a span; of several labels of one span, any
        allowed = np.ones(chain.emissions.shape, dtype=np.bool_)
        first = offsets_of(chain.lengths)
        spans: dict[tuple[int, int], BoolArray] = {}
        for row in np.flatnonzero(held).tolist():
            begin = int(first[place[row]] + musts.begin[row])
            span = begin, begin + int(musts.end[row] - musts.begin[row])
            spans[span] = spans.get(span, False) | self._inside(musts, row)
        for (begin, end), mask in spans.items():
            allowed[begin:end] &= mask
        strict = chain.restricted(allowed)
        try:
            strict.log_partition()
        except NoPathError as error:
            raise self._impossible(musts.take(place == error.sequence)) from None
        lost = np.zeros(len(found), dtype=np.bool_)
        lost[order] = ~held
        return strict, lost

    def _inside(self, musts: Occurrences, row: int) -> BoolArray:
        """``(size, A)``: the states with which the tokens of a must are its span."""
        kind = int(musts.kind[row])
        return self.states.inside(int(musts.end[row] - musts.begin[row]), None if kind == _ANY else kind)

    def _largest_set(self, one: ChainScores, musts: Occurrences, sequence: IntArray) -> BoolArray:
        """Which musts of one input hold in its best labelling among those in which as many as possible do.

        Each must is worth more than all differences between scores, so the best path counts them first. A must that
        fails though no other stands in its way is an error.
        """
        wanted, gaps = self.bonuses.of_sequences(sequence), self.gaps.of_sequences(sequence)
        finer = SpanStates.of(one, self.tags, self.states.labels)
        scores = (one.emissions, one.transitions, one.start, one.end, np.zeros(1) if one.edges is None else one.edges)
        largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in scores)
        worth = 1.0 + 4.0 * (len(one.emissions) + 1) * largest + 2.0 * float(np.abs(wanted.bonus).sum())
        as_bonuses = replace(musts, must=np.zeros(len(musts), dtype=np.bool_)).bonuses(len(finer.kinds))
        places = {tuple(row) for row in np.stack(as_bonuses[1:4], axis=1).tolist()}  # one span counts once
        begin, end, kind = np.array(sorted(places), dtype=np.int64).reshape(-1, 3).T
        paid = Bonuses(np.zeros_like(begin), begin, end, kind, np.full(len(begin), worth))
        every = Bonuses(*(np.concatenate(pair) for pair in zip(paid, wanted, strict=True)))
        (best,) = rewarded(one, finer, every, self.states.labels, np.zeros(1, dtype=np.int64), gaps)
        assert best.state_labels is not None
        spans = self.tags.find_spans(best.state_labels[best.scores.viterbi().tags], one.lengths)
        won = {(b, e, spans.kinds[k]) for b, e, k in zip(*(x.tolist() for x in spans[1:4]), strict=True)}
        kinds = [finer.kinds if k == _ANY else (finer.kinds[k],) for k in musts.kind.tolist()]
        rows = list(zip(musts.begin.tolist(), musts.end.tolist(), kinds, strict=True))
        spans_held = {(b, e) for b, e, own in rows if any((b, e, kind) in won for kind in own)}
        held = np.array([(b, e) in spans_held for b, e, _ in rows])  # the label of a span that holds stays open
        for row in np.flatnonzero(~held).tolist():
            if not ((musts.begin < musts.end[row]) & (musts.end > musts.begin[row]) & held).any():
                raise self._impossible(musts.take(np.array([row])))
        return held

    def _check_known(self, musts: Occurrences) -> None:
        """Refuse a must with a token whose known labels leave none that the span could have there."""
        if self.known is None:
            return
        first = offsets_of(self.scores.lengths)
        for row in range(len(musts)):
            b, begin, end = (int(x[row]) for x in (musts.sequence, musts.begin, musts.end))
            known = self.known[first[b] + begin : first[b] + end]
            stuck = np.flatnonzero(~(self._inside(musts, row) & known[:, self.states.labels]).any(axis=1))
            if len(stuck):
                raise ModelError(
                    f"{self.name(b)}: the lexicon says that {self._said(musts, row)}, "
                    f"and known labels say that token {begin + stuck[0]} is {self._labels(known[stuck[0]])}"
                )

    def _impossible(self, musts: Occurrences) -> ModelError:
        """The error for musts that no labelling of their input obeys."""
        b = int(musts.sequence[0])
        said = "; ".join(self._said(musts, row) for row in range(min(len(musts), 3)))
        if self.known is None:
            return ModelError(
                f"{self.name(b)}: no labelling that the model allows obeys the lexicon, which says that {said}"
            )
        rows = self.known[slice(*offsets_of(self.scores.lengths)[b : b + 2])]
        told = [f"token {t} is {self._labels(row)}" for t, row in enumerate(rows) if not row.all()]
        return ModelError(
            f"{self.name(b)}: the lexicon says that {said}, which contradicts known labels: {'; '.join(told[:5])}"
        )

    def _said(self, musts: Occurrences, row: int) -> str:
        entry, begin, end = musts.which(row), int(musts.begin[row]), int(musts.end[row])
        item = self.inputs[int(musts.sequence[row])]
        tokens = (item.tokens if isinstance(item, Sentence) else item)[begin:end]
        where = f"token {begin}" if end - begin == 1 else f"tokens {begin} to {end - 1}"
        label = "one span" if entry.label is None else f"one span of type {entry.label}"
        return f"{where} ({shown(' '.join(map(str, tokens)))}) must be {label}"

    def _labels(self, mask: BoolArray) -> str:
        return " or ".join(self.tags.labels[i] for i in np.flatnonzero(mask)[:5])


def _overlapping(musts: Occurrences) -> BoolArray:
    """Which musts share a token with another one that is not the same span, for musts in order."""
    result = np.zeros(len(musts), dtype=np.bool_)
    for i in range(len(musts)):
        for j in range(i + 1, len(musts)):
            if musts.sequence[j] != musts.sequence[i] or musts.begin[j] >= musts.end[i]:
                break
            if (musts.begin[j], musts.end[j]) != (musts.begin[i], musts.end[i]):
                result[i] = result[j] = True
    return result


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
