"""Questions to the Markov chain that the scores define: sums over paths, and samples of them."""

from __future__ import annotations

import torch
from torch import Tensor

from trellis.chain.torch._scan.batch import Batch, Chain, Layout, make_layout, prepare
from trellis.chain.torch._scan.markov import (
    NEG_INF,
    backward,
    finite,
    log_conditional,
    log_first,
    log_marginals,
    logsumexp,
    pick,
    total,
)


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
    spans = spans.to(log_tokens.device)
    inside = make_layout((spans[:, 2] - spans[:, 1]).cpu(), log_tokens.device)
    path = inside.pad(tags)  # [T of spans, S]
    log_prob = _span_entry(batch, beta, log_tokens, spans, path[0], before)
    log_prob = log_prob + _span_inside(batch, beta, spans, inside, path)
    if after is None:
        return log_prob
    return log_prob + _span_exit(batch, beta, spans, inside.last(path), after)


def sample(chain: Chain, n: int, generator: torch.Generator | None = None) -> Tensor:
    """Draw n independent paths of every sequence from the exact distribution, int64 [n, N]."""
    with torch.no_grad():
        batch = prepare(chain)
        beta, _ = backward(batch)
        tags = [draw(log_first(batch, beta).exp().expand(n, -1, -1), generator)]  # [n, B] at each position
        for t in range(1, len(beta)):
            # y[t] ~ P(y_t = . | y_t-1 = y[t-1])
            tags.append(draw(log_conditional(batch, beta, t, previous=tags[-1]).exp(), generator))
        return batch.layout.flatten(torch.stack(tags).movedim(1, -1)).T.contiguous()


def draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw from probabilities [..., L] by inverting their cumulative sum: never a label of probability 0."""
    cumulative = probabilities.cumsum(-1)
    device = probabilities.device if generator is None else generator.device
    uniform = torch.rand((*cumulative.shape[:-1], 1), generator=generator, dtype=cumulative.dtype, device=device)
    below = cumulative <= uniform.to(cumulative.device) * cumulative[..., -1:]
    return below.sum(-1).clamp(max=cumulative.shape[-1] - 1)


def _expected_surprise(log_prob: Tensor, rest: Tensor) -> Tensor:
    """Return sum_j p[j] * (rest[j] - log p[j]) over the last axis, 0 log 0 being 0."""
    return (log_prob.exp() * (rest - finite(log_prob))).sum(-1)


def _span_entry(
    batch: Batch, beta: Tensor, log_tokens: Tensor, spans: Tensor, label: Tensor, before: Tensor | None
) -> Tensor:
    """Return log P(first label of the span, a label of `before` left of it), [S]."""
    sequence, begin, _ = spans.unbind(-1)
    free = pick(log_tokens[begin, sequence], label)
    if before is None:
        return free
    left = log_tokens[begin - 1, sequence].masked_fill(~before, NEG_INF)  # [S, L]
    step = log_conditional(batch, beta, begin, sequence)  # [S, L, L]
    bound = logsumexp(left + pick(step, label.unsqueeze(-1).expand_as(left)))
    return torch.where(begin > 0, bound, free)


def _span_inside(batch: Batch, beta: Tensor, spans: Tensor, inside: Layout, path: Tensor) -> Tensor:
    """Return log P(later labels of the span | its first), [S]."""
    sequence, begin, _ = spans.unbind(-1)
    time = begin + torch.arange(len(path), device=path.device).unsqueeze(-1)  # [T of spans, S]
    time = torch.where(inside.active, time, begin)[1:]
    log_prob = pick(log_conditional(batch, beta, time, sequence, path[:-1]), path[1:])
    return torch.where(inside.active[1:], log_prob, 0.0).sum(0)


def _span_exit(batch: Batch, beta: Tensor, spans: Tensor, label: Tensor, after: Tensor) -> Tensor:
    """Return log P(a label of `after` follows | last label of the span), [S]."""
    sequence, _, end = spans.unbind(-1)
    has_next = end < batch.layout.lengths[sequence]
    time = torch.where(has_next, end, 0)
    following = log_conditional(batch, beta, time, sequence, label).masked_fill(~after, NEG_INF)
    return torch.where(has_next, logsumexp(following), 0.0)
