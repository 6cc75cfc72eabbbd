"""Problem 2, from sentences to a model: counting if tags are known, Baum-Welch if they are not, both together.

Sentences whose tags are all known are counted. If there are others, with some tags known or none, EM continues from the
counts: its M-step adds the known counts to the expected ones. Smoothing comes last, on the counts of the final model,
so that EM itself only ever raises the likelihood (with pseudo-counts, the posterior).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain as concatenated
from typing import Any

import numpy as np

from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import DataError, ModelError, shown
from trellis.models.data import Label, Labelled, check_held_out, check_sized, dev_scores, name_of, tokens_of
from trellis.models.hmm.config import HMMConfig, resolved
from trellis.models.hmm.estimation import PARTS, Estimation, Forms, Histories, HMMObjective, Triples, count_labelled
from trellis.models.hmm.probabilities import Probabilities, chain_scores, log_emissions, log_score, logs
from trellis.models.posterior import best_labels
from trellis.models.tagger import FitOptions
from trellis.ragged import check_lengths, split
from trellis.tags import AllowedTransitions, StateMap, TagSet
from trellis.training import DevScores, History, Objective, Resumption, Step, retry_on_interrupt
from trellis.training.loop import best_of_restarts
from trellis.training.process_group import SINGLE, ProcessGroup

Symbol = Hashable
_TINY = 1e-100
_FLOATS = (float, complex, np.floating, np.complexfloating)


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


@dataclass(frozen=True, eq=False)
class Observations:
    """Sentences as numbers: the id of each token's symbol and of its tag."""

    symbols: IntArray  # [N]
    lengths: IntArray  # [B]
    states: IntArray  # [N] -1 if the tag is unknown
    allowed: BoolArray | None  # [N, L] if some tags are unknown
    weights: FloatArray | None  # [B]
    numbers: IntArray  # [B] the numbers of the sentences, for messages

    @classmethod
    def of(cls, data: Labelled, tags: TagSet, index: dict[Symbol, int], weights: FloatArray | None) -> Observations:
        """All sentences of the data; a token with one possible tag has that tag."""
        symbols, lengths = encode(data.inputs, index)
        numbers = np.arange(len(lengths))
        if not data.partial:
            return cls(symbols, lengths, data.encode(tags), None, weights, numbers)
        allowed = data.allowed(tags)
        states = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
        return cls(symbols, lengths, states, None if allowed.all() else allowed, weights, numbers)

    def select(self, sentences: BoolArray) -> Observations:
        """The sentences where the mask is true."""
        tokens = np.repeat(sentences, self.lengths)
        allowed = None if self.allowed is None else self.allowed[tokens]
        weights = None if self.weights is None else self.weights[sentences]
        numbers, lengths = self.numbers[sentences], self.lengths[sentences]
        return Observations(self.symbols[tokens], lengths, self.states[tokens], allowed, weights, numbers)


def index_symbols(
    inputs: Sequence[Any], known: dict[Symbol, int] | None = None, group: ProcessGroup = SINGLE
) -> dict[Symbol, int]:
    """Ids of all symbols that occur, in the order of their first occurrence, after those that are known.

    Sentence i of process r counts as sentence ``i * processes + r``.
    """
    with _checked_symbols(inputs):
        symbols = list(dict.fromkeys(concatenated.from_iterable(map(tokens_of, inputs))))
    if group.count > 1:
        first: dict[Symbol, int] = {}
        for sentence, item in enumerate(inputs):
            for symbol in tokens_of(item):
                first.setdefault(symbol, sentence)
        parts = group.gather(list(first.items()))
        ordered = sorted((use, rank, i) for rank, part in enumerate(parts) for i, (_, use) in enumerate(part))
        symbols = [parts[rank][i][0] for _, rank, i in ordered]
    index = {} if known is None else dict(known)
    for symbol in symbols:
        index.setdefault(symbol, len(index))
    return index


def encode(inputs: Sequence[Any], index: dict[Symbol, int]) -> tuple[IntArray, IntArray]:
    """Symbols (N,), -1 if unknown, and lengths."""
    with _checked_symbols(inputs):
        lengths = check_lengths(np.fromiter(map(len, inputs), dtype=np.int64, count=len(inputs)))
        flat = (index.get(symbol, -1) for symbol in concatenated.from_iterable(map(tokens_of, inputs)))
        return np.fromiter(flat, dtype=np.int64, count=int(lengths.sum())), lengths


@contextmanager
def _checked_symbols(inputs: Sequence[Any]) -> Iterator[None]:
    """Name the input that is no sequence, and the symbol that is a float or has no hash.

    Floats are measurements, of which an equal one may never come again, and 1.0 would pass for 1.
    """
    try:
        kinds = set(map(type, concatenated.from_iterable(map(tokens_of, inputs))))
        if not any(issubclass(kind, _FLOATS) for kind in kinds):
            yield
            return
    except TypeError:
        pass
    for number, item in enumerate(inputs):
        check_sized(number, item)
        for position, symbol in enumerate(tokens_of(item)):
            problem = f"the float {shown(symbol)}; put measurements into classes first"
            if not isinstance(symbol, _FLOATS):
                try:
                    hash(symbol)
                    continue
                except TypeError:
                    problem = shown(symbol)
            raise DataError(
                f"{name_of(number, item)}, position {position}: an observation must be a string or an integer, "
                f"got {problem}"
            )
    raise AssertionError("inputs that cannot be encoded, but nothing is wrong with them")


def learn(
    data: Labelled,
    tags: TagSet,
    earlier: LearnedHMM | None,
    settings: HMMConfig,
    legal: AllowedTransitions,
    dev: Labelled | None,
    options: FitOptions,
) -> tuple[LearnedHMM, HMMConfig, History]:
    """The model of the data and the settings used; states and symbols of an `earlier` model come first."""
    if settings.fixed and earlier is None:
        raise ModelError(f"fixed = {settings.fixed} needs a model that has them: use warm_start=True")
    if dev is not None:
        check_held_out(dev, tags)
    group, L = options.group, len(tags)
    index = index_symbols(data.inputs, None if earlier is None else earlier.symbols, group)
    V = len(index)
    corpus = Observations.of(data, tags, index, options.sentence_weights)
    known = np.array([bool((states >= 0).all()) for states in split(corpus.states, corpus.lengths)])
    counted = corpus.select(known)
    labelled = count_labelled(counted.symbols, counted.states, counted.lengths, counted.weights, L, V)
    labelled = Probabilities.from_flat(group.add(labelled.flat()), L)
    if earlier is not None and earlier.labelled is not None:
        labelled = labelled.plus(earlier.labelled.widened(L, V))
    has_labels, has_words = bool(labelled.emissions.any()), all(isinstance(symbol, str) for symbol in index)
    if settings.unknown and not has_words:
        raise ModelError("unknown = true needs observations that are strings: what a number looks like says nothing")
    settings = resolved(settings, tags.scheme, has_labels=has_labels, has_words=has_words)
    triples = None
    if settings.order == 2:
        group.require_single("order = 2")
        triples = Triples.count(counted.states, counted.lengths, counted.weights)
        if earlier is not None:
            if earlier.triples is None:
                raise ModelError(
                    "warm_start with order = 2 continues from a model of order 2, but this one is of order 1"
                )
            triples = triples.plus(earlier.triples)
    priors = settings.start_prior, settings.transition_prior, settings.emission_prior
    estimation = Estimation(settings.smoothing == "witten_bell", *priors, legal)  # type: ignore[arg-type]
    task = _Task(index, labelled, has_labels, earlier, settings, estimation, triples)
    if all(group.gather(bool(known.all()))):
        model, history = task.count()
    else:
        validate = None if dev is None else _validation(dev, tags, index, legal)
        model, history = task.run_em(corpus.select(~known), validate, options)
    return model, settings, history


def check_order(data: Labelled, order: int) -> None:
    """Order 2 is learned by counting: every token needs its label."""

    def is_known(label: Label) -> bool:
        return isinstance(label, str) or (label is not None and len(set(label)) == 1)

    for i, labels in enumerate(data.labels if order == 2 and data.partial else ()):
        if not all(map(is_known, labels)):
            raise ModelError(
                f"order = 2 is learned from labels alone, but {name_of(i, data.inputs[i])} has a token without one: "
                "leave such sentences out, or use order = 1"
            )


@dataclass(frozen=True, eq=False)
class _Task:
    """A training, by counting or by EM; settings are resolved."""

    index: dict[Symbol, int]
    labelled: Probabilities
    has_labels: bool
    earlier: LearnedHMM | None
    settings: HMMConfig
    estimation: Estimation
    triples: Triples | None

    def count(self) -> tuple[LearnedHMM, History]:
        """Relative frequencies, smoothed; the history is one step."""
        begin = time.perf_counter()
        learned, loss = self._model(self.labelled), 0.0  # the negative log-likelihood of the labelled sentences
        for part in PARTS:
            if part == "transitions" and learned.histories is not None and self.triples is not None:
                loss -= learned.histories.log_likelihood(self.triples, learned.parameters.transitions)
            else:
                counts: FloatArray = getattr(self.labelled, part)
                loss -= log_score(counts, getattr(learned.parameters, part)[: len(counts)])
        return learned, History((Step(1, loss, None, None, time.perf_counter() - begin, 0.0),), "converged", 0)

    def run_em(
        self, corpus: Observations, validate: Callable[[FloatArray], DevScores] | None, options: FitOptions
    ) -> tuple[LearnedHMM, History]:
        """Baum-Welch on the sentences that are not fully labelled, with the counts of those that are."""
        L, V, settings = self.labelled.num_states, len(self.index), self.settings
        objective = HMMObjective(
            corpus.symbols,
            corpus.lengths,
            L,
            V,
            allowed=corpus.allowed,
            weights=corpus.weights,
            known=self.labelled,
            pseudo=self.estimation.pseudo(V),
            fixed=frozenset(settings.fixed),
            end=self.estimation.legal.end.astype(np.float64),
            numbers=corpus.numbers,
        )

        def finish(weights: FloatArray) -> LearnedHMM:
            if self.estimation.witten_bell or settings.unknown:
                return self._model(objective.expect(weights)[1])
            return LearnedHMM(self.index, Probabilities.from_flat(weights, L), self.labelled)

        def optimize(summed: Objective) -> tuple[FloatArray, tuple[LearnedHMM, History]]:
            objective.e_step = summed
            folder = options.folder if settings.restarts == 1 or self.has_labels else None
            trained = best_of_restarts(
                objective,
                (Resumption(start, folder, settings.checkpoint_seconds) for start in self._starts()),
                tolerance=settings.tolerance,
                max_iterations=settings.max_iterations,
                validate=validate,
                patience=settings.patience,
                progress=options.progress,
            )
            learned = retry_on_interrupt(lambda: finish(trained.weights))
            return trained.weights, (learned, trained.history)

        return options.group.run(objective, optimize)[1]

    def _starts(self) -> Iterator[FloatArray]:
        """The parameters from which EM begins: the earlier model's, those of the labels, or random ones per restart."""
        L, V, legal = self.labelled.num_states, len(self.index), self.estimation.legal
        if self.earlier is not None:
            p = self.earlier.parameters
            if self.earlier.forms is not None:  # without the row of unknown words
                p = Probabilities(p.start, p.transitions, p.emissions[:-1] / p.emissions[:-1].sum(axis=0))
            if (p.num_states, p.num_symbols) != (L, V):
                p = p.widened(L, V, 0.5 / V)
                p = Probabilities(p.start * legal.start, p.transitions * legal.transitions, p.emissions)
                p = Estimation(False, 0.0, 0.0, 0.0, legal).parameters(p)
            yield p.flat()
        elif self.has_labels:
            yield Estimation(False, 0.5, 0.5, 0.5, legal).parameters(self.labelled).flat()
        else:
            for restart in range(self.settings.restarts):
                random = np.random.default_rng([self.settings.seed, restart])
                yield Probabilities.random(L, V, random, legal).flat()

    def _model(self, counts: Probabilities) -> LearnedHMM:
        """The model of the counts with its unknown words, and with what is held fixed put back."""
        earlier, fixed, forms = self.earlier, self.settings.fixed, None
        if self.settings.unknown:
            parameters, forms = self.estimation.with_unknown(counts, list(self.index))  # type: ignore[arg-type]
        else:
            parameters = self.estimation.parameters(counts)
        if earlier is not None:
            for part in fixed:
                values: FloatArray = getattr(earlier.parameters, part)
                if values.shape != getattr(parameters, part).shape:
                    raise ModelError(
                        f"{part} cannot be held fixed: the data has states or symbols that the model lacks"
                    )
                parameters = replace(parameters, **{part: values})
            forms = earlier.forms if "emissions" in fixed else forms
        histories = None
        if self.triples is not None and earlier is not None and "transitions" in fixed:
            histories = earlier.histories
        elif self.triples is not None:
            histories = Histories.learn(self.triples, parameters.transitions, self.estimation, self.settings.pairs)
        return LearnedHMM(self.index, parameters, self.labelled, forms, histories, self.triples)


def _validation(
    dev: Labelled, tags: TagSet, index: dict[Symbol, int], legal: AllowedTransitions
) -> Callable[[FloatArray], DevScores]:
    """A function from parameters to the score on held-out sentences, where unknown words say nothing.

    What EM gave probability zero gets a little, so that every sentence can be tagged.
    """
    symbols, lengths = encode(dev.inputs, index)
    end, states = logs(legal.end.astype(np.float64)), StateMap.of(tags)
    least_start, least_transitions = np.where(legal.start, _TINY, 0.0), np.where(legal.transitions, _TINY, 0.0)

    def validate(weights: FloatArray) -> DevScores:
        p = Probabilities.from_flat(weights, len(tags))
        p = Probabilities(np.maximum(p.start, least_start), np.maximum(p.transitions, least_transitions), p.emissions)
        emissions = np.where(symbols[:, None] >= 0, np.maximum(log_emissions(p, symbols), math.log(_TINY)), 0.0)
        scores = chain_scores(p, emissions, lengths, end)
        return dev_scores(dev, best_labels([scores], dev.inputs, states), tags)

    return validate
