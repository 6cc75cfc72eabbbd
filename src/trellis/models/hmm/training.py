"""Problem 2, from sentences to a model: counting if tags are known, Baum-Welch if they are not, both together.

Sentences whose tags are all known are counted. If there are others, with some tags known or none, EM continues from the
counts: its M-step adds the known counts to the expected ones. Smoothing comes last, on the counts of the final model,
so that EM itself only ever raises the likelihood (with pseudo-counts, the posterior).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from trellis.arrays import FloatArray
from trellis.errors import ModelError
from trellis.models.data import Label, Labelled, check_held_out, name_of
from trellis.models.evaluation import held_out_scores
from trellis.models.hmm.config import HMMConfig, Part, resolved
from trellis.models.hmm.estimation import Estimation, Forms, count_labelled
from trellis.models.hmm.expectation import PARTS, HMMObjective
from trellis.models.hmm.histories import Histories, Triples
from trellis.models.hmm.observations import Observations, Symbol, encode, index_symbols, number
from trellis.models.hmm.probabilities import Probabilities, chain_scores, log_emissions
from trellis.models.probability import logs
from trellis.models.tagger import FitOptions
from trellis.ragged import split
from trellis.tags import AllowedTransitions, StateMap, TagSet
from trellis.training import DevScores, History, Resumption, Step, retry_on_interrupt
from trellis.training.em import best_of_restarts
from trellis.training.process_group import ProcessGroup

_TINY = 1e-100


@dataclass(frozen=True, eq=False)
class LearnedHMM:
    """A model: the symbols by id, the probabilities, and the counts behind them if there are any."""

    symbols: dict[Symbol, int]
    parameters: Probabilities
    labelled: Probabilities | None = None
    """Counts of labelled sentences: what further training starts from."""
    forms: Forms | None = None
    """Tells unknown words apart; with it, the last row of the emissions is that of all unknown words."""
    histories: Histories | None = None
    """Order 2: the pairs of states that the next one depends on."""
    triples: Triples | None = None
    """Order 2: counts of labelled sentences, like `labelled`."""


def learn(
    data: Labelled,
    tags: TagSet,
    before: LearnedHMM | None,
    settings: HMMConfig,
    legal: AllowedTransitions,
    dev: Labelled | None,
    options: FitOptions,
) -> tuple[LearnedHMM, HMMConfig, History]:
    """The model of the data and the settings used; it continues from `before`, whose states and symbols come first."""
    if settings.fixed and before is None:
        raise ModelError(f"fixed = {settings.fixed} needs a model that has them: use warm_start=True")
    if dev is not None:
        check_held_out(dev, tags)
    group = options.group
    index = index_symbols(data.inputs, None if before is None else before.symbols, group)
    corpus = number(data, tags, index, options.sentence_weights)
    known = np.array([bool((own >= 0).all()) for own in split(corpus.states, corpus.lengths)])
    counted = corpus.select(known)
    labelled = _labelled_counts(counted, before, len(tags), len(index), group)
    has_labels = bool(labelled.emissions.any())
    settings = resolved(settings, tags.scheme, has_labels=has_labels, has_words=_are_words(index, settings))
    if settings.order == 2:
        group.require_single("order = 2")
    triples = _labelled_triples(counted, before) if settings.order == 2 else None
    task = _Task(index, labelled, has_labels, before, settings, estimation_of(settings, legal), triples)
    if all(group.gather(bool(known.all()))):
        model, history = _count(task)
    else:
        validate = None if dev is None else _validation(dev, tags, index, legal)
        model, history = _run_em(task, corpus.select(~known), validate, options)
    return model, settings, history


@dataclass(frozen=True, eq=False)
class _Task:
    """What counting and EM both need to know."""

    index: dict[Symbol, int]
    labelled: Probabilities
    has_labels: bool
    before: LearnedHMM | None
    settings: HMMConfig
    estimation: Estimation
    triples: Triples | None


def check_order(data: Labelled, order: int) -> None:
    """Order 2 is learned by counting: every token needs its label."""
    if order == 1 or not data.partial:
        return
    for i, own in enumerate(data.labels):
        if not all(map(_is_known, own)):
            raise ModelError(
                f"order = 2 is learned from labels alone, but {name_of(i, data.inputs[i])} has a token without one: "
                "leave such sentences out, or use order = 1"
            )


def _is_known(label: Label) -> bool:
    return isinstance(label, str) or (label is not None and len(set(label)) == 1)


def _labelled_counts(
    corpus: Observations, before: LearnedHMM | None, L: int, V: int, group: ProcessGroup
) -> Probabilities:
    counts = count_labelled(corpus.symbols, corpus.states, corpus.lengths, corpus.weights, L, V)
    counts = Probabilities.from_flat(group.add(counts.flat()), L)
    if before is None or before.labelled is None:
        return counts
    return counts.plus(widened(before.labelled, L, V))


def _labelled_triples(corpus: Observations, before: LearnedHMM | None) -> Triples:
    counts = Triples.count(corpus)
    if before is None:
        return counts
    if before.triples is None:
        raise ModelError("warm_start with order = 2 continues from a model of order 2, but this one is of order 1")
    return counts.plus(before.triples)


def _count(task: _Task) -> tuple[LearnedHMM, History]:
    """Relative frequencies, smoothed; the history is one step."""
    begin = time.perf_counter()
    learned = _finished(task, task.estimation.parameters(task.labelled), task.labelled)
    loss = _loss_of_counts(learned)
    return learned, History((Step(1, loss, None, None, time.perf_counter() - begin, 0.0),), "converged", 0)


def _run_em(
    task: _Task, corpus: Observations, validate: Callable[[FloatArray], DevScores] | None, options: FitOptions
) -> tuple[LearnedHMM, History]:
    """Baum-Welch on the sentences that are not fully labelled, with the counts of those that are."""
    L, V = task.labelled.num_states, len(task.index)
    objective = HMMObjective(
        corpus.symbols,
        corpus.lengths,
        L,
        V,
        allowed=corpus.allowed,
        weights=corpus.weights,
        known=task.labelled,
        pseudo=task.estimation.pseudo(V),
        fixed=frozenset(task.settings.fixed),
        end=task.estimation.legal.end.astype(np.float64),
        numbers=corpus.numbers,
        group=options.group,
    )

    def optimize() -> tuple[FloatArray, tuple[LearnedHMM, History]]:
        starts: Iterator[FloatArray | Resumption] = _starts(task)
        if options.folder is not None and (task.settings.restarts == 1 or task.has_labels):
            starts = (Resumption(start, options.folder, task.settings.checkpoint_seconds) for start in _starts(task))
        trained = best_of_restarts(
            objective,
            starts,
            tolerance=task.settings.tolerance,
            max_iterations=task.settings.max_iterations,
            validate=validate,
            patience=task.settings.patience,
            progress=options.progress,
        )
        learned = retry_on_interrupt(lambda: _after_em(task, objective, trained.weights))
        return trained.weights, (learned, trained.history)

    return options.group.run(L * (1 + L + V), objective.shard_log_likelihood, optimize)[1]


def _after_em(task: _Task, objective: HMMObjective, weights: FloatArray) -> LearnedHMM:
    """The model of the parameters that EM kept."""
    if not task.estimation.witten_bell and not task.settings.unknown:
        return LearnedHMM(task.index, Probabilities.from_flat(weights, task.labelled.num_states), task.labelled)
    _, counts = objective.expect(weights)
    return _finished(task, task.estimation.parameters(counts), counts)


def estimation_of(settings: HMMConfig, legal: AllowedTransitions) -> Estimation:
    """How a model with these resolved settings smooths."""
    start, transitions, emissions = settings.start_prior, settings.transition_prior, settings.emission_prior
    assert start is not None
    assert transitions is not None
    assert emissions is not None
    return Estimation(settings.smoothing == "witten_bell", start, transitions, emissions, legal)


def widened(counts: Probabilities, L: int, V: int, fill: float = 0.0) -> Probabilities:
    """The same numbers with room for more states and symbols, which get `fill`."""
    states, symbols = counts.num_states, counts.num_symbols
    wide = Probabilities(np.full(L, fill), np.full((L, L), fill), np.full((V, L), fill))
    wide.start[:states] = counts.start
    wide.transitions[:states, :states] = counts.transitions
    wide.emissions[:symbols, :states] = counts.emissions
    return wide


def _starts(task: _Task) -> Iterator[FloatArray]:
    """Where EM begins: the model before, what the labels say, or random numbers, as often as there are restarts."""
    L, V, legal = task.labelled.num_states, len(task.index), task.estimation.legal
    if task.before is not None:
        parameters = _known_symbols(task.before)
        grown = (parameters.num_states, parameters.num_symbols) != (L, V)
        yield (_renormalised(widened(parameters, L, V, 0.5 / V), legal) if grown else parameters).flat()
        return
    if task.has_labels:
        yield Estimation(False, 0.5, 0.5, 0.5, legal).parameters(task.labelled).flat()
        return
    for restart in range(task.settings.restarts):
        random = np.random.default_rng([task.settings.seed, restart])
        yield Probabilities.random(L, V, random, legal).flat()


def _known_symbols(model: LearnedHMM) -> Probabilities:
    """Emissions without the row of unknown words, normalised again."""
    p = model.parameters
    if model.forms is None:
        return p
    known = p.emissions[:-1]
    return Probabilities(p.start, p.transitions, known / known.sum(axis=0))


def _renormalised(p: Probabilities, legal: AllowedTransitions) -> Probabilities:
    return Estimation(False, 0.0, 0.0, 0.0, legal).parameters(
        Probabilities(p.start * legal.start, p.transitions * legal.transitions, p.emissions)
    )


def _finished(task: _Task, parameters: Probabilities, counts: Probabilities) -> LearnedHMM:
    """The model of the counts with its unknown words, and with what is held fixed put back."""
    forms = None
    if task.settings.unknown:
        parameters, forms = task.estimation.with_unknown(counts, list(task.index))  # type: ignore[arg-type]
    if task.before is not None:
        for part in task.settings.fixed:
            parameters = replace(parameters, **{part: _held(task.before.parameters, parameters, part)})
        forms = task.before.forms if "emissions" in task.settings.fixed else forms
    return LearnedHMM(task.index, parameters, task.labelled, forms, _histories(task, parameters), task.triples)


def _histories(task: _Task, parameters: Probabilities) -> Histories | None:
    if task.triples is None:
        return None
    if task.before is not None and "transitions" in task.settings.fixed:
        return task.before.histories
    return Histories.learn(task.triples, parameters.transitions, task.estimation, task.settings.pairs)


def _held(before: Probabilities, after: Probabilities, part: Part) -> FloatArray:
    values: FloatArray = getattr(before, part)
    if values.shape != getattr(after, part).shape:
        raise ModelError(f"{part} cannot be held fixed: the data has states or symbols that the model lacks")
    return values


def _are_words(symbols: dict[Symbol, int], settings: HMMConfig) -> bool:
    """Whether all symbols are strings, without which there is no model of unknown words."""
    strings = all(isinstance(symbol, str) for symbol in symbols)
    if settings.unknown and not strings:
        raise ModelError("unknown = true needs observations that are strings: what a number looks like says nothing")
    return strings


def _loss_of_counts(model: LearnedHMM) -> float:
    """The negative log-likelihood of the labelled sentences under the model."""
    total, counts, p = 0.0, model.labelled, model.parameters
    assert counts is not None
    for part in PARTS:
        if part == "transitions" and model.histories is not None and model.triples is not None:
            total -= model.histories.log_likelihood(model.triples, p.transitions)
            continue
        own: FloatArray = getattr(counts, part)
        seen = own > 0
        total -= float(own[seen] @ logs(getattr(p, part)[: len(own)][seen]))
    return total


def _validation(
    dev: Labelled, tags: TagSet, index: dict[Symbol, int], legal: AllowedTransitions
) -> Callable[[FloatArray], DevScores]:
    """A function from parameters to the score on held-out sentences, where unknown words say nothing.

    What EM gave probability zero gets a little, so that every sentence can be tagged.
    """
    symbols, lengths = encode(dev.inputs, index)
    end = logs(legal.end.astype(np.float64))
    floor = Probabilities(np.where(legal.start, _TINY, 0.0), np.where(legal.transitions, _TINY, 0.0), np.empty((0, 1)))

    states = StateMap.of(tags)

    def validate(weights: FloatArray) -> DevScores:
        p = Probabilities.from_flat(weights, len(tags))
        p = Probabilities(np.maximum(p.start, floor.start), np.maximum(p.transitions, floor.transitions), p.emissions)
        emissions = np.where(symbols[:, None] >= 0, np.maximum(log_emissions(p, symbols), math.log(_TINY)), 0.0)
        return held_out_scores([chain_scores(p, emissions, lengths, end)], dev, states)

    return validate
