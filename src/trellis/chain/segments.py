"""``SegmentScores``: a distribution over the ways to cut a sequence into labelled segments (semi-Markov).

A chain labels tokens; here each segment, whatever its length, has one score::

    >>> import numpy as np
    >>> scores = np.full((3, 2, 2), -1.0)        # tokens that a segment ends with, lengths 1 and 2, labels
    >>> scores[1, 1, 0] = 2.0                    # tokens 0 and 1 together, label 0
    >>> best = SegmentScores(scores, [3], np.zeros((2, 2))).viterbi()
    >>> best.paths[0].tolist()
    [[0, 2, 0], [2, 3, 0]]
    >>> best.scores
    array([1.])
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import BoolArray, FloatArray, IntArray, any_array, plain_array
from trellis.chain.problems import (
    BAD_CHAIN_SCORE,
    MOST_TAGS,
    NO_PATH,
    NOT_FINITE,
    about,
    check_count,
    check_sample,
    check_seed,
    raise_bad_chain_score,
)
from trellis.chain.scores import Values
from trellis.errors import ChainError, NonFiniteError, NoPathError, ShapeError, TagRangeError, shown
from trellis.ragged import check_lengths, offsets_of, rows_of, split

Paths = Sequence[npt.ArrayLike]
"""The segments of each sequence, ``(S, 3)``: where each begins, where it ends (one behind), and its label."""
Indices = tuple[IntArray, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Segmented:
    """The best segments of each sequence: ``paths[b]`` is (S_b, 3), begin, end and label; and ``scores[B]``."""

    paths: list[IntArray]
    scores: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SegmentPaths:
    """Several paths of each sequence: ``paths[b][r]`` is (S, 3); ``scores[b]`` descend, None for samples."""

    paths: list[list[IntArray]]
    scores: list[FloatArray] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SegmentMarginals(Generic[Values]):
    """The result of forward-backward over segments.

    Attributes:
        log_partition: ``(B,)`` log Z.
        segments: ``(N, K, L)`` probability of each segment, shaped like the scores.
        transitions: ``(L, L)`` expected number of transitions between neighbouring segments, over the whole batch.
        start: ``(L,)`` expected number of sequences whose first segment has a label.
        end: ``(L,)`` expected number of sequences whose last segment has a label.

    """

    log_partition: Values
    segments: Values
    transitions: Values
    start: Values
    end: Values


@dataclass(frozen=True, slots=True, eq=False, init=False)
class SegmentScores:
    """The scores of a ragged batch: B sequences with N tokens, segments of 1 to K tokens, L labels.

    The score of segments with labels ``y[0], ..., y[m-1]`` that cover a sequence from its first token to its last is::

        start[y[0]] + sum_i segments[last token of i, length of i - 1, y[i]]
                    + sum_i transitions[y[i-1], y[i]] + end[y[m-1]]

    and ``P = exp(score) / Z`` with Z the sum over all such coverings. Minus infinity forbids. What is computed takes
    time that grows with ``N K L + N L^2`` and memory that grows with ``N K L``, in float64.

    Args:
        segments: ``(N, K, L)``: of the segment that ends with token n, has k + 1 tokens and label l. Those that would
            begin before their sequence are ignored.
        lengths: ``(B,)``, adding up to N.
        transitions: ``(L, L)``, between the labels of neighbouring segments, from row to column.
        start: ``(L,)``, zeros by default.
        end: ``(L,)``, zeros by default.

    """

    segments: FloatArray
    lengths: IntArray
    transitions: FloatArray
    start: FloatArray
    end: FloatArray

    def __init__(
        self,
        segments: npt.ArrayLike,
        lengths: npt.ArrayLike,
        transitions: npt.ArrayLike,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
    ) -> None:
        array = plain_array(segments, np.float64)
        if array.ndim != 3 or min(array.shape[1:]) < 1:
            raise ShapeError(f"segments must be (N, K, L) with K >= 1 and L >= 1, got {array.shape}")
        L = array.shape[2]
        fields = {
            "segments": array,
            "lengths": check_lengths(lengths, len(array)).copy(),  # the caller may change theirs
            "transitions": _matching("transitions", transitions, (L, L), array),
            "start": np.zeros(L) if start is None else _matching("start", start, (L,), array),
            "end": np.zeros(L) if end is None else _matching("end", end, (L,), array),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def num_labels(self) -> int:
        """L, the number of labels."""
        return int(self.segments.shape[2])

    @property
    def longest(self) -> int:
        """K: the tokens of the longest segments."""
        return int(self.segments.shape[1])

    def part(self, index: int) -> SegmentScores:
        """The scores of one sequence."""
        b, first, stop = rows_of(self.lengths, index)
        return SegmentScores(self.segments[first:stop], self.lengths[b : b + 1], self.transitions, self.start, self.end)

    def restricted(self, allowed: npt.ArrayLike) -> SegmentScores:
        """The scores with every segment outside ``allowed[N, K, L]`` forbidden."""
        mask: BoolArray = any_array(allowed)
        if mask.shape != self.segments.shape or mask.dtype != np.bool_:
            raise ShapeError(
                f"allowed must be bool (N, K, L) = {self.segments.shape} to match segments, "
                f"got {mask.dtype} {mask.shape}"
            )
        segments = np.where(mask, self.segments, -np.inf)
        return SegmentScores(segments, self.lengths, self.transitions, self.start, self.end)

    def log_partition(self) -> FloatArray:
        """Log Z of each sequence: the log of the sum of ``exp(score)`` over all its coverings."""
        out = self._by_sequence()
        self._check(self._inference().log_partition(out))
        return out

    def score(self, paths: Paths) -> FloatArray:
        """Score of the given segments of each sequence; minus infinity if they are forbidden."""
        counts, flat = check_paths(paths, self.lengths, self.longest, self.num_labels)
        out = self._by_sequence()
        self._check(self._inference().score(counts, flat, out))
        return out

    def nll(self, paths: Paths) -> FloatArray:
        """Negative log-likelihood of the given segments of each sequence, never negative."""
        scores = self.score(paths)
        raise_forbidden(scores)
        return np.maximum(self.log_partition() - scores, 0.0)

    def marginals(self) -> SegmentMarginals[FloatArray]:
        """Probabilities of segments by forward-backward, and expected counts of transitions."""
        return self.weighted_marginals(None)

    def weighted_marginals(self, weights: FloatArray | None) -> SegmentMarginals[FloatArray]:
        """The marginals, with everything but log Z multiplied by the weight ``(B,)`` of its sequence.

        This is the gradient of the weighted sum of log Z.
        """
        out, probabilities = self._by_sequence(), np.empty_like(self.segments)
        a, s, e = (np.zeros_like(x) for x in (self.transitions, self.start, self.end))
        by_sequence = 0 if weights is None else plain_array(weights, np.float64)
        if weights is not None and np.shape(by_sequence) != out.shape:
            raise ShapeError(f"weights must be (B,) = {out.shape}, got {np.shape(by_sequence)}")
        self._check(self._inference().marginals(by_sequence, out, probabilities, a, s, e))
        return SegmentMarginals(out, probabilities, a, s, e)

    def viterbi(self) -> Segmented:
        """The best segments of each sequence; among equals, from the end, the shortest and of the smallest label."""
        paths, scores = self._paths(self._inference().viterbi())
        return Segmented([best[0] for best in paths], scores)

    def kbest(self, k: int) -> SegmentPaths:
        """The k best coverings of each sequence with their scores, best first; fewer if fewer exist."""
        wanted = check_count("k", k)
        if wanted * self.segments.shape[0] * self.num_labels > MOST_TAGS:
            raise ChainError(
                f"k = {k} best paths of {len(self.segments)} tokens and {self.num_labels} labels are more than one "
                f"answer may hold, which is {MOST_TAGS} ways: ask for fewer, or for fewer sequences at a time"
            )
        paths, scores = self._paths(self._inference().kbest(wanted))
        return SegmentPaths(paths, split(scores, list(map(len, paths))))

    def sample(self, n: int = 1, *, seed: int = 0) -> SegmentPaths:
        """``n`` coverings of each sequence, drawn from their exact distribution; the same seed draws the same."""
        drawn = self._inference().sample(check_sample(n, len(self.segments)), check_seed(seed))
        return SegmentPaths(self._paths(drawn)[0])

    def entropy(self) -> FloatArray:
        """Entropy of each sequence's distribution in nats: 0 is certain."""
        out = self._by_sequence()
        self._check(self._inference().entropy(out))
        return out

    def _inference(self) -> _native.SegmentInference:
        arrays = (self.transitions, self.start, self.end)
        offsets, B = offsets_of(self.lengths), len(self.lengths)
        return _native.SegmentInference(self.segments, offsets, B, self.longest, *arrays, self.num_labels)

    def _by_sequence(self) -> FloatArray:
        return np.zeros(len(self.lengths))

    def _paths(self, answer: _native.SegmentAnswer) -> tuple[list[list[IntArray]], FloatArray]:
        report, num_paths, counts, flat, scores = answer
        self._check(report)
        paths = split(flat.reshape(-1, 3), counts)
        return [paths[a:b] for a, b in pairwise(offsets_of(num_paths).tolist())], scores

    def _check(self, report: tuple[int, int]) -> None:
        status, sequence = report
        if not status:
            return
        if status == BAD_CHAIN_SCORE:
            raise_bad_chain_score(self.transitions, self.start, self.end)
        scores = self.part(sequence).segments
        if status == NO_PATH:
            raise about(sequence, NoPathError(f"sequence {sequence} of length {len(scores)} has no valid path"))
        if status == NOT_FINITE:
            token, length, label = np.argwhere(~(scores < np.inf))[0]
            what = f"segments of sequence {sequence}, token {token}, length {length + 1}, label {label}"
            value = scores[token, length, label]
            raise about(sequence, NonFiniteError(f"{what} are {value}: scores must be finite or minus infinity"))
        raise about(sequence, NonFiniteError(f"the scores of sequence {sequence} add up to more than float64 holds"))


def _matching(name: str, values: npt.ArrayLike, shape: tuple[int, ...], segments: FloatArray) -> FloatArray:
    array: FloatArray = plain_array(values, np.float64)
    if array.shape != shape:
        raise ShapeError(f"{name} must be {shape} to match segments (N, K, L) = {segments.shape}, got {array.shape}")
    return array


def raise_forbidden(scores: FloatArray) -> None:
    """Raise the error for given segments whose score is minus infinity."""
    forbidden = np.flatnonzero(np.isneginf(scores))
    if len(forbidden):
        problem = f"the segments of sequence {forbidden[0]} are forbidden: their likelihood is zero"
        raise about(int(forbidden[0]), NoPathError(problem))


def check_paths(paths: Paths, lengths: IntArray, longest: int, num_labels: int) -> tuple[IntArray, IntArray]:
    """How many segments each sequence has, and all of them ``(S, 3)``, each sequence covered from end to end."""
    if not isinstance(paths, Sized) or len(paths) != len(lengths):
        number = len(paths) if isinstance(paths, Sized) else shown(paths)
        raise ShapeError(f"paths must be those of {len(lengths)} sequences, got {number}")
    arrays = [_triples(b, path) for b, path in enumerate(paths)]
    counts = np.array([len(path) for path in arrays], dtype=np.int64)
    flat = np.ascontiguousarray(np.concatenate([np.empty((0, 3), dtype=np.int64), *arrays]))
    owner = np.repeat(np.arange(len(arrays)), counts)
    _check_cover(counts, owner, flat, lengths, longest)
    bad = np.flatnonzero((flat[:, 2] < 0) | (flat[:, 2] >= num_labels))
    if len(bad):
        b = int(owner[bad[0]])
        raise TagRangeError(
            f"segment {bad[0] - offsets_of(counts)[b]} of sequence {b} has the label {flat[bad[0], 2]}: "
            f"must be in 0..{num_labels - 1}"
        )
    return counts, flat


def scores_used(counts: IntArray, flat: IntArray, lengths: IntArray) -> dict[str, tuple[Indices, IntArray]]:
    """Which scores the given segments use, by the name of their array: their indices, and the sequence of each."""
    owner = np.repeat(np.arange(len(counts)), counts)
    begin, end, label = flat.T
    follows = np.flatnonzero(owner[1:] == owner[:-1]) + 1
    bounds = offsets_of(counts)
    first, last = bounds[:-1][counts > 0], bounds[1:][counts > 0] - 1
    return {
        "segments": ((offsets_of(lengths)[owner] + end - 1, end - begin - 1, label), owner),
        "transitions": ((label[follows - 1], label[follows]), owner[follows]),
        "start": ((label[first],), owner[first]),
        "end": ((label[last],), owner[last]),
    }


def _triples(b: int, path: npt.ArrayLike) -> IntArray:
    array = any_array(path)
    array = array.reshape(0, 3) if array.size == 0 else array
    if array.ndim != 2 or array.shape[1] != 3 or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(
            f"the segments of sequence {b} must be integers (S, 3) = (begin, end, label), "
            f"got {array.dtype} {array.shape}"
        )
    triples: IntArray = plain_array(array, np.int64)
    return triples


def _check_cover(counts: IntArray, owner: IntArray, flat: IntArray, lengths: IntArray, longest: int) -> None:
    """Each segment begins where the one before it ends, and the last one ends with its sequence."""
    begin, end, _ = flat.T
    first = np.concatenate([[True], owner[1:] != owner[:-1]])[: len(flat)]
    expected = np.where(first, 0, np.concatenate([[0], end[:-1]])[: len(flat)])
    wrong = (begin != expected) | (end <= begin) | (end - begin > longest) | (end > lengths[owner])
    reached = np.zeros(len(counts), dtype=np.int64)
    reached[owner] = end  # the last one written is that of the last segment
    short = np.flatnonzero(reached != lengths)
    if not wrong.any() and not len(short):
        return
    if wrong.any():
        n = int(np.argmax(wrong))
        b = int(owner[n])
        problem = f"segment {n - offsets_of(counts)[b]} is {begin[n]}..{end[n]}"
    else:
        b, problem = int(short[0]), "they end too early"
    raise ShapeError(
        f"the segments of sequence {b} must cover its {lengths[b]} tokens from 0 on without gaps, each of 1 to "
        f"{longest} tokens: {problem}"
    )
