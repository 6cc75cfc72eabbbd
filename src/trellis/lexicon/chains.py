"""Chains with what lexicons say: bonuses for spans that are preferred, conditions for those that must be.

Musts that overlap cannot all hold. As many as possible do, and among these sets the one with the best labelling does;
the others are reported as lost. A must that contradicts known labels is an error that names both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.chain import ChainScores
from trellis.errors import ModelError, NoPathError, shown, some_of, warn
from trellis.lexicon.bonus import Bonuses, ChainPart, SpanStates, cut_at_gaps, of_sequences, span_types, with_bonuses
from trellis.lexicon.lexicon import FEATURE_CODE, MUST_CODE, Entry, Lexicon
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
            counts = (code != FEATURE_CODE) & (kind >= _ANY)
            which = np.full(len(code), number)
            must = code == MUST_CODE
            table = (match.sequence, match.begin, match.end, which, match.entry, kind, must, np.zeros_like(must))
            columns.append([column[counts] for column in table])
        empty = [np.empty(0, dtype=np.int64)] * 6 + [np.empty(0, dtype=np.bool_)] * 2
        return cls(lexicons, *(np.concatenate(column) for column in zip(empty, *columns, strict=True)))

    def __len__(self) -> int:
        return len(self.sequence)

    def which(self, row: int) -> Entry:
        return self.lexicons[int(self.lexicon[row])][int(self.entry[row])]

    def inner_tokens(self, lengths: IntArray) -> BoolArray:
        """``(N,)``: the tokens that go on with an occurrence which the token before is part of."""
        result = np.zeros(int(lengths.sum()), dtype=np.bool_)
        result[ranges(offsets_of(lengths)[self.sequence] + self.begin + 1, self.end - self.begin - 1)] = True
        return result

    def take(self, rows: IntArray | BoolArray) -> Occurrences:
        return replace(self, **{name: value[rows] for name, value in vars(self).items() if name != "lexicons"})

    def bonuses(self, kinds: int) -> Bonuses:
        """The bonuses of those that are preferred, by type; an entry without a label gives its bonus to every type."""
        preferred = self.take(~self.must)
        bonus = np.zeros(len(preferred))
        for number, lexicon in enumerate(self.lexicons):
            rows = preferred.lexicon == number
            bonus[rows] = lexicon.columns.bonus[preferred.entry[rows]]
        repeats = np.where(preferred.kind == _ANY, kinds, 1)
        rows = np.repeat(np.arange(len(preferred)), repeats)
        kind = np.where(preferred.kind[rows] == _ANY, ranges(0, repeats), preferred.kind[rows])
        return Bonuses(preferred.sequence[rows], preferred.begin[rows], preferred.end[rows], kind, bonus[rows])


def _types_of_labels(lexicon: Lexicon, kinds: tuple[str, ...]) -> IntArray:
    """``(names + 1,)``: the type that each label of a lexicon stands for, -2 for none, and last -1, any, for no label.

    A model without types, such as a segmenter, takes every label as no label. If a model has no label of a lexicon
    whose entries all have one, that is an error; if it lacks some, a warning.
    """
    names = lexicon.labels
    if kinds == ("",):
        return np.full(len(names) + 1, _ANY)
    numbers = {kind: number for number, kind in enumerate(kinds)}
    numbers_of_types = np.array([*(numbers.get(name, _ANY - 1) for name in names), _ANY], dtype=np.int64)
    if names and numbers_of_types[:-1].max() < 0 and (lexicon.columns.labels >= 0).all():
        raise ModelError(
            f"no entry of the lexicon has a label of this model: the lexicon has {some_of(names)}, "
            f"the model {some_of(kinds)}"
        )
    labels = lexicon.columns.labels[lexicon.columns.codes != FEATURE_CODE]  # features are not what a model answers
    counts = np.bincount(labels[labels >= 0], minlength=len(names))
    unknown = np.flatnonzero((numbers_of_types[:-1] < _ANY) & (counts > 0))
    if len(unknown):
        warn(
            f"entries of the lexicon with labels that the model lacks, which are ignored: {counts[unknown].sum():,}, "
            f"with {some_of([names[number] for number in unknown])}; the model has {some_of(kinds)}"
        )
    return numbers_of_types


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
) -> tuple[list[ChainPart], Occurrences]:
    """The distribution over labellings of the inputs with what the lexicons say, and where their entries occur.

    Several chains may be returned; each input is in exactly one of them.

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
    occurrences = Occurrences.find(lexicons, inputs, tags)
    crossed = np.zeros(len(scores.emissions), dtype=np.bool_)  # tokens behind a gap that some occurrence runs across
    if gaps is not None and len(gaps):
        crossed[gaps] = occurrences.inner_tokens(scores.lengths)[gaps]
        scores = cut_at_gaps(scores, gaps[~crossed[gaps]], tags, state_labels)
    everything = np.arange(len(scores.lengths))
    if not len(occurrences):
        return [ChainPart(everything, scores, state_labels)], occurrences
    states = SpanStates.of(scores, tags, state_labels)
    bonuses = occurrences.bonuses(len(states.kinds))
    with_musts = np.unique(occurrences.sequence[occurrences.must])
    if not len(with_musts):
        return list(with_bonuses(scores, states, bonuses, state_labels, gaps=crossed)), occurrences

    def tokens_of(sequences: IntArray) -> BoolArray:
        return np.isin(np.repeat(everything, scores.lengths), sequences)

    parts: list[ChainPart] = []
    others = np.setdiff1d(everything, with_musts)
    if len(others):
        free, open_gaps = of_sequences(bonuses, others), crossed[tokens_of(others)]
        parts += with_bonuses(scores.take(others), states, free, state_labels, numbers=others, gaps=open_gaps)
    musts = _Musts(scores, states, tags, inputs, known, crossed, name, occurrences, bonuses)
    strict, lost = musts.obeyed(with_musts)
    open_gaps = crossed & ~occurrences.take(occurrences.must & ~lost).inner_tokens(scores.lengths)
    parts += with_bonuses(
        strict,
        SpanStates.of(strict, tags, states.labels),
        of_sequences(bonuses, with_musts),
        states.labels,
        numbers=with_musts,
        gaps=open_gaps[tokens_of(with_musts)],
    )
    return parts, replace(occurrences, lost=lost)


@dataclass(frozen=True, eq=False)
class _Musts:
    """A batch some of whose occurrences must be spans."""

    scores: ChainScores
    states: SpanStates
    tags: TagSet
    inputs: Sequence[Any]
    known: BoolArray | None  # [N, L]
    gaps: BoolArray  # [N]
    name: Callable[[int], str]
    occurrences: Occurrences
    bonuses: Bonuses

    def obeyed(self, sequences: IntArray) -> tuple[ChainScores, BoolArray]:
        """The chain of these inputs in which all musts hold that can, and which of the occurrences lost."""
        every, chain = self.occurrences, self.states.chain(self.scores.take(sequences))
        rows = np.flatnonzero(every.must)
        order = rows[np.lexsort((every.end[rows], every.begin[rows], every.sequence[rows]))]
        musts = every.take(order)
        self._check_known(musts)
        number = np.searchsorted(sequences, musts.sequence)  # in `chain`
        holds = np.ones(len(musts), dtype=np.bool_)
        for b in np.unique(number[_overlapping(musts)]).tolist():
            of_input = np.flatnonzero(number == b)
            holds[of_input] = self._largest_set(chain.part(b), musts.take(of_input), int(sequences[b]))
        # the states with which each must is a span; if one span has several labels, any of them
        spans: dict[tuple[int, int], BoolArray] = {}
        begins = offsets_of(chain.lengths)[number] + musts.begin
        for row in np.flatnonzero(holds).tolist():
            span = int(begins[row]), int(begins[row] + musts.end[row] - musts.begin[row])
            spans[span] = spans.get(span, False) | self._inside(musts, row)
        allowed = np.ones(chain.emissions.shape, dtype=np.bool_)
        for (begin, end), mask in spans.items():
            allowed[begin:end] &= mask
        strict = chain.restricted(allowed)
        try:
            strict.log_partition()
        except NoPathError as error:
            raise self._impossible(musts.take(number == error.sequence)) from None
        lost = np.zeros(len(every), dtype=np.bool_)
        lost[order] = ~holds
        return strict, lost

    def _inside(self, musts: Occurrences, row: int) -> BoolArray:
        """``(size, A)``: the states with which the tokens of a must are its span."""
        kind = int(musts.kind[row])
        return self.states.inside(int(musts.end[row] - musts.begin[row]), None if kind == _ANY else kind)

    def _largest_set(self, one: ChainScores, musts: Occurrences, sequence: int) -> BoolArray:
        """Which `must` entries of one input are obeyed: as many as possible, then those of the best labelling.

        Each of them is worth more than all differences between scores, so the best path counts them first. One that
        fails although no other overlaps it is an error.
        """
        wanted = of_sequences(self.bonuses, np.array([sequence]))
        first, stop = offsets_of(self.scores.lengths)[sequence : sequence + 2]
        states = SpanStates.of(one, self.tags, self.states.labels)
        scores = (one.emissions, one.transitions, one.start, one.end, np.zeros(1) if one.edges is None else one.edges)
        largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in scores)
        worth = 1.0 + 4.0 * (len(one.emissions) + 1) * largest + 2.0 * float(np.abs(wanted.bonus).sum())
        as_bonuses = replace(musts, must=np.zeros(len(musts), dtype=np.bool_)).bonuses(len(states.kinds))
        distinct = np.unique(np.stack(as_bonuses[1:4], axis=1), axis=0)  # one span counts once
        begin, end, kind = distinct.T
        rewards = Bonuses(np.zeros_like(begin), begin, end, kind, np.full(len(begin), worth))
        every = Bonuses(*(np.concatenate(pair) for pair in zip(rewards, wanted, strict=True)))
        (best,) = with_bonuses(one, states, every, self.states.labels, gaps=self.gaps[first:stop])
        assert best.state_labels is not None
        spans = self.tags.find_spans(best.state_labels[best.scores.viterbi().tags], one.lengths)
        won = {(b, e, spans.kinds[k]) for b, e, k in zip(*(x.tolist() for x in spans[1:4]), strict=True)}
        kinds = [states.kinds if k == _ANY else (states.kinds[k],) for k in musts.kind.tolist()]
        rows = list(zip(musts.begin.tolist(), musts.end.tolist(), kinds, strict=True))
        spans_won = {(b, e) for b, e, allowed in rows if any((b, e, kind) in won for kind in allowed)}
        holds = np.array([(b, e) in spans_won for b, e, _ in rows])  # which of its labels a span gets stays open
        for row in np.flatnonzero(~holds).tolist():
            if not ((musts.begin < musts.end[row]) & (musts.end > musts.begin[row]) & holds).any():
                raise self._impossible(musts.take(np.array([row])))
        return holds

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
                    f"{self.name(b)}: the lexicon says that {self._demand(musts, row)}, "
                    f"and known labels say that token {begin + stuck[0]} is {self._labels(known[stuck[0]])}"
                )

    def _impossible(self, musts: Occurrences) -> ModelError:
        """The error for musts that no labelling of their input obeys."""
        b = int(musts.sequence[0])
        demands = "; ".join(self._demand(musts, row) for row in range(min(len(musts), 3)))
        if self.known is None:
            return ModelError(
                f"{self.name(b)}: no labelling that the model allows obeys the lexicon, which says that {demands}"
            )
        rows = self.known[slice(*offsets_of(self.scores.lengths)[b : b + 2])]
        told = [f"token {t} is {self._labels(row)}" for t, row in enumerate(rows) if not row.all()]
        return ModelError(
            f"{self.name(b)}: the lexicon says that {demands}, which contradicts known labels: {'; '.join(told[:5])}"
        )

    def _demand(self, musts: Occurrences, row: int) -> str:
        """One must in words, for messages."""
        entry, begin, end = musts.which(row), int(musts.begin[row]), int(musts.end[row])
        item = self.inputs[int(musts.sequence[row])]
        tokens = (item.tokens if isinstance(item, Sentence) else item)[begin:end]
        where = f"token {begin}" if end - begin == 1 else f"tokens {begin} to {end - 1}"
        label = "one span" if entry.label is None else f"one span of type {entry.label}"
        return f"{where} ({shown(' '.join(map(str, tokens)))}) must be {label}"

    def _labels(self, mask: BoolArray) -> str:
        return " or ".join(self.tags.labels[i] for i in np.flatnonzero(mask)[:5])


def _overlapping(musts: Occurrences) -> BoolArray:
    """Which of these `must` entries, in order, overlap one that is another span."""
    result = np.zeros(len(musts), dtype=np.bool_)
    for i in range(len(musts)):
        for j in range(i + 1, len(musts)):
            if musts.sequence[j] != musts.sequence[i] or musts.begin[j] >= musts.end[i]:
                break
            if (musts.begin[j], musts.end[j]) != (musts.begin[i], musts.end[i]):
                result[i] = result[j] = True
    return result
