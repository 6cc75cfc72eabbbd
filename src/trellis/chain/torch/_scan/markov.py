"""The backward recursion, and the Markov chain that it defines."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trellis.chain.torch._scan.batch import Batch

NEG_INF = -math.inf


def finite(x: Tensor) -> Tensor:
    """Replace minus infinity by 0, so that subtracting it changes nothing and makes no NaN."""
    return x.masked_fill(x == NEG_INF, 0.0)


def logsumexp(x: Tensor) -> Tensor:
    """Log-sum-exp over the last axis whose derivatives of any order are finite under minus infinity."""
    shift = finite(x.detach().amax(-1, keepdim=True))
    total = (x - shift).exp().sum(-1)  # at least 1, or 0 when every term is minus infinity
    return torch.where(total > 0, torch.where(total > 0, total, 1.0).log() + shift.squeeze(-1), NEG_INF)


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
    batch: Batch,
    beta: Tensor,
    t: int | slice | Tensor,
    b: Tensor | slice = slice(None),
    previous: Tensor | None = None,
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
