"""The operations on tensors: native kernels on the CPU, the torch implementation elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trellis.aligned import plain_tensor
from trellis.chain import _scan
from trellis.chain._problems import BAD_CHAIN_SCORE, FORBIDDEN_PATH, NO_PATH, NOT_FINITE, TAG_RANGE
from trellis.chain.arrays import check_kbest, check_sample, check_side, check_span_tags, check_spans
from trellis.chain.torch.autograd import ChainLoss, WeightedLoss, native_gradient
from trellis.chain.torch.scores import ChainScores, to_numpy
from trellis.errors import ShapeError


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The best label sequences: ``tags`` in the layout of the emissions, and ``scores[B]``."""

    tags: Tensor
    scores: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The k best label sequences of each sequence b: ``tags[b]`` is (k_b, T_b), ``scores[b]`` (k_b,), descending."""

    tags: list[Tensor]
    scores: list[Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """What forward-backward gives; see ``trellis.chain.Marginals``. ``tokens`` has the layout of the emissions."""

    log_partition: Tensor
    tokens: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    pairwise: Tensor | None = None


def log_partition(scores: ChainScores, *, allowed: Tensor | None = None) -> Tensor:
    """Log Z of each sequence, (B,). Its gradient is the marginals."""
    restricted = scores.restricted(allowed)
    if not restricted.native:
        return _scan_log_partition(restricted)
    return _chain_loss(restricted, None, None)


def score(scores: ChainScores, tags: Tensor) -> Tensor:
    """Score of the given labels of each sequence, (B,)."""
    path = _check_tags(tags, scores)
    if not scores.native or scores.requires_grad():
        _check_path(scores, path)
        return _scan.path_score(*scores.ragged(), path.reshape(-1)[scores.rows()])
    out = _by_sequence(scores)
    scores.check(scores.inference().score(path.data_ptr(), out.data_ptr()), path)
    return out.to(scores.emissions.dtype)


def nll(scores: ChainScores, tags: Tensor, *, scale: float | None = None) -> Tensor:
    """Negative log-likelihood of the given labels, (B,); never negative.

    With ``scale``, the sum over the batch times it, which saves work where only that is wanted.
    """
    path = _check_tags(tags, scores)
    if scores.native:
        return _chain_loss(scores, path, scale)
    losses = (_scan_log_partition(scores) - _gold_score(scores, path)).clamp_min(0)
    return losses if scale is None else losses.sum() * scale


def _chain_loss(scores: ChainScores, path: Tensor | None, scale: float | None) -> Tensor:
    arguments = (*scores.arguments, scores.layout, path, scale)
    loss: Tensor = ChainLoss.apply(scores.requires_grad(), *arguments)  # type: ignore[no-untyped-call]
    return loss


def _gold_score(scores: ChainScores, path: Tensor) -> Tensor:
    """The score of given labels, which must not be forbidden."""
    gold = score(scores, path)
    forbidden = gold == -torch.inf
    if bool(forbidden.any()):
        scores.check((FORBIDDEN_PATH, int(forbidden.nonzero()[0])), path)
    return gold


def nll_gradient(scores: ChainScores, tags: Tensor, grad: Tensor) -> list[Tensor]:
    """The gradient of ``(grad * nll(scores, tags)).sum()`` by row of emissions, transitions, start and end.

    Without autograd, for where it is off.
    """
    path = _check_tags(tags, scores)
    if scores.native:
        inference, values = scores.inference(), _by_sequence(scores)
        scores.check(inference.nll(path.data_ptr(), values.data_ptr(), True), path)
        return native_gradient(inference, scores.arguments, plain_tensor(grad, torch.float64), 1.0)
    L, rows = scores.num_labels, scores.rows()
    labels, lengths = path.reshape(-1)[rows], scores.lengths().to(grad.device)
    weights = grad.repeat_interleave(lengths)  # [N]
    _, tokens, pairs = _scan.marginals(*scores.ragged())
    d_tokens = (tokens - one_hot(labels, L)) * weights[:, None]
    first = torch.ones_like(labels, dtype=torch.bool)
    first[1:] = torch.arange(len(lengths), device=grad.device).repeat_interleave(lengths).diff() != 0
    last = first.roll(-1)
    observed = one_hot(labels[:-1][~first[1:]] * L + labels[1:][~first[1:]], L * L).view(-1, L, L)
    d_transitions = ((pairs - observed) * weights[~first][:, None, None]).sum(0)
    d_emissions = torch.zeros_like(scores.matrix).index_copy_(0, rows, d_tokens)
    return [d_emissions, d_transitions, d_tokens[first].sum(0), d_tokens[last].sum(0)]


def weighted_nll(scores: ChainScores, tags: Tensor, weights: Tensor) -> Tensor:
    """Negative log-likelihood with a weight for each token, (B,); see ``trellis.chain.weighted_nll``."""
    path = _check_tags(tags, scores)
    if weights.shape != path.shape or not bool((weights >= 0).all()):
        raise ShapeError(
            f"weights must be numbers >= 0 of shape {tuple(path.shape)} to match tags, got {tuple(weights.shape)}"
        )
    plain = plain_tensor(weights, torch.float64)
    if scores.native:
        result: Tensor = WeightedLoss.apply(*scores.arguments, scores.layout, path, plain)  # type: ignore[no-untyped-call]
        return result
    _gold_score(scores, path)
    rows = scores.rows()
    kept = plain.reshape(-1)[rows].to(scores.emissions.dtype)
    return _scan.weighted_nll(*scores.ragged(), path.reshape(-1)[rows], kept)


def viterbi(scores: ChainScores, *, allowed: Tensor | None = None) -> Decoded:
    """The best label sequence of each sequence and its score; the score has a gradient, that of the path's score."""
    restricted = scores.restricted(allowed)
    if not restricted.native:
        _scan_log_partition(restricted)
        flat, best = _scan.viterbi(*restricted.ragged())
        return Decoded(restricted.by_token(flat, -1), best)
    rows = restricted.num_rows
    tags, out = torch.empty(rows, dtype=torch.int64), _by_sequence(restricted)
    restricted.check(restricted.inference().viterbi(tags.data_ptr(), rows, out.data_ptr()))
    shaped = tags.view(restricted.shape[:-1])
    if restricted.requires_grad():
        return Decoded(shaped, score(restricted, shaped))
    return Decoded(shaped, out.to(restricted.emissions.dtype))


def kbest(scores: ChainScores, k: int, *, allowed: Tensor | None = None) -> Paths:
    """The k best label sequences of each sequence, best first; fewer where fewer exist.

    An answer holds at most 2**27 tags, as that of ``trellis.chain.kbest``. Where the torch implementation answers, it
    keeps k numbers for each label of each place of the padded batch, and those are what may be at most 2**27.
    """
    restricted = scores.restricted(allowed)
    L, lengths = restricted.num_labels, restricted.lengths()
    if restricted.native:
        report, *arrays = restricted.inference().kbest(check_kbest(k, lengths.numpy(), L))
        restricted.check(report)
        counts, best, flat = (torch.from_numpy(array) for array in arrays)
    else:
        wanted = check_kbest(k, lengths.numpy(), L, by_label=True)
        _scan_log_partition(restricted)
        counts, best, flat = _scan.kbest(*restricted.ragged(), wanted)
    sizes = counts.tolist()
    paths = torch.split(flat, (counts.cpu() * lengths).tolist())
    shapes = zip(paths, sizes, lengths.tolist(), strict=True)
    tags = [path.reshape(count, length) for path, count, length in shapes]
    return Paths(tags, list(torch.split(best.to(restricted.emissions.dtype), sizes)))


def marginals(scores: ChainScores, *, allowed: Tensor | None = None, pairwise: bool = False) -> Marginals:
    """Probabilities of labels by forward-backward, and expected counts of transitions."""
    restricted = scores.restricted(allowed)
    if not restricted.native or restricted.requires_grad():
        return _scan_marginals(restricted, pairwise)
    tokens = torch.zeros_like(restricted.emissions)
    a, s, e = (torch.empty_like(x) for x in (restricted.transitions, restricted.start, restricted.end))
    out, inference = _by_sequence(restricted), restricted.inference()
    pointers = (tokens.data_ptr(), a.data_ptr(), s.data_ptr(), e.data_ptr())
    pairs = None
    if pairwise:
        L = restricted.num_labels
        count = int((restricted.lengths() - 1).clamp_min(0).sum())
        pairs = tokens.new_empty(count, L, L)
        restricted.check(inference.pairwise(out.data_ptr(), *pointers, pairs.data_ptr()))
    else:
        restricted.check(inference.log_partition(out.data_ptr(), True))
        restricted.check(inference.gradient(0, 1.0, restricted.num_rows, *pointers))
    return Marginals(out.to(tokens.dtype), tokens, a, s, e, pairs)


def sample(scores: ChainScores, n: int = 1, *, seed: int = 0, allowed: Tensor | None = None) -> Tensor:
    """``n`` label sequences of each sequence, drawn from their exact distribution: (n, *layout of the emissions).

    That may be at most 2**27 tags.
    """
    restricted = scores.restricted(allowed)
    n = check_sample(n, restricted.num_rows)
    if not restricted.native:
        _scan_log_partition(restricted)
        generator = torch.Generator(restricted.emissions.device).manual_seed(seed)
        with torch.no_grad():
            drawn = _scan.sample(*restricted.ragged(), n, generator)
        return torch.stack([restricted.by_token(one, -1) for one in drawn])
    rows = restricted.num_rows
    tags = torch.full((n, rows), -1, dtype=torch.int64)
    restricted.check(restricted.inference().sample(n, seed & (2**64 - 1), tags.data_ptr(), rows))
    return tags.view(n, *restricted.shape[:-1])


def entropy(scores: ChainScores, *, allowed: Tensor | None = None) -> Tensor:
    """Entropy (nats) of each sequence's distribution over label sequences, (B,)."""
    restricted = scores.restricted(allowed)
    if not restricted.native or restricted.requires_grad():
        _scan_log_partition(restricted)
        return _scan.entropy(*restricted.ragged())
    out = _by_sequence(restricted)
    restricted.check(restricted.inference().entropy(out.data_ptr()))
    return out.to(restricted.emissions.dtype)


def span_log_prob(
    scores: ChainScores,
    spans: Tensor | Sequence[Sequence[int]],
    tags: Tensor | Sequence[Sequence[int]],
    *,
    before: Tensor | None = None,
    after: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Exact log probability that spans carry given labels, (S,); see ``trellis.chain.span_log_prob``."""
    restricted = scores.restricted(allowed)
    L = restricted.num_labels
    checked = check_spans(to_numpy(spans), restricted.lengths().numpy())  # type: ignore[arg-type]
    path = check_span_tags(to_numpy(tags), checked, L)  # type: ignore[arg-type]
    first, last = (
        check_side(name, None if side is None else to_numpy(side), len(checked), L)
        for name, side in (("before", before), ("after", after))
    )
    if not restricted.native or restricted.requires_grad():
        _scan_log_partition(restricted)
        device = restricted.emissions.device
        masks = [None if isinstance(side, int) else torch.from_numpy(side).bool().to(device) for side in (first, last)]
        where = (torch.from_numpy(checked).to(device), torch.from_numpy(path).to(device))
        return _scan.span_log_prob(*restricted.ragged(), *where, *masks)
    out = torch.empty(len(checked), dtype=torch.float64)
    report = restricted.inference().spans(checked, len(checked), path, first, last, 0, L, out.data_ptr())
    restricted.check(report)
    return out.to(restricted.emissions.dtype)


def _check_tags(tags: Tensor, scores: ChainScores) -> Tensor:
    if tags.shape != scores.shape[:-1] or tags.dtype.is_floating_point:
        raise ShapeError(
            f"tags must be integers {tuple(scores.shape[:-1])} to match emissions {tuple(scores.shape)}, "
            f"got {tags.dtype} {tuple(tags.shape)}"
        )
    return plain_tensor(tags, torch.int64)


def _by_sequence(scores: ChainScores) -> Tensor:
    return torch.empty(scores.layout.sequences, dtype=torch.float64)


def _sequence_of_row(scores: ChainScores, row: int) -> int:
    token = int((scores.rows() == row).nonzero()[0])
    return int(np.searchsorted(scores.layout.offsets, token, side="right")) - 1


def _check_finite(scores: ChainScores) -> None:
    """What the native side checks as it goes: no NaN, no plus infinity."""
    if any(not bool((x < torch.inf).all()) for x in scores.arguments[1:]):
        scores.check((BAD_CHAIN_SCORE, 0))
    rows = scores.rows()
    bad = ~(scores.matrix[rows] < torch.inf).all(dim=-1)
    if bool(bad.any()):
        scores.check((NOT_FINITE, _sequence_of_row(scores, int(rows[bad][0]))))


def _check_path(scores: ChainScores, tags: Tensor) -> None:
    _check_finite(scores)
    rows = scores.rows()
    own = tags.reshape(-1)[rows]
    bad = (own < 0) | (own >= scores.num_labels)
    if bool(bad.any()):
        scores.check((TAG_RANGE, _sequence_of_row(scores, int(rows[bad][0]))), tags)


def _scan_log_partition(scores: ChainScores) -> Tensor:
    _check_finite(scores)
    value = _scan.log_partition(*scores.ragged())
    dead = value == -torch.inf
    if bool(dead.any()):
        scores.check((NO_PATH, int(dead.nonzero()[0])))
    return value


def _scan_marginals(scores: ChainScores, pairwise: bool) -> Marginals:
    _scan_log_partition(scores)
    total, tokens, pairs = _scan.marginals(*scores.ragged())
    lengths = scores.lengths()
    stops = lengths.cumsum(0)[lengths > 0].to(tokens.device)
    starts = stops - lengths[lengths > 0].to(tokens.device)
    ends = (tokens[starts].sum(0), tokens[stops - 1].sum(0))
    return Marginals(total, scores.by_token(tokens), pairs.sum(0), *ends, pairs if pairwise else None)
