"""The operations on NumPy arrays, over the native kernels.

Values by sequence (log partition, scores, entropy) are float64, whatever the scores are: they are summed in double.
Values by token have the dtype of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.aligned import plain_array
from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.chain._problems import raise_problem
from trellis.chain.scores import ChainScores
from trellis.errors import ChainError, ShapeError, TagRangeError
from trellis.ragged import offsets_of, split

MOST_TAGS = 2**27
"""How many tags one answer of `kbest` or `sample` may hold: a gigabyte."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The best label sequences: ``tags[N]``, flat as the emissions, and ``scores[B]``."""

    tags: IntArray
    scores: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The k best label sequences of each sequence b: ``tags[b]`` is (k_b, T_b), ``scores[b]`` (k_b,), descending."""

    tags: list[IntArray]
    scores: list[FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """What forward-backward gives.

    Attributes:
        log_partition: ``(B,)`` log Z.
        tokens: ``(N, L)`` probability of each label at each token.
        transitions: ``(L, L)`` expected number of transitions, over the whole batch.
        start: ``(L,)`` expected number of sequences that start with a label.
        end: ``(L,)`` expected number of sequences that end with a label.
        pairwise: ``(P, L, L)`` probability of each pair of labels at each pair of neighbouring tokens, in order
            (P is the sum of T - 1 over the sequences that are not empty); None unless asked for.

    """

    log_partition: FloatArray
    tokens: AnyArray
    transitions: AnyArray
    start: AnyArray
    end: AnyArray
    pairwise: AnyArray | None = None


class _Call:
    """One native inference on checked scores; keeps the arrays alive while the native side points into them."""

    def __init__(self, scores: ChainScores, allowed: npt.ArrayLike | None = None) -> None:
        self.scores = scores if allowed is None else scores.restricted(allowed)
        s = self.scores
        kind = _native.InferenceFloat32 if s.emissions.dtype == np.float32 else _native.InferenceFloat64
        layout = _native.layout_of_lengths(s.lengths, len(s.lengths), len(s.emissions))
        self.native = kind(layout, s.emissions, s.transitions, s.start, s.end, s.num_labels)

    def check(self, report: tuple[int, int], tags: IntArray | None = None) -> None:
        status, sequence = report
        if status == 0:
            return
        s = self.scores
        offsets = offsets_of(s.lengths)
        rows = np.arange(offsets[sequence], offsets[sequence + 1])
        raise_problem(status, sequence, rows, s.emissions, s.transitions, s.start, s.end, tags)

    def by_sequence(self) -> FloatArray:
        return np.empty(len(self.scores.lengths), dtype=np.float64)


def log_partition(scores: ChainScores, *, allowed: npt.ArrayLike | None = None) -> FloatArray:
    """Log Z of each sequence: the log of the sum of ``exp(score)`` over all its label sequences.

    With ``allowed[N, L]``, over those that keep to it; ``log_partition(scores, allowed=known) -
    log_partition(scores)`` is the log-likelihood of partially known labels.
    """
    call = _Call(scores, allowed)
    out = call.by_sequence()
    call.check(call.native.log_partition(out, False))
    return out


def score(scores: ChainScores, tags: npt.ArrayLike) -> FloatArray:
    """Score of the given labels ``tags[N]`` of each sequence; minus infinity where they are forbidden."""
    call = _Call(scores)
    path = _check_tags(tags, scores)
    out = call.by_sequence()
    call.check(call.native.score(path, out), path)
    return out


def viterbi(scores: ChainScores, *, allowed: npt.ArrayLike | None = None) -> Decoded:
    """The best label sequence of each sequence and its score; among equals the smaller label."""
    call = _Call(scores, allowed)
    tags = np.empty(len(scores.emissions), dtype=np.int64)
    best = call.by_sequence()
    call.check(call.native.viterbi(tags, len(tags), best))
    return Decoded(tags, best)


def kbest(scores: ChainScores, k: int, *, allowed: npt.ArrayLike | None = None) -> Paths:
    """The k best label sequences of each sequence, best first; fewer where fewer exist.

    Memory goes with the paths that are returned. An answer holds at most 2**27 tags (a gigabyte): where ``k`` paths of
    all sequences could be more, a `ChainError` says so.
    """
    call = _Call(scores, allowed)
    report, counts, path_scores, flat = call.native.kbest(check_kbest(k, scores.lengths, scores.num_labels))
    call.check(report)
    shapes = zip(split(flat, counts * scores.lengths), counts, scores.lengths, strict=True)
    tags = [own.reshape(count, length) for own, count, length in shapes]
    return Paths(tags, split(path_scores, counts))


def marginals(scores: ChainScores, *, allowed: npt.ArrayLike | None = None, pairwise: bool = False) -> Marginals:
    """Probabilities of labels by forward-backward, and expected counts of transitions.

    ``pairwise=True`` adds the probability of each pair of neighbouring labels, which takes L * L numbers a token.
    """
    call = _Call(scores, allowed)
    s, L = call.scores, scores.num_labels
    out = call.by_sequence()
    tokens, transitions = np.empty_like(s.emissions), np.empty_like(s.transitions)
    start, end = np.empty_like(s.start), np.empty_like(s.end)
    if pairwise:
        pairs = np.empty((int(np.maximum(s.lengths - 1, 0).sum()), L, L), dtype=s.emissions.dtype)
        call.check(call.native.pairwise(out, tokens, transitions, start, end, pairs))
        return Marginals(out, tokens, transitions, start, end, pairs)
    call.check(call.native.log_partition(out, True))
    call.check(call.native.gradient(0, 1.0, len(tokens), tokens, transitions, start, end))
    return Marginals(out, tokens, transitions, start, end)


def sample(scores: ChainScores, n: int = 1, *, seed: int = 0, allowed: npt.ArrayLike | None = None) -> IntArray:
    """``n`` label sequences of each sequence, drawn from their exact distribution: ``tags[n, N]``.

    The same seed gives the same draws, whatever the number of threads. ``n * N`` may be at most 2**27.
    """
    call = _Call(scores, allowed)
    N = len(scores.emissions)
    tags = np.empty((check_sample(n, N), N), dtype=np.int64)
    call.check(call.native.sample(n, seed & (2**64 - 1), tags, N))
    return tags


def entropy(scores: ChainScores, *, allowed: npt.ArrayLike | None = None) -> FloatArray:
    """Entropy (nats) of each sequence's distribution over label sequences: 0 is certain, ``T log L`` knows nothing."""
    call = _Call(scores, allowed)
    out = call.by_sequence()
    call.check(call.native.entropy(out))
    return out


def span_log_prob(
    scores: ChainScores,
    spans: npt.ArrayLike,
    tags: npt.ArrayLike | Sequence[Sequence[int]],
    *,
    before: npt.ArrayLike | None = None,
    after: npt.ArrayLike | None = None,
    allowed: npt.ArrayLike | None = None,
    state_labels: npt.ArrayLike | None = None,
) -> FloatArray:
    """Exact log probability that spans of tokens carry given labels, whatever the rest of the sequence does.

    Args:
        scores: the batch.
        spans: ``(S, 3)`` integers: sequence, begin, end; the span is the positions ``begin .. end - 1``.
        tags: the labels of each span, as a list of lists or one flat array.
        before: ``(S, L)`` or ``(L,)`` booleans: labels that may stand just before the span. A span at the start of
            its sequence meets no condition there.
        after: the same for just after the span. With a BIO scheme, tags ``B-PER I-PER`` and ``after`` true for all
            labels but ``I-PER`` ask for the entity that begins and ends exactly there.
        allowed: ``(N, L)`` booleans, known labels; the probability is conditional on them.
        state_labels: ``(L,)`` where the chain's states are finer than labels: the label that each stands for. `tags`,
            `before` and `after` are then about these labels.

    """
    call = _Call(scores, allowed)
    checked = check_spans(spans, scores.lengths)
    finer, L = _check_state_labels(state_labels, scores.num_labels)
    path, S = check_span_tags(tags, checked, L), len(checked)
    out = np.empty(S, dtype=np.float64)
    masks = (check_side("before", before, S, L), check_side("after", after, S, L))
    call.check(call.native.spans(checked, S, path, *masks, finer, L, out))
    return out


def weighted_nll(scores: ChainScores, tags: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    """Negative log-likelihood with a weight for each token, by the chain rule of probability.

    ``sum_t weights[t] * -log P(y[t] | y[0..t-1])``: the plain negative log-likelihood where all weights are 1,
    weighted cross entropy where there are no transitions, and never negative.
    """
    call = _Call(scores)
    path = _check_tags(tags, scores)
    token_weights = plain_array(weights, np.float64)
    if token_weights.shape != path.shape or not (token_weights >= 0).all():
        raise ShapeError(f"weights must be numbers >= 0 of shape (N,) = {path.shape}, got {token_weights.shape}")
    out = call.by_sequence()
    call.check(call.native.weighted_nll(path, token_weights, out), path)
    return out


def _check_tags(tags: npt.ArrayLike, scores: ChainScores) -> IntArray:
    array = np.asarray(tags)
    if array.shape != (len(scores.emissions),) or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(
            f"tags must be integers (N,) = ({len(scores.emissions)},) to match emissions (N, L) = "
            f"{scores.emissions.shape}, got {array.dtype} {array.shape}"
        )
    return plain_array(array, np.int64)


def _check_state_labels(labels: npt.ArrayLike | None, states: int) -> tuple[IntArray | int, int]:
    """The labels of the states, 0 where they are the labels, and how many labels there are."""
    if labels is None:
        return 0, states
    array = np.asarray(labels)
    if array.shape != (states,) or array.dtype.kind not in "iu":
        raise ShapeError(f"state_labels must be integers (L,) = ({states},), got {array.dtype} {array.shape}")
    wrong = np.flatnonzero((array < 0) | (array >= states))  # there are never more labels than states
    if len(wrong):
        raise TagRangeError(f"state_labels[{wrong[0]}] is {array[wrong[0]]}: must be in 0..{states - 1} (L = {states})")
    return plain_array(array, np.int64), int(array.max()) + 1


def check_count(name: str, value: int) -> int:
    """A number of things to find: an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ChainError(f"{name} must be an integer >= 1, got {_shown(value)}")
    return int(value)


def check_kbest(k: int, lengths: IntArray, L: int, *, by_label: bool = False) -> int:
    """``k``, refused where so many paths hold more than `MOST_TAGS` tags.

    With ``by_label``, where there are more of them for each label of a padded batch: what ``_scan`` keeps.
    """
    wanted = min(check_count("k", k), MOST_TAGS + 1)
    longest = lengths.max(initial=0)
    tokens = (np.full_like(lengths, longest) if by_label else lengths).astype(np.float64)
    existing = np.exp(np.minimum(tokens * np.log(L), 50.0))  # L ** T, or enough
    numbers = float((np.minimum(wanted, existing) * tokens).sum())
    if numbers * (L if by_label else 1) > MOST_TAGS:
        _refuse("k", k, "best paths", int(lengths.sum()))
    return wanted


def check_sample(n: int, tokens: int) -> int:
    """``n``, refused where so many samples of all tokens hold more than `MOST_TAGS` tags."""
    if check_count("n", n) * max(tokens, 1) > MOST_TAGS:
        _refuse("n", n, "samples", tokens)
    return int(n)


def _refuse(name: str, count: int, what: str, tokens: int) -> NoReturn:
    raise ChainError(
        f"{name} = {_shown(count)} {what} of {tokens} tokens are more than one answer may hold, "
        f"which is {MOST_TAGS} tags: ask for fewer, or for fewer sequences at a time"
    )


def _shown(value: object) -> str:
    """A number in an error; Python refuses to write out thousands of digits."""
    return (
        f"an integer of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >= 2**128 else repr(value)
    )


def check_spans(spans: npt.ArrayLike, lengths: IntArray) -> IntArray:
    """Spans as int64[S, 3]; each must lie inside its sequence and hold at least one token."""
    array = np.asarray(spans)
    if array.size == 0:
        return np.empty((0, 3), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise ShapeError(f"spans must be integers (S, 3) = (sequence, begin, end), got {array.dtype} {array.shape}")
    array = plain_array(array, np.int64)
    sequence, begin, end = array.T
    bad = np.flatnonzero((sequence < 0) | (sequence >= len(lengths)))
    if len(bad):
        raise ShapeError(f"span {bad[0]} names sequence {sequence[bad[0]]}, but there are {len(lengths)}")
    bad = np.flatnonzero((begin < 0) | (begin >= end) | (end > lengths[sequence]))
    if len(bad):
        s = int(bad[0])
        raise ShapeError(
            f"span {s} is {begin[s]}..{end[s]} of sequence {sequence[s]}: "
            f"must be 0 <= begin < end <= its length {lengths[sequence[s]]}"
        )
    return array


def check_span_tags(tags: npt.ArrayLike | Sequence[Sequence[int]], spans: IntArray, L: int) -> IntArray:
    """The labels of all spans, one span after another."""
    if isinstance(tags, Sequence) and tags and isinstance(tags[0], Sequence | np.ndarray):
        lengths = [len(own) for own in tags]  # type: ignore[arg-type]
        if lengths != (spans[:, 2] - spans[:, 1]).tolist():
            raise ShapeError(f"tags must have one label a position of each span, got lengths {lengths}")
        flat = np.concatenate([np.asarray(own, dtype=np.int64) for own in tags])
    else:
        flat = plain_array(tags, np.int64)
    wanted = int((spans[:, 2] - spans[:, 1]).sum())
    if flat.shape != (wanted,):
        raise ShapeError(f"tags must hold {wanted} labels, the sum of the spans' lengths, got {flat.shape}")
    bad = np.flatnonzero((flat < 0) | (flat >= L))
    if len(bad):
        raise TagRangeError(f"tags[{bad[0]}] is {flat[bad[0]]}: must be in 0..{L - 1} (L = {L})")
    return flat


def check_side(name: str, mask: npt.ArrayLike | None, S: int, L: int) -> npt.NDArray[np.uint8] | int:
    """``before`` or ``after`` as uint8[S, L], 0 where there is none."""
    if mask is None:
        return 0
    array = np.asarray(mask)
    if array.shape not in ((L,), (S, L)) or array.dtype != np.bool_:
        raise ShapeError(f"{name} must be bool (S, L) = ({S}, {L}) or (L,) = ({L},), got {array.dtype} {array.shape}")
    return np.array(np.broadcast_to(array, (S, L)), order="C").view(np.uint8)
