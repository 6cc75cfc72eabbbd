"""The distribution with what lexicons say: bonuses for preferred spans, and conditions for those that must be.

Musts that overlap cannot all hold. As many as possible do, and among these sets the one with the best labelling does;
the others are reported as lost. A must that contradicts known labels is an error that names both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.chain import ChainScores
from trellis.errors import ModelError, NoPathError, shown
from trellis.lexicon.spanned import SpanStates
from trellis.lexicon.tracks import Bonuses, Gaps, rewarded
from trellis.models.data import tokens_of
from trellis.models.lexical import ANY, Occurrences, ScoredInputs, bonuses_of, of_sequences
from trellis.models.parts import ChainPart
from trellis.ragged import offsets_of
from trellis.tags import TagSet


class Applied(NamedTuple):
    """The chains of a batch with lexicons, and the occurrences in it."""

    parts: list[ChainPart]
    found: Occurrences


def applied(batch: ScoredInputs, found: Occurrences) -> Applied:
    """The distribution with what lexicons say; inputs in which nothing occurs keep their chain."""
    count = len(batch.scores.lengths)
    if not len(found):
        return Applied([ChainPart(batch.scores, batch.state_labels, np.arange(count))], found)
    states = SpanStates.of(batch.scores, batch.tags, batch.state_labels)
    bonuses = bonuses_of(found, len(states.kinds))
    if not found.must.any():
        return Applied(
            _rewarded(batch.scores, states, bonuses, batch.state_labels, np.arange(count), batch.gaps), found
        )
    with_musts = np.unique(found.sequence[found.must])
    others = np.setdiff1d(np.arange(count), with_musts)
    parts = []
    if len(others):
        own = of_sequences(bonuses, others)
        gaps = batch.gaps.of_sequences(others)
        parts += _rewarded(batch.scores.take(others), states, own, batch.state_labels, others, gaps)
    strict, lost = _obeyed(batch, states, found, bonuses, with_musts)
    finer = SpanStates.of(strict, batch.tags, states.labels)
    gaps = _outside(batch.gaps, found.taken(found.must & ~lost)).of_sequences(with_musts)
    parts += _rewarded(strict, finer, of_sequences(bonuses, with_musts), states.labels, with_musts, gaps)
    return Applied(parts, replace(found, lost=lost))


def _outside(gaps: Gaps, held: Occurrences) -> Gaps:
    """The gaps that do not lie inside a must that holds."""
    places = zip(held.sequence.tolist(), held.begin.tolist(), held.end.tolist(), strict=True)
    inside = {(b, place) for b, begin, end in places for place in range(begin + 1, end)}
    rows = [n for n, gap in enumerate(zip(*(x.tolist() for x in gaps), strict=True)) if gap not in inside]
    return Gaps(gaps.sequence[rows], gaps.place[rows])


def _rewarded(
    scores: ChainScores,
    states: SpanStates,
    bonuses: Bonuses,
    labels: IntArray | None,
    sequences: IntArray,
    gaps: Gaps,
) -> list[ChainPart]:
    return [
        ChainPart(one.scores, labels if one.state_labels is None else one.state_labels, sequences[one.sequences])
        for one in rewarded(scores, states, bonuses, gaps)
    ]


def _obeyed(
    batch: ScoredInputs, states: SpanStates, found: Occurrences, bonuses: Bonuses, sequences: IntArray
) -> tuple[ChainScores, BoolArray]:
    """The chain of these inputs in which all musts hold that can, and which of the occurrences lost."""
    chain = states.chain(batch.scores.take(sequences))
    rows = np.flatnonzero(found.must)
    order = rows[np.lexsort((found.end[rows], found.begin[rows], found.sequence[rows]))]
    musts = found.taken(order)
    place = np.searchsorted(sequences, musts.sequence)
    _check_known(batch, states, musts)
    held = np.ones(len(musts), dtype=np.bool_)
    torn = _overlapping(musts)
    for number in np.unique(place[torn]).tolist():
        own = np.flatnonzero(place == number)
        only = sequences[number : number + 1]
        wanted, gaps = of_sequences(bonuses, only), batch.gaps.of_sequences(only)
        held[own] = _largest_set(batch, states, chain.part(number), musts.taken(own), wanted, gaps)
        _check_losers(batch, musts.taken(own), held[own])
    strict = chain.restricted(_conditions(states, chain, musts.taken(held), place[held]))
    try:
        strict.log_partition()
    except NoPathError as error:
        raise _impossible(batch, musts.taken(place == error.sequence)) from None
    lost = np.zeros(len(found), dtype=np.bool_)
    lost[order] = ~held
    return strict, lost


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


def _largest_set(
    batch: ScoredInputs, states: SpanStates, one: ChainScores, musts: Occurrences, wanted: Bonuses, gaps: Gaps
) -> BoolArray:
    """Which musts of one input hold in its best labelling among those in which as many as possible do.

    Each must is worth more than all differences between scores, so the best path counts them first.
    """
    finer = SpanStates.of(one, batch.tags, states.labels)
    scores = (one.emissions, one.transitions, one.start, one.end, np.zeros(1) if one.edges is None else one.edges)
    largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in scores)
    worth = 1.0 + 4.0 * (len(one.emissions) + 1) * largest + 2.0 * float(np.abs(wanted.bonus).sum())
    worth_of_one = bonuses_of(replace(musts, must=np.zeros(len(musts), dtype=np.bool_)), len(finer.kinds))
    places = {tuple(row) for row in np.stack(worth_of_one[1:4], axis=1).tolist()}  # one span counts once
    begin, end, kind = np.array(sorted(places), dtype=np.int64).reshape(-1, 3).T
    paid = Bonuses(np.zeros_like(begin), begin, end, kind, np.full(len(begin), worth))
    every = Bonuses(*(np.concatenate(pair) for pair in zip(paid, wanted, strict=True)))
    (found,) = rewarded(one, finer, every, gaps)
    labels = states.labels if found.state_labels is None else found.state_labels  # None: no must can be a span
    spans = batch.tags.find_spans(labels[found.scores.viterbi().tags], one.lengths)
    won = {(b, e, spans.kinds[k]) for b, e, k in zip(*(x.tolist() for x in spans[1:4]), strict=True)}
    kinds = [finer.kinds if k == ANY else (finer.kinds[k],) for k in musts.kind.tolist()]
    rows = list(zip(musts.begin.tolist(), musts.end.tolist(), kinds, strict=True))
    held = {(b, e) for b, e, own in rows if any((b, e, kind) in won for kind in own)}
    return np.array([(b, e) in held for b, e, _ in rows], dtype=np.bool_)  # the label of a span that holds stays open


def _check_losers(batch: ScoredInputs, musts: Occurrences, held: BoolArray) -> None:
    """Refuse a must that fails though no other stands in its way."""
    for row in np.flatnonzero(~held).tolist():
        beside = (musts.begin < musts.end[row]) & (musts.end > musts.begin[row]) & held
        if not beside.any():
            raise _impossible(batch, musts.taken(np.array([row])))


def _conditions(states: SpanStates, chain: ChainScores, musts: Occurrences, place: IntArray) -> BoolArray:
    """``(N, A)``: the states with which each must is a span; of several labels of one span, any."""
    allowed = np.ones(chain.emissions.shape, dtype=np.bool_)
    first = offsets_of(chain.lengths)
    spans: dict[tuple[int, int, int], BoolArray] = {}
    for b, begin, end, kind in zip(
        place.tolist(), *(x.tolist() for x in (musts.begin, musts.end, musts.kind)), strict=True
    ):
        mask = states.inside(end - begin, None if kind == ANY else kind)
        spans[b, begin, end] = spans.get((b, begin, end), False) | mask
    for (b, begin, end), mask in spans.items():
        allowed[first[b] + begin : first[b] + end] &= mask
    return allowed


def _check_known(batch: ScoredInputs, states: SpanStates, musts: Occurrences) -> None:
    """Refuse a must with a token whose known labels leave none that the span could have there."""
    if batch.known is None:
        return
    first = offsets_of(batch.scores.lengths)
    for row in range(len(musts)):
        b, begin, end, kind = (int(x[row]) for x in (musts.sequence, musts.begin, musts.end, musts.kind))
        mask = states.inside(end - begin, None if kind == ANY else kind)
        known = batch.known[first[b] + begin : first[b] + end]
        stuck = np.flatnonzero(~(mask & known[:, states.labels]).any(axis=1))
        if len(stuck):
            raise ModelError(
                f"{batch.name(b)}: the lexicon says that {_must(batch, musts, row)}, "
                f"and known labels say that token {begin + stuck[0]} is {_labels(batch.tags, known[stuck[0]])}"
            )


def _impossible(batch: ScoredInputs, musts: Occurrences) -> ModelError:
    """The error for musts that no labelling of their input obeys."""
    b = int(musts.sequence[0])
    said = "; ".join(_must(batch, musts, row) for row in range(min(len(musts), 3)))
    if batch.known is None:
        return ModelError(
            f"{batch.name(b)}: no labelling that the model allows obeys the lexicon, which says that {said}"
        )
    rows = batch.known[slice(*offsets_of(batch.scores.lengths)[b : b + 2])]
    told = [f"token {t} is {_labels(batch.tags, row)}" for t, row in enumerate(rows) if not row.all()]
    return ModelError(
        f"{batch.name(b)}: the lexicon says that {said}, which contradicts known labels: {'; '.join(told[:5])}"
    )


def _must(batch: ScoredInputs, musts: Occurrences, row: int) -> str:
    entry, begin, end = musts.which(row), int(musts.begin[row]), int(musts.end[row])
    tokens = tokens_of(batch.inputs[int(musts.sequence[row])])[begin:end]
    where = f"token {begin}" if end - begin == 1 else f"tokens {begin} to {end - 1}"
    label = "one span" if entry.label is None else f"one span of type {entry.label}"
    return f"{where} ({shown(' '.join(map(str, tokens)))}) must be {label}"


def _labels(tags: TagSet, mask: BoolArray) -> str:
    return " or ".join(tags.labels[i] for i in np.flatnonzero(mask)[:5])
