"""``ChainScores``: the narrow waist. Models make one, and it answers every question about itself.

Values by sequence (log partition, scores, entropy) are always float64: they are summed in double precision.
Values by token have the dtype of the scores.

At the end: how many threads the native kernels use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import AnyArray, FloatArray, IntArray, any_array, plain_array
from trellis.chain.problems import (
    BAD_CHAIN_SCORE,
    OneSequence,
    check_kbest,
    check_loss,
    check_sample,
    check_seed,
    check_side,
    check_span_tags,
    check_spans,
    check_weights,
    raise_bad_chain_score,
    raise_problem,
)
from trellis.chain.tables import Tabled
from trellis.errors import ConfigError, ShapeError, TagRangeError
from trellis.ragged import check_lengths, later_tokens, offsets_of, ranges, split

_MOST_THREADS = 1024


# Arrays or tensors: of labels, of numbers by sequence, and of numbers by token.
Tags = TypeVar("Tags")
Scores = TypeVar("Scores")
Values = TypeVar("Values")


@dataclass(frozen=True, slots=True, eq=False)
class Decoded(Generic[Tags, Scores]):
    """The best label sequences: ``tags`` in the layout of the emissions, flat ``(N,)`` or padded, and ``scores[B]``."""

    tags: Tags
    scores: Scores


@dataclass(frozen=True, slots=True, eq=False)
class Paths(Generic[Tags, Scores]):
    """The k best label sequences of each sequence b: ``tags[b]`` is (k_b, T_b), ``scores[b]`` (k_b,), descending."""

    tags: list[Tags]
    scores: list[Scores]


@dataclass(frozen=True, slots=True, eq=False)
class Marginals(Generic[Scores, Values]):
    """The result of forward-backward.

    Attributes:
        log_partition: ``(B,)`` log Z.
        tokens: probability of each label at each token, in the layout of the emissions: ``(N, L)``, or padded.
        transitions: ``(L, L)`` expected number of transitions, over the whole batch.
        start: ``(L,)`` expected number of sequences that start with a label.
        end: ``(L,)`` expected number of sequences that end with a label.
        pairwise: ``(P, L, L)`` probability of each pair of labels at each pair of neighbouring tokens, in order
            (P is the sum of T - 1 over the sequences that are not empty); None unless asked for.

    """

    log_partition: Scores
    tokens: Values
    transitions: Values
    start: Values
    end: Values
    pairwise: Values | None = None


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ChainScores(Tabled):
    """The scores of a ragged batch: B sequences with N tokens in all and L labels. It is a distribution.

    The score of the labels ``y`` of a sequence of T tokens is::

        start[y[0]] + sum_t emissions[t, y[t]] + sum_t transitions[y[t-1], y[t]] + end[y[T-1]]

    and ``P(y) = exp(score(y)) / Z`` with Z the sum over all ``L ** T`` label sequences. Minus infinity forbids. An
    empty sequence has one label sequence, the empty one, with score 0.

    If the score of a transition depends on its place, ``edges`` has a matrix for each pair of neighbouring tokens,
    and ``edges[p, y[t-1], y[t]]`` is added to that of ``transitions``. Pairs are numbered as in
    ``Marginals.pairwise``: in order, T - 1 of them for each sequence that is not empty.

    In all questions ``allowed[N, L]`` forbids every label outside it at its position: the answer is that of the
    distribution over the label sequences that keep to it.

    Args:
        emissions: ``(N, L)``, the sequences one after another.
        lengths: ``(B,)``, adding up to N.
        transitions: ``(L, L)``, from row to column.
        start: ``(L,)``, zeros by default.
        end: ``(L,)``, zeros by default.
        edges: ``(P, L, L)``, or None if transitions do not depend on the place.

    float32 and float64 are computed in their own precision; other floats become float32 and integers float64.

    """

    emissions: AnyArray
    lengths: IntArray
    transitions: AnyArray
    start: AnyArray
    end: AnyArray
    edges: AnyArray | None

    def __init__(
        self,
        emissions: npt.ArrayLike,
        lengths: npt.ArrayLike,
        transitions: npt.ArrayLike,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
        edges: npt.ArrayLike | None = None,
    ) -> None:
        array = _plain_floats(emissions)
        if array.ndim != 2 or array.shape[1] < 1:
            raise ShapeError(f"emissions must be (N, L) with L >= 1, got {array.shape}")
        L = array.shape[1]
        zeros = np.zeros(L, dtype=array.dtype)
        checked = check_lengths(lengths, len(array)).copy()  # the caller may change theirs
        fields = {
            "emissions": array,
            "lengths": checked,
            "transitions": _matching("transitions", transitions, "(L, L)", (L, L), array),
            "start": zeros if start is None else _matching("start", start, "(L,)", (L,), array),
            "end": zeros if end is None else _matching("end", end, "(L,)", (L,), array),
            "edges": None,
        }
        if edges is not None:
            fields["edges"] = _matching("edges", edges, "(P, L, L)", (_num_pairs(checked), L, L), array)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def num_labels(self) -> int:
        """L, the number of labels."""
        return int(self.emissions.shape[1])

    def part(self, index: int) -> ChainScores:
        """The scores of one sequence."""
        return self.take([index])

    def take(self, sequences: Sequence[int] | IntArray) -> ChainScores:
        """The scores of some sequences, in the order given, which may name one several times."""
        chosen = np.arange(len(self.lengths))[np.asarray(sequences, dtype=np.int64)]
        lengths = self.lengths[chosen]
        emissions = self.emissions[_rows(self.lengths, chosen)]
        edges = None if self.edges is None else self.edges[_rows(np.maximum(self.lengths - 1, 0), chosen)]
        return ChainScores(emissions, lengths, self.transitions, self.start, self.end, edges)

    def restricted(self, allowed: npt.ArrayLike | None) -> ChainScores:
        """The scores with every label outside ``allowed[N, L]`` forbidden at its position."""
        if allowed is None:
            return self
        mask = np.asarray(allowed)
        if mask.shape != self.emissions.shape or mask.dtype != np.bool_:
            raise ShapeError(
                f"allowed must be bool (N, L) = {self.emissions.shape} to match emissions, "
                f"got {mask.dtype} {mask.shape}"
            )
        emissions = np.where(mask, self.emissions, self.emissions.dtype.type(-np.inf))
        return ChainScores(emissions, self.lengths, self.transitions, self.start, self.end, self.edges)

    def steps(self, tags: IntArray) -> AnyArray:
        """The scores of the transitions between the given labels ``tags[N]``, ``(P,)``, edges included."""
        into = later_tokens(self.lengths)
        pairs = tags[into - 1], tags[into]
        shared: AnyArray = self.transitions[pairs]
        return shared if self.edges is None else shared + self.edges[np.arange(len(into)), *pairs]

    def log_partition(self, *, allowed: npt.ArrayLike | None = None) -> FloatArray:
        """Log Z of each sequence: the log of the sum of ``exp(score)`` over all its label sequences.

        ``log_partition(allowed=known) - log_partition()`` is the log-likelihood of partially known labels.
        """
        given = self.restricted(allowed)
        out = given._by_sequence()
        given._check(given._inference().log_partition(out, False))
        return out

    def score(self, tags: npt.ArrayLike) -> FloatArray:
        """Score of the given labels ``tags[N]`` of each sequence; minus infinity if they are forbidden."""
        path, out = self._check_tags(tags), self._by_sequence()
        self._check(self._inference().score(path, out), path)
        return out

    def nll(
        self,
        tags: npt.ArrayLike | None = None,
        *,
        allowed: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Negative log-likelihood of each sequence: of the labels ``tags[N]``, or of keeping to ``allowed[N, L]``.

        With ``weights[N]`` each token counts by its weight, by the chain rule of probability: ``sum_t weights[t] *
        -log P(y[t] | y[0..t-1])``, which is the plain negative log-likelihood if all weights are 1, weighted cross
        entropy if there are no transitions, and never negative.
        """
        check_loss(tags, allowed, weights)
        if tags is None:
            return np.maximum(self.log_partition() - self.log_partition(allowed=allowed), 0.0)
        path, out = self._check_tags(tags), self._by_sequence()
        if weights is None:
            self._check(self._inference().nll(path, out, False), path)
            return out
        plain = plain_array(weights, np.float64)
        check_weights(plain, path)
        self._check(self._inference().weighted_nll(path, plain, out), path)
        return out

    def viterbi(self, *, allowed: npt.ArrayLike | None = None) -> Decoded[IntArray, FloatArray]:
        """The best label sequence of each sequence and its score; among equals the smaller label."""
        given = self.restricted(allowed)
        tags, best = np.empty(len(given.emissions), dtype=np.int64), given._by_sequence()
        given._check(given._inference().viterbi(tags, len(tags), best))
        return Decoded(tags, best)

    def kbest(self, k: int, *, allowed: npt.ArrayLike | None = None) -> Paths[IntArray, FloatArray]:
        """The k best label sequences of each sequence, best first; fewer if fewer exist.

        Memory grows with the paths that are returned. An answer holds at most 2**27 tags (a gigabyte): if ``k`` paths
        of all sequences could be more, that is a `ChainError`.
        """
        given = self.restricted(allowed)
        report, counts, scores, flat = given._inference().kbest(check_kbest(k, given.lengths, given.num_labels))
        given._check(report)
        shapes = zip(split(flat, counts * given.lengths), counts, given.lengths, strict=True)
        return Paths([paths.reshape(count, length) for paths, count, length in shapes], split(scores, counts))

    def marginals(
        self, *, allowed: npt.ArrayLike | None = None, pairwise: bool = False
    ) -> Marginals[FloatArray, AnyArray]:
        """Probabilities of labels by forward-backward, and expected counts of transitions.

        ``pairwise=True`` adds the probability of each pair of neighbouring labels, which takes L * L numbers per token.
        """
        given = self.restricted(allowed)
        inference, out = given._inference(), given._by_sequence()
        chain = (given.emissions, given.transitions, given.start, given.end)
        tokens, transitions, start, end = (np.empty_like(x) for x in chain)
        if not pairwise:
            given._check(inference.marginals(out, len(tokens), tokens, transitions, start, end))
            return Marginals(out, tokens, transitions, start, end)
        pairs = np.empty((_num_pairs(given.lengths), *transitions.shape), dtype=tokens.dtype)
        given._check(inference.pairwise(out, tokens, transitions, start, end, pairs))
        return Marginals(out, tokens, transitions, start, end, pairs)

    def sample(self, n: int = 1, *, seed: int = 0, allowed: npt.ArrayLike | None = None) -> IntArray:
        """``n`` label sequences of each sequence, drawn from their exact distribution: ``tags[n, N]``.

        The same seed gives the same draws with any number of threads. ``n * N`` may be at most 2**27.
        """
        given, N = self.restricted(allowed), len(self.emissions)
        tags = np.empty((check_sample(n, N), N), dtype=np.int64)
        given._check(given._inference().sample(n, check_seed(seed), tags, N))
        return tags

    def entropy(self, *, allowed: npt.ArrayLike | None = None) -> FloatArray:
        """Entropy (nats) of each distribution over label sequences: 0 is certainty, ``T log L`` no knowledge."""
        given = self.restricted(allowed)
        out = given._by_sequence()
        given._check(given._inference().entropy(out))
        return out

    def span_log_prob(
        self,
        spans: npt.ArrayLike,
        tags: npt.ArrayLike | Sequence[Sequence[int]],
        *,
        before: npt.ArrayLike | None = None,
        after: npt.ArrayLike | None = None,
        allowed: npt.ArrayLike | None = None,
        state_labels: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Exact log probability that spans of tokens carry the given labels; the rest of the sequence is free.

        Args:
            spans: ``(S, 3)`` integers: sequence, begin, end; the span is the positions ``begin .. end - 1``.
            tags: the labels of each span, as a list of lists or one flat array.
            before: ``(S, L)`` or ``(L,)`` booleans: labels that may stand just before the span. For a span at the
                start of its sequence there is no such condition.
            after: the same for just after the span. With a BIO scheme, tags ``B-PER I-PER`` and ``after`` true for all
                labels but ``I-PER`` ask for the entity that begins and ends exactly there.
            allowed: ``(N, L)`` booleans, known labels; the probability is conditional on them.
            state_labels: ``(L,)`` if the chain's states are finer than labels: the label that each stands for.
                `tags`, `before` and `after` are then about these labels.

        """
        given = self.restricted(allowed)
        checked = check_spans(spans, given.lengths)
        label_of_state, L = _check_state_labels(state_labels, self.num_labels)
        path, S = check_span_tags(tags, checked, L), len(checked)
        masks = (check_side("before", before, S, L), check_side("after", after, S, L))
        out = np.empty(S, dtype=np.float64)
        given._check(given._inference().spans(checked, S, path, *masks, label_of_state, L, out))
        return out

    def _inference(self) -> _native.InferenceFloat32 | _native.InferenceFloat64:
        """The native side; it points into these arrays, which must be given alive."""
        kind = _native.InferenceFloat32 if self.emissions.dtype == np.float32 else _native.InferenceFloat64
        try:
            layout = _native.layout_of_lengths(self.lengths, len(self.lengths), len(self.emissions))
        except ValueError:  # somebody has changed the lengths
            check_lengths(self.lengths, len(self.emissions))
            raise
        edges: AnyArray | int = 0 if self.edges is None else self.edges
        return kind(layout, self.emissions, self.transitions, self.start, self.end, self.num_labels, edges)

    def _check(self, report: tuple[int, int], tags: IntArray | None = None) -> None:
        status, sequence = report
        if status == BAD_CHAIN_SCORE:
            raise_bad_chain_score(self.transitions, self.start, self.end)
        if status:
            raise_problem(status, self._one(sequence, tags))

    def _one(self, sequence: int, tags: IntArray | None = None) -> OneSequence:
        one = self.part(sequence)
        path = None if tags is None else tags[_rows(self.lengths, np.array([sequence]))]
        return OneSequence(sequence, one.emissions, one.transitions, one.start, one.end, one.edges, path)

    def _sequences(self, allowed: npt.ArrayLike | None) -> list[OneSequence]:
        given = self.restricted(allowed)
        return [given._one(b) for b in range(len(given.lengths))]

    def _check_tags(self, tags: npt.ArrayLike) -> IntArray:
        """One integer per token; the native side checks that each is a label."""
        array, N = any_array(tags), len(self.emissions)
        if array.shape != (N,) or (array.size and array.dtype.kind not in "iu"):
            raise ShapeError(
                f"tags must be integers (N,) = ({N},) to match emissions (N, L) = {self.emissions.shape}, "
                f"got {array.dtype} {array.shape}"
            )
        return plain_array(array, np.int64)

    def _by_sequence(self) -> FloatArray:
        return np.empty(len(self.lengths))


def _rows(lengths: IntArray, chosen: IntArray) -> Any:
    """The rows of some sequences, one after another; a slice if there is only one, so that nothing is copied."""
    offsets = offsets_of(lengths)
    if len(chosen) == 1:
        return slice(offsets[chosen[0]], offsets[chosen[0] + 1])
    return ranges(offsets[chosen], lengths[chosen])


def _plain_floats(values: npt.ArrayLike) -> AnyArray:
    """float32 and float64 unchanged, other floats as float32, integers as float64."""
    array = any_array(values)
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"scores must be numbers, got an array of {array.dtype}")
    if array.dtype.kind != "f":
        return plain_array(array, np.float64)
    return plain_array(array, array.dtype if array.dtype == np.float64 else np.float32)


def _matching(name: str, values: npt.ArrayLike, letters: str, shape: tuple[int, ...], emissions: AnyArray) -> AnyArray:
    """Scores of the given shape, in the type of the emissions."""
    array = plain_array(values, emissions.dtype)
    if array.shape != shape:
        raise ShapeError(
            f"{name} must be {letters} = {shape} to match emissions (N, L) = {emissions.shape}, got {array.shape}"
        )
    return array


def _num_pairs(lengths: IntArray) -> int:
    """P: the pairs of neighbouring tokens."""
    return int(lengths.sum() - np.count_nonzero(lengths))


def _check_state_labels(labels: npt.ArrayLike | None, states: int) -> tuple[IntArray | int, int]:
    """The labels of the states, 0 if the states are the labels, and how many labels there are."""
    if labels is None:
        return 0, states
    array = any_array(labels)
    if array.shape != (states,) or array.dtype.kind not in "iu":
        raise ShapeError(f"state_labels must be integers (L,) = ({states},), got {array.dtype} {array.shape}")
    wrong = np.flatnonzero((array < 0) | (array >= states))  # there are never more labels than states
    if len(wrong):
        raise TagRangeError(f"state_labels[{wrong[0]}] is {array[wrong[0]]}: must be in 0..{states - 1} (L = {states})")
    return plain_array(array, np.int64), int(array.max()) + 1


def get_num_threads() -> int:
    """How many threads the core may use: all cores this process may run on, unless set otherwise."""
    return _native.num_threads()


def set_num_threads(count: int) -> None:
    """Let the core use up to ``count`` threads; the environment variable TRELLIS_NUM_THREADS sets the default.

    Results are the same bit for bit with any number.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_THREADS:
        raise ConfigError(f"the number of threads must be an integer in 1..{_MOST_THREADS}, got {count!r}")
    _native.set_num_threads(count)
