"""Chain inference in plain torch: any device, differentiable any number of times.

The native kernels answer for CPU tensors; this module answers for every other device and for gradients of
gradients, and is an independent check on the kernels. It loops over time steps only.

Nearly everything follows from one backward recursion and the Markov chain it defines, where A[t] are the scores of
transitions into position t, those of the chain plus its edges:

    beta[T-1, i] = end[i]
    beta[t-1, i] = log sum_j exp(A[t, i, j] + e[t, j] + beta[t, j])
    log Z        = log sum_j exp(start[j] + e[0, j] + beta[0, j])

    log P(y_0 = j)             = start[j] + e[0, j] + beta[0, j] - log Z
    log P(y_t = j | y_t-1 = i) = A[t, i, j] + e[t, j] + beta[t, j] - beta[t-1, i]

Marginals push the first distribution through the conditionals, entropy is the sum of the conditionals' entropies, and
the loss of a tag is minus its conditional log probability. No such sum has terms of opposite sign, so nothing cancels;
beta is kept near zero by taking its maximum out at each step, so that float32 is enough for long sequences.

Letters: B sequences, T positions of the longest, N tokens, P pairs of neighbours, L labels, S spans. Tokens
arrive flat, one sequence after another, and are padded to time-major [T, B, L] inside. Minus infinity forbids;
gradients of log Z and of probabilities with respect to a forbidden score are zero. An empty sequence has one path, the
empty one, with score 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

NEG_INF = -math.inf


class Chain(NamedTuple):
    """The scores of a ragged batch, flat, all of them float32 or all float64."""

    emissions: Tensor  # [N, L]
    lengths: Tensor  # [B], on the CPU
    transitions: Tensor  # [L, L] from, to
    start: Tensor  # [L]
    end: Tensor  # [L]
    edges: Tensor | None = None  # [P, L, L] what the place adds to the transitions


@dataclass(frozen=True)
class Layout:
    """The places of flat rows in a padded grid with time first."""

    lengths: Tensor  # [B]
    active: Tensor  # [T, B] bool
    index: Tensor  # [T, B] flat row of each cell; N for padding
    time: Tensor  # [N] position of each flat row
    sequence: Tensor  # [N] sequence of each flat row

    @property
    def later(self) -> tuple[Tensor, Tensor]:
        """Position and sequence of the later token of each pair of neighbours, [P] each."""
        return self.time[self.time > 0], self.sequence[self.time > 0]

    def pad(self, flat: Tensor) -> Tensor:
        """[N, ...] -> [T, B, ...], zero where padded."""
        return torch.cat([flat, flat.new_zeros(1, *flat.shape[1:])])[self.index]

    def flatten(self, padded: Tensor) -> Tensor:
        """[T, B, ...] -> [N, ...]."""
        return padded[self.time, self.sequence]

    def last(self, padded: Tensor) -> Tensor:
        """[T, B, ...] -> [B, ...], the value at the last position; that of the padding if a sequence is empty."""
        return padded[(self.lengths - 1).clamp(min=0), torch.arange(padded.shape[1], device=padded.device)]


@dataclass(frozen=True)
class Batch:
    """Padded chain scores of one floating type."""

    layout: Layout
    emissions: Tensor  # [T, B, L]
    transitions: Tensor  # [L, L] from, to
    start: Tensor  # [L]
    end: Tensor  # [L]
    edges: Tensor | None  # [T, B, L, L]; those of padding and of first positions are zero
    dead: Tensor | None = None  # [T, B, L] states on no complete path, whose emissions are minus infinity, if any

    @property
    def shape(self) -> tuple[int, int, int]:
        T, B, L = self.emissions.shape
        return T, B, L

    def steps(self, t: int | slice | Tensor, b: Tensor | slice = slice(None)) -> Tensor:
        """Scores of transitions into positions t of sequences b, [..., L, L]; [L, L] if all are the same."""
        return self.transitions if self.edges is None else self.transitions + self.edges[t, b]

    def steps_from(self, previous: Tensor, t: int | slice | Tensor, b: Tensor | slice = slice(None)) -> Tensor:
        """Scores of transitions from the given previous labels [...] into positions t, [..., L]."""
        if self.edges is None:
            return self.transitions[previous]
        L = self.emissions.shape[-1]
        matrices = self.steps(t, b).expand(*previous.shape, L, L)
        rows = previous[..., None, None].expand(*previous.shape, 1, L)
        return matrices.gather(-2, rows).squeeze(-2)


def prepare(chain: Chain) -> Batch:
    """Padded scores, without states on no complete path."""
    batch = pad(chain)
    if any(bool((x == NEG_INF).any()) for x in chain if x is not None and x is not chain.lengths):
        dead = ~_on_complete_paths(batch)
        batch = replace(batch, emissions=batch.emissions.masked_fill(dead, NEG_INF), dead=dead)
    return batch


def pad(chain: Chain) -> Batch:
    """The scores of a ragged batch, padded."""
    layout = make_layout(chain.lengths, chain.emissions.device)
    edges = chain.edges
    if edges is not None:
        edges = edges.new_zeros(*layout.active.shape, *edges.shape[1:]).index_put(layout.later, edges)
    return Batch(layout, layout.pad(chain.emissions), chain.transitions, chain.start, chain.end, edges)


@torch.no_grad()
def _on_complete_paths(batch: Batch) -> Tensor:
    """Which states lie on a path from start to end that nothing forbids, bool [T, B, L]; all of the padding.

    The recursions shift their rows by the largest score, so the others must not take part: a label of score 1e8 from
    which the end cannot be reached would round away what is left of the rest.
    """
    active, possible = batch.layout.active.unsqueeze(-1), batch.emissions != NEG_INF
    T, B, L = batch.shape
    forward = [(batch.start != NEG_INF) & possible[0]]
    for t in range(1, T):
        # forward[t, j] = any_i (forward[t-1, i] and a step from i to j) and an emission of j
        reached = (forward[-1].unsqueeze(-1) & (batch.steps(t) != NEG_INF)).any(1) & possible[t]
        forward.append(torch.where(active[t], reached, forward[-1]))
    ends = (batch.end != NEG_INF).expand(B, L)
    backward = [ends]
    for t in range(T - 1, 0, -1):
        # backward[t-1, i] = any_j (a step from i to j, an emission of j and backward[t, j])
        leads = ((batch.steps(t) != NEG_INF) & (possible[t] & backward[-1]).unsqueeze(1)).any(-1)
        backward.append(torch.where(active[t], leads, ends))
    return torch.stack(forward) & torch.stack(backward[::-1]) | ~active


def make_layout(lengths: Tensor, device: torch.device) -> Layout:
    """Lay out sequences of the given lengths (a CPU tensor).

    T is at least 2: then no recursion has a special case, and every score is part of every graph.
    """
    T = max(2, int(lengths.max())) if len(lengths) else 2
    time = torch.arange(T).unsqueeze(-1)
    active = time < lengths
    index = torch.where(active, lengths.cumsum(0) - lengths + time, lengths.sum())
    sequence, position = active.T.nonzero(as_tuple=True)
    return Layout(*(part.to(device) for part in (lengths, active, index, position, sequence)))


def finite(x: Tensor) -> Tensor:
    """Replace minus infinity by 0, so that subtracting it changes nothing and makes no NaN."""
    return x.masked_fill(x == NEG_INF, 0.0)


def logsumexp(x: Tensor, dim: int = -1) -> Tensor:
    """Log-sum-exp over an axis whose derivatives of any order are finite under minus infinity."""
    shift = finite(x.detach().amax(dim, keepdim=True))
    total = (x - shift).exp().sum(dim)  # at least 1, or 0 when every term is minus infinity
    return torch.where(total > 0, torch.where(total > 0, total, 1.0).log() + shift.squeeze(dim), NEG_INF)


def log_softmax(x: Tensor) -> Tensor:
    """Log-softmax over the last axis, never above 0; a row of minus infinities stays one."""
    return x - finite(logsumexp(x)).unsqueeze(-1)


def pick(x: Tensor, label: Tensor) -> Tensor:
    """x[..., label[...]]."""
    return x.gather(-1, label.unsqueeze(-1)).squeeze(-1)


def backward(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return beta[T, B, L], its maximum taken out at each step, and the sum of what was taken out, [B]."""
    T, B, L = batch.shape
    beta = batch.end.expand(B, L)
    if batch.dead is not None:
        beta = beta.masked_fill(batch.layout.last(batch.dead), NEG_INF)
    betas, shifts = [beta], [beta.new_zeros(B, 1)]
    for t in range(T - 1, 0, -1):
        # beta[t-1, i] = log sum_j exp(A[t, i, j] + e[t, j] + beta[t, j])
        message = logsumexp(batch.steps(t) + (batch.emissions[t] + beta).unsqueeze(1))  # [B, L]
        if batch.dead is not None:
            message = message.masked_fill(batch.dead[t - 1], NEG_INF)
        shift = finite(message.detach().amax(-1, keepdim=True))
        active = batch.layout.active[t].unsqueeze(-1)
        beta = torch.where(active, message - shift, beta)
        betas.append(beta)
        shifts.append(torch.where(active, shift, 0.0))
    return torch.stack(betas[::-1]), torch.stack(shifts).sum(0).squeeze(-1)


def total(batch: Batch, beta: Tensor, scale: Tensor) -> Tensor:
    """Log Z, [B]."""
    log_z = logsumexp(batch.start + batch.emissions[0] + beta[0]) + scale
    return torch.where(batch.layout.active[0], log_z, 0.0)


def log_first(batch: Batch, beta: Tensor) -> Tensor:
    """Log P(y_0 = j), [B, L]."""
    return log_softmax(batch.start + batch.emissions[0] + beta[0])


def log_conditional(
    batch: Batch, beta: Tensor, t: int | slice | Tensor, b: Tensor | slice = slice(None), previous: Tensor | None = None
) -> Tensor:
    """Log P(y_t = j | y_t-1 = i) at positions t of sequences b, [..., L, L].

    Given the previous labels i it is [..., L].
    """
    scores = batch.emissions[t, b] + beta[t, b]
    if previous is None:
        return log_softmax(batch.steps(t, b) + scores.unsqueeze(-2))
    return log_softmax(batch.steps_from(previous, t, b) + scores)


def log_marginals(batch: Batch, beta: Tensor) -> Tensor:
    """Log P(y_t = j), [T, B, L]; garbage in the padding."""
    current = log_first(batch, beta)
    result = [current]
    for t in range(1, batch.shape[0]):
        # log P(y_t = j) = log sum_i exp(log P(y_t-1 = i) + log P(y_t = j | y_t-1 = i))
        current = logsumexp((current.unsqueeze(-1) + log_conditional(batch, beta, t)).transpose(-1, -2))
        # Probabilities sum to one: what is off by rounding is taken out before it adds up over time.
        current = current - finite(logsumexp(current.detach())).unsqueeze(-1)
        result.append(current)
    return torch.stack(result)


def log_partition(chain: Chain) -> Tensor:
    """Log of the sum of exp(score) over all paths, [B]; minus infinity if no path is valid."""
    batch = prepare(chain)
    beta, scale = backward(batch)
    return total(batch, beta, scale)


def marginals(chain: Chain) -> tuple[Tensor, Tensor, Tensor]:
    """Log partition [B], token marginals [N, L], and marginals of adjacent pairs [P, L, L] in flat order."""
    batch = prepare(chain)
    beta, scale = backward(batch)
    log_tokens = log_marginals(batch, beta)  # [T, B, L]
    t, b = batch.layout.later
    # P(y_t-1 = i, y_t = j) = P(y_t-1 = i) P(y_t = j | y_t-1 = i)
    pairwise = (log_tokens[t - 1, b].unsqueeze(-1) + log_conditional(batch, beta, t, b)).exp()
    return total(batch, beta, scale), batch.layout.flatten(log_tokens).exp(), pairwise


def entropy(chain: Chain) -> Tensor:
    """Entropy of the distribution over paths in nats, [B]."""
    batch = prepare(chain)
    beta, _ = backward(batch)
    T, B, L = batch.shape
    active = batch.layout.active
    rest = beta.new_zeros(B, L)  # entropy of what follows, given the label here
    for t in range(T - 1, 0, -1):
        # H[t-1, i] = sum_j P(j | i) * (H[t, j] - log P(j | i))
        expected = _expected_surprise(log_conditional(batch, beta, t), rest.unsqueeze(1))
        rest = torch.where(active[t].unsqueeze(-1), expected, rest)
    return torch.where(active[0], _expected_surprise(log_first(batch, beta), rest), 0.0)


def weighted_nll(chain: Chain, tags: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of -log P(y_t | y_0 .. y_t-1) over each sequence, [B]; never negative for weights >= 0.

    With all weights 1 it is log Z - score; with all transitions zero it is the weighted cross entropy.
    """
    batch = prepare(chain)
    beta, _ = backward(batch)
    layout = batch.layout
    path = layout.pad(tags)  # [T, B]
    first = pick(log_first(batch, beta).unsqueeze(0), path[:1])
    later = pick(log_conditional(batch, beta, slice(1, None), previous=path[:-1]), path[1:])
    loss = -torch.cat([first, later])  # [T, B]
    weight = layout.pad(weights.to(loss.dtype))
    counted = layout.active & ~((weight == 0) & loss.isinf())  # a forbidden tag of weight 0 costs nothing
    return (weight * torch.where(counted, loss, 0.0)).sum(0)


def span_log_prob(
    chain: Chain, spans: Tensor, tags: Tensor, before: Tensor | None = None, after: Tensor | None = None
) -> Tensor:
    """Log probability that each span carries its tags, [S]; minus infinity if that is impossible.

    `spans[S, 3]` holds (sequence, begin, end), half-open and not empty; `tags` those of all spans, flat.
    `before` and `after`, bool [S, L], also restrict the labels next to the span, if there are any.
    """
    batch = prepare(chain)
    beta, _ = backward(batch)
    log_tokens = log_marginals(batch, beta)  # [T, B, L]
    sequence, begin, end = spans.to(log_tokens.device).unbind(-1)
    inside = make_layout((end - begin).cpu(), log_tokens.device)
    path = inside.pad(tags)  # [T of spans, S]
    log_prob = pick(log_tokens[begin, sequence], path[0])  # of the first label
    if before is not None:
        left = log_tokens[begin - 1, sequence].masked_fill(~before, NEG_INF)  # [S, L]
        step = log_conditional(batch, beta, begin, sequence)  # [S, L, L]
        bound = logsumexp(left + pick(step, path[0].unsqueeze(-1).expand_as(left)))
        log_prob = torch.where(begin > 0, bound, log_prob)
    time = begin + torch.arange(len(path), device=path.device).unsqueeze(-1)  # [T of spans, S]
    time = torch.where(inside.active, time, begin)[1:]
    later = pick(log_conditional(batch, beta, time, sequence, path[:-1]), path[1:])
    log_prob = log_prob + torch.where(inside.active[1:], later, 0.0).sum(0)
    if after is None:
        return log_prob
    has_next = end < batch.layout.lengths[sequence]
    following = log_conditional(batch, beta, torch.where(has_next, end, 0), sequence, inside.last(path))
    return log_prob + torch.where(has_next, logsumexp(following.masked_fill(~after, NEG_INF)), 0.0)


def _expected_surprise(log_prob: Tensor, rest: Tensor) -> Tensor:
    """Return sum_j p[j] * (rest[j] - log p[j]) over the last axis, 0 log 0 being 0."""
    return (log_prob.exp() * (rest - finite(log_prob))).sum(-1)


def path_score(chain: Chain, tags: Tensor) -> Tensor:
    """Score of the given path of each sequence, [B]."""
    batch = pad(chain)
    return _path_score(batch, batch.layout.pad(tags))


def viterbi(chain: Chain) -> tuple[Tensor, Tensor]:
    """Best path of each sequence, flat [N], and its score [B]; ties go to the smallest label id."""
    batch = prepare(chain)
    active, pointers = batch.layout.active, []
    with torch.no_grad():
        best = batch.start + batch.emissions[0]
        for t in range(1, batch.shape[0]):
            # best[t, j] = e[t, j] + max_i (best[t-1, i] + A[t, i, j])
            value, pointer = (best.unsqueeze(-1) + batch.steps(t)).max(1)
            value = value + batch.emissions[t]
            value = value - finite(value.amax(-1, keepdim=True))
            best = torch.where(active[t].unsqueeze(-1), value, best)
            pointers.append(pointer)
        path = [(best + batch.end).argmax(-1)]  # [B] at each position, from the last one
        for t in range(len(pointers), 0, -1):
            # y[t-1] = pointer[t][y[t]], and padding only repeats the last label
            path.append(torch.where(active[t], pick(pointers[t - 1], path[-1]), path[-1]))
        tags = torch.stack(path[::-1])  # [T, B]
    return batch.layout.flatten(tags), _path_score(batch, tags)


def _path_score(batch: Batch, tags: Tensor) -> Tensor:
    """Score of padded tags [T, B]."""
    active = batch.layout.active
    if batch.edges is None:
        steps = batch.transitions[tags[:-1], tags[1:]]  # [T - 1, B]
    else:
        steps = pick(batch.steps_from(tags[:-1], slice(1, None)), tags[1:])
    emitted = torch.where(active, pick(batch.emissions, tags), 0.0).sum(0)
    moved = torch.where(active[1:], steps, 0.0).sum(0)
    return emitted + moved + torch.where(active[0], batch.start[tags[0]] + batch.end[batch.layout.last(tags)], 0.0)
