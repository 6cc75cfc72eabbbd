"""Hidden Markov models over words, characters or integers: the three problems, and a tagger.

    boxes = HMM.from_probabilities(
        start=[0.2, 0.4, 0.4],
        transitions=[[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]],
        emissions=[[0.5, 0.5], [0.4, 0.6], [0.7, 0.3]],
        symbols=["red", "white"],
    )
    boxes.log_likelihood([["red", "white", "red"]])      problem 1: how probable is what was seen
    HMM(states=3).fit_unlabelled(sequences)              problem 2: which model; with tags, HMM().fit(sentences)
    boxes.predict([["red", "white", "red"]])             problem 3: which states

With `order=2` a tag depends on the two before it: better tags, at a fifth of the speed with 17 labels. It is learned
from labels only.

Tags may be given for all tokens, for some (None: unknown; a set: one of these), or for none: `fit` counts what is
known and leaves the rest to Baum-Welch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from trellis import chain
from trellis.arrays import Arrays, FloatArray, IntArray
from trellis.chain.tables import ChainTable, log_sum
from trellis.errors import DataError, ModelError, StoreError, number_of
from trellis.models.answers import TransitionTable
from trellis.models.data import (
    Labelled,
    headline,
    history_chain,
    label_scores,
    labels_of_histories,
    learned_tag_set,
    listed,
    name_of,
    stored_pairs,
    tokens_of,
)
from trellis.models.hmm.config import HMMConfig, resolved
from trellis.models.hmm.estimation import BEGIN, PARTS, Forms, Histories, Triples, unknown_log_emissions
from trellis.models.hmm.probabilities import (
    Probabilities,
    akaike,
    bayesian,
    chain_scores,
    check_distribution,
    draw,
    generator,
    log_emissions,
    logs,
    sample_paths,
)
from trellis.models.hmm.training import LearnedHMM, Symbol, check_order, encode, index_symbols, learn
from trellis.models.posterior import log_mass, pairs_by_label, sum_by_label, to_labels
from trellis.models.tagger import FitOptions, Tagger
from trellis.results import Grid, Report
from trellis.store import Stored
from trellis.tags import AllowedTransitions, Scheme, TagSet
from trellis.text import splitter
from trellis.training import Progress

_MOST_COUNTED = 1e100  # of a count in a file: sums of such numbers are finite


class Posteriors(NamedTuple):
    """``gamma[t, i]``: probability of state i at t; ``xi[t, i, j]``: of states i, j at t and t + 1."""

    gamma: FloatArray
    xi: FloatArray


class Sample(NamedTuple):
    """Observations and the states that emitted them."""

    observations: list[Any]
    states: list[str]


@dataclass(frozen=True, eq=False, repr=False)
class Lattice(Report):
    """Problem 1 in a table: the forward or backward variables of one sequence, in three views.

        alpha[t, j] = P(o[0..t], s[t] = j)         alpha[t, j] = (sum_i alpha[t-1, i] A[i, j]) B[j, o[t]]
        beta[t, i]  = P(o[t+1..] | s[t] = i)       beta[t, i]  = sum_j A[i, j] B[j, o[t+1]] beta[t+1, j]

        P(o) = sum_j alpha[T-1, j] = sum_i pi[i] B[i, o[0]] beta[0, i] = sum_i alpha[t, i] beta[t, i]   at every t

    They are the tables of the chain (`trellis.chain.tables`) as probabilities. `log` is exact, the other views come
    from it, so that no sequence is too long and no probability too small. It prints as a table of the plain
    probabilities, in which the most probable states are marked; `table` prints their logarithms.
    """

    table: ChainTable

    @property
    def log(self) -> FloatArray:
        """``(T, L)`` logarithms of the probabilities."""
        return self.table.values

    @property
    def values(self) -> FloatArray:
        """The plain probabilities; they vanish in long sequences."""
        result: FloatArray = np.exp(self.log)
        return result

    @property
    def log_scale(self) -> FloatArray:
        """``(T,)`` log of the sum of each row; minus infinity if nothing is possible."""
        return log_sum(self.log, axis=1)

    @property
    def scaled(self) -> FloatArray:
        """Each row over its sum, so that it adds up to one; a row without any probability stays zero."""
        scale = self.log_scale[:, None]
        result: FloatArray = np.exp(self.log - np.where(np.isneginf(scale), 0.0, scale))
        return result

    def grid(self) -> Grid:
        """Observations down, states across."""
        name = {"forward": "Forward: alpha", "backward": "Backward: beta"}[self.table.kind]
        title = f"{name} as probabilities, ● most probable states; P(o) = {np.exp(self.table.total[0]):.5g}"
        return self.table.grid_of(title, self.values, np.exp(self.table.last))

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per observation: the observation, and the probability of each state."""
        labels, tokens, rows = self.table.labels, self.table.tokens, self.values.tolist()
        return [{"token": x} | dict(zip(labels, row, strict=True)) for x, row in zip(tokens, rows, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """The table as lists."""
        return self.table.to_dict()

    def __repr__(self) -> str:
        return str(self)


@final
class HMM(Tagger[HMMConfig]):
    """Categorical hidden Markov model, learned by counting, or from observations alone (Baum-Welch).

    tagger = trellis.HMM().fit(sentences, dev=held_out)
    tagger("Ada Lovelace lives in London.")        the spans of a text, each with its probability
    tagger.predict([["Ada", "lives", "here"]])     the labels of lists of tokens
    print(tagger.evaluate(test))                   precision, recall and F1
    tagger.save("model.trellis")                   trellis.load opens it again
    trellis.HMM(states=3).fit_unlabelled(sequences)    without any labels
    """

    kind: ClassVar[str] = "hmm"
    shares_sentences: ClassVar[bool] = True
    free_settings: ClassVar[frozenset[str] | None] = frozenset({"max_iterations", "patience", "checkpoint_seconds"})
    config_class: ClassVar[type[Any]] = HMMConfig
    main_settings: ClassVar[tuple[str, ...]] = (
        *("smoothing", "alpha", "unknown", "order", "states", "max_iterations", "restarts", "constraints", "tokenizer"),
        "seed",
    )
    model_: LearnedHMM

    @classmethod
    def from_probabilities(
        cls,
        start: npt.ArrayLike,
        transitions: npt.ArrayLike,
        emissions: npt.ArrayLike,
        *,
        states: Sequence[str] | None = None,
        symbols: Sequence[Symbol] | None = None,
        **options: Any,
    ) -> Self:
        """A model with given probabilities.

        Args:
            start: ``(L,)``.
            transitions: ``(L, L)``, from row to column.
            emissions: ``(L, V)``, by state.
            states: names of the states; default: "0", "1", ...
            symbols: the observations; default: 0, 1, ...
            options: settings, like those of the constructor.

        """
        parameters = Probabilities.checked(start, transitions, emissions)
        L, V = parameters.num_states, parameters.num_symbols
        names = tuple(map(str, range(L))) if states is None else tuple(states)
        try:
            index = index_symbols([list(range(V) if symbols is None else symbols)])
        except DataError as error:
            raise ModelError(str(error).replace("sentence 0, position", "symbols, position")) from None
        if len(names) != L or len(index) != V:
            raise ModelError(f"expected {L} states and {V} distinct symbols, got {len(names)} and {len(index)}")
        model = cls(**options)
        if model.config.order != 1:
            raise ModelError(f"from_probabilities makes models of order 1, got order = {model.config.order}")
        model.tagset_, model.tokenizer_ = TagSet(names), splitter("words")
        model.settings_ = resolved(model.config, Scheme.PLAIN, has_labels=False, has_words=False)
        model.model_ = LearnedHMM(index, parameters)
        return model

    def set_params(self, **options: Any) -> Self:
        """Change settings by name; `constraints` hold at once, also for a fitted model, since tagging applies them."""
        super().set_params(**options)
        if self.__sklearn_is_fitted__():
            self.settings_ = replace(self.settings_, constraints=self.config.constraints)
        return self

    @property
    def start_(self) -> FloatArray:
        """``(L,)`` probability that each state comes first."""
        return self._fitted().parameters.start

    @property
    def transitions_(self) -> FloatArray:
        """``(L, L)`` probability that the column's state follows the row's; order 2 falls back on it."""
        return self._fitted().parameters.transitions

    def _extent(self) -> str:
        return number_of(len(self.symbols_), "symbol")

    def transitions(self) -> TransitionTable:
        """Probabilities of transitions from row to column."""
        return TransitionTable(self.labels_, tuple(map(tuple, self.transitions_.tolist())), "probability")

    @property
    def histories_(self) -> dict[tuple[str | None, ...], FloatArray]:
        """The history of each state of the chain, and the probabilities ``(L,)`` of the label that follows it.

        ``("NOUN",)`` is a noun, ``("DET", "NOUN")`` one after a determiner, ``(None, "NOUN")`` one that comes first.
        With order 1 there are only the first; with order 2, they stand for what has no pair.
        """
        labels, model = self.labels_, self._fitted()
        histories: dict[tuple[str | None, ...], FloatArray] = {
            (label,): row for label, row in zip(labels, model.parameters.transitions, strict=True)
        }
        if model.histories is not None:
            for (a, b), row in zip(model.histories.pairs, model.histories.rows, strict=True):
                histories[(None if a == BEGIN else labels[a], labels[b])] = row
        return histories

    @property
    def emissions_(self) -> FloatArray:
        """``(L, V)`` probability of each symbol in each state; with unknown words, their column comes last."""
        return self._fitted().parameters.emissions.T

    @property
    def symbols_(self) -> tuple[Any, ...]:
        """The observations, in the order of the emissions' columns."""
        return tuple(self._fitted().symbols)

    def fit_unlabelled(
        self,
        X: Iterable[Any],
        *,
        sentence_weights: Sequence[float] | None = None,
        warm_start: bool = False,
        progress: Progress | bool | None = None,
        folder: str | Path | None = None,
    ) -> Self:
        """Learn from observations alone (Baum-Welch); the options are those of `fit`."""
        inputs = listed(X)
        return self.fit(
            inputs,
            [[None] * len(item) for item in inputs],
            sentence_weights=sentence_weights,
            warm_start=warm_start,
            progress=progress,
            folder=folder,
        )

    def log_likelihood(self, X: Iterable[Any]) -> FloatArray:
        """Log probability of each sequence of observations; minus infinity if the model cannot emit it."""
        return np.concatenate([np.empty(0), *(log_mass(block.scores) for block in self._posteriors(X))])

    def aic(self, X: Iterable[Any]) -> float:
        """Akaike's information criterion of all sequences together; lower is better."""
        return akaike(float(self.log_likelihood(X).sum()), self._free())

    def bic(self, X: Iterable[Any]) -> float:
        """The Bayesian information criterion of all sequences together, which counts tokens; lower is better."""
        inputs = listed(X)
        return bayesian(float(self.log_likelihood(inputs).sum()), self._free(), sum(map(len, inputs)))

    def _free(self) -> int:
        """The number of free parameters; each pair of labels that has its own state adds a distribution."""
        model, legal = self._fitted(), _legal(self._fitted_tags(), self.settings_.constraints)
        pairs = 0 if model.histories is None else legal.transitions[model.histories.pairs[:, 1]].sum(axis=1) - 1
        return model.parameters.free(legal) + int(np.maximum(pairs, 0).sum())

    def forward(self, observations: Any) -> Lattice:
        """Alpha of one sequence: probability of the observations so far and each state at t.

        With order 2 the states, here and in `backward`, are those of `histories_`.
        """
        return Lattice(self.chain_scores([observations]).forward_table(**self._names(observations)))

    def backward(self, observations: Any) -> Lattice:
        """Beta of one sequence: probability of the observations after t, given each state at t."""
        return Lattice(self.chain_scores([observations]).backward_table(**self._names(observations)))

    def viterbi_table(self, observations: Any) -> ChainTable:
        """Delta and psi of one sequence, as log probabilities, and the most probable states; it prints as a table."""
        posterior = self.posterior([observations])
        with posterior.named():
            return posterior.scores.viterbi_table(**self._names(observations))

    def _names(self, observations: Any) -> dict[str, Any]:
        """The names in tables of one sequence: the states, with order 2 those of `histories_`, and the observations."""
        states = (" ".join("^" if label is None else label for label in history) for history in self.histories_)
        return {"labels": list(states), "tokens": list(map(str, tokens_of(observations)))}

    def posteriors(self, observations: Any) -> Posteriors:
        """Gamma and xi of one sequence."""
        posterior = self.posterior([observations])
        with posterior.named():
            marginals = posterior.scores.marginals(pairwise=True)
        assert marginals.pairwise is not None
        finer, L = self._state_labels(), len(self.labels_)
        return Posteriors(sum_by_label(marginals.tokens, finer, L), pairs_by_label(marginals.pairwise, finer, L))

    def predict_posterior(self, X: Iterable[Any]) -> list[list[str]]:
        """The most probable state of each token by itself; `predict` gives the most probable whole sequence.

        Each token is right most often this way, but the states may not fit together.
        """
        labels = np.array(self.labels_, dtype=object)
        return [labels[rows.argmax(axis=1)].tolist() for rows in self.marginals(X)]

    def sample(self, length: int, *, n: int = 1, seed: int = 0) -> list[Sample]:
        """`n` sequences of states and their observations, drawn from the model."""
        model, random = self._fitted(), generator(seed)
        symbols = [*self.symbols_, None]  # None stands for an unknown word
        p = model.parameters
        start, transitions = p.start, p.transitions
        if model.histories is not None:
            start, transitions = history_chain(model.histories.pairs, start, transitions, model.histories.rows, 0.0)
        paths = to_labels(sample_paths(start, transitions, length, n, random), self._state_labels())
        drawn = draw(p.emissions.T[paths.ravel()], random).reshape(n, length)
        decode = self._fitted_tags().decode
        return [Sample([symbols[i] for i in row], decode(path)) for row, path in zip(drawn, paths, strict=True)]

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        earlier, earlier_tags = (self.model_, self.tagset_) if self._goes_on(options) else (None, None)
        check_order(data, self.config.order)
        tags = self._tag_set(data, earlier_tags)
        legal = _legal(tags, self.config.constraints)
        self.model_, self.settings_, history = learn(data, tags, earlier, self.config, legal, dev, options)
        self.tagset_ = tags
        if dev is not None and history.steps[-1].dev is None:  # counting has no iterations to watch
            score = headline(label_scores(dev.strings(), self.predict(dev.inputs), tags))
            history = replace(history, steps=(replace(history.steps[-1], dev=score),))
            if options.progress is not None:
                options.progress(history.steps[-1])
        self.history_ = history

    def _tag_set(self, data: Labelled, earlier: TagSet | None) -> TagSet:
        """The labels that occur; without any, those of the model before or as many as there are states."""
        if data.has_known:
            return learned_tag_set(data, self.config.scheme, self.config.constraints, earlier)
        if earlier is not None:
            return earlier
        if data.choices():  # every label is one of several: they say nothing about their order
            scheme = None if self.config.scheme is None else Scheme.parse(self.config.scheme)
            return TagSet.from_sequences([[label] for label in sorted(data.choices())], scheme=scheme)
        if self.config.states is None:
            raise ModelError("no token has a label: set `states` to the number of states")
        return TagSet(tuple(map(str, range(self.config.states))), Scheme.PLAIN)

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        model = self._fitted()
        for number, item in enumerate(inputs):
            if isinstance(item, str):
                raise DataError(f"{name_of(number, item)} is a string: expected a list of tokens")
        symbols, lengths = encode(inputs, model.symbols)
        emissions = log_emissions(model.parameters, symbols)
        unknown = np.flatnonzero(symbols < 0)
        if len(unknown):
            emissions[unknown] = self._unknown(inputs, unknown)
        legal = _legal(self._fitted_tags(), self.settings_.constraints)
        p = model.parameters
        masked = Probabilities(p.start * legal.start, p.transitions * legal.transitions, p.emissions)
        scores = chain_scores(masked, emissions, lengths, logs(legal.end.astype(np.float64)))
        return scores if model.histories is None else model.histories.scores(scores, legal)

    def _state_labels(self) -> IntArray | None:
        histories = self._fitted().histories
        return None if histories is None else labels_of_histories(histories.pairs, len(self.labels_))

    def _unknown(self, inputs: Sequence[Any], tokens: IntArray) -> FloatArray:
        """Log emissions of the unknown observations; without a model of them, minus infinity."""
        model = self._fitted()
        if model.forms is None:
            return np.full((len(tokens), model.parameters.num_states), -np.inf)
        flat = [token for item in inputs for token in tokens_of(item)]
        words = [str(flat[token]) for token in tokens]
        kinds = {word: i for i, word in enumerate(dict.fromkeys(words))}
        rows = unknown_log_emissions(model.forms, list(kinds), model.parameters.emissions[-1])
        result: FloatArray = rows[[kinds[word] for word in words]]
        return result

    def _fitted(self) -> LearnedHMM:
        self._fitted_tags()
        return self.model_

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        arrays: Arrays = {part: getattr(model.parameters, part) for part in PARTS}
        if model.labelled is not None:
            arrays |= {f"labelled_{part}": getattr(model.labelled, part) for part in PARTS}
        if model.forms is not None:
            arrays |= {"form_counts": model.forms.counts, "form_prior": model.forms.prior}
        if model.histories is not None:
            arrays |= {"pairs": model.histories.pairs, "pair_rows": model.histories.rows}
        if model.triples is not None:
            arrays |= {"triples": model.triples.labels, "triple_counts": model.triples.counts}
        forms = None if model.forms is None else list(model.forms.keys)
        return {"symbols": [_plain(symbol) for symbol in model.symbols], "forms": forms}, arrays

    def _restore(self, stored: Stored) -> None:
        L, listed_symbols = len(self._fitted_tags()), stored.manifest.items("symbols", str, int)
        symbols = {symbol: i for i, symbol in enumerate(listed_symbols)}
        if len(symbols) < len(listed_symbols):
            raise StoreError(f"{stored.where}: {len(listed_symbols) - len(symbols)} symbols occur twice")

        def counts(name: str, shape: tuple[int | None, ...]) -> FloatArray:
            return stored.array(name, np.float64, shape, 0, _MOST_COUNTED)

        def distribution(name: str, shape: tuple[int, ...]) -> FloatArray:
            array = stored.array(name, np.float64, shape, 0)
            rows = array.T if name == "emissions" else array
            try:
                if rows.size:  # a model of no symbols emits nothing
                    check_distribution(name, rows, rows.shape)
            except ModelError as error:
                raise StoreError(f"{stored.where}: {error}") from None
            return array

        V, labelled, forms, histories, triples = len(symbols), None, None, None, None
        has_forms = stored.manifest.value("forms", list, type(None)) is not None
        emissions = distribution("emissions", (V + has_forms, L))
        parameters = Probabilities(distribution("start", (L,)), distribution("transitions", (L, L)), emissions)
        if "labelled_start" in stored:
            shapes = zip(PARTS, ((L,), (L, L), (V, L)), strict=True)
            labelled = Probabilities(*(counts(f"labelled_{part}", shape) for part, shape in shapes))
        if has_forms:
            keys = stored.manifest.texts("forms")
            forms = Forms(keys, counts("form_counts", (len(keys), L)), counts("form_prior", (L,)))
        if "pairs" in stored:
            pairs, labels = (
                stored_pairs(stored, "pairs", L, BEGIN),
                stored.array("triples", np.int64, (None, 3), BEGIN, L - 1),
            )
            for name, array in (("pairs", pairs), ("triples", labels)):
                if (array[:, 1:] == BEGIN).any():
                    raise stored.refused(name, f"must have {BEGIN} in its first column only")
            rows = distribution("pair_rows", (len(pairs), L)) if len(pairs) else np.empty((0, L))
            histories = Histories(pairs, rows)
            triples = Triples(labels, counts("triple_counts", (len(labels),)))
        self.model_ = LearnedHMM(symbols, parameters, labelled, forms, histories, triples)


def _legal(tags: TagSet, constraints: bool) -> AllowedTransitions:
    if constraints:
        return tags.allowed_transitions()
    L = len(tags)
    return AllowedTransitions(np.ones((L, L), np.bool_), np.ones(L, np.bool_), np.ones(L, np.bool_))


def _plain(symbol: Symbol) -> str | int:
    if isinstance(symbol, str):
        return symbol
    if isinstance(symbol, int | np.integer):
        return int(symbol)
    raise ModelError(f"a model is saved only if its symbols are strings or integers, got {symbol!r:.40}")
