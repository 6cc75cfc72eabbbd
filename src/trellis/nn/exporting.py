"""The decoder of a CRF in plain tensor operations, for programs that export a module instead of running it.

`torch.jit.trace` would write out a loop once per time step of its example, so it gets the loop as a script;
`torch.export`, and `torch.onnx.export` with it, get a scan. Either way the length of a batch may vary afterwards.
The recursions are in log space.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trellis.chain.torch.library import is_exported, is_traced

if TYPE_CHECKING:
    from trellis.nn.crf import CRF


class ExportDecoder(nn.Module):
    """Emissions and a mask to the best labels, -1 where there is no token, their marginals, and the path's probability.

    Shapes are those of the CRF: ``(T, B, L)`` and ``(T, B)``, or with ``batch_first`` ``(B, T, L)`` and ``(B, T)``.
    """

    def __init__(self, crf: CRF) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The labels, the probability of each label at each token, and that of each sequence's path ``(B,)``.

        Nothing is learned through them.
        """
        first = self.crf.batch_first
        by_time, places = (emissions.transpose(0, 1), mask.transpose(0, 1)) if first else (emissions, mask)
        decode = _by_script() if is_traced() else _by_scan if is_exported() else by_loop
        scores = [given.detach() for given in (by_time, *self.crf.chain_parameters())]
        tags, marginals, total = decode(scores[0], places.bool(), *scores[1:])
        return (tags.t(), marginals.transpose(0, 1), total) if first else (tags, marginals, total)


def by_loop(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Labels ``(T, B)``, marginals ``(T, B, L)`` and probabilities ``(B,)``, one time step after another."""
    T = mask.shape[0]
    beta = end + torch.zeros_like(emissions[0])
    best = beta
    betas, bests = [beta], [best]
    for i in range(T - 1):
        t = T - 1 - i
        beta, best = _before(beta, best, emissions[t], mask[t], transitions)
        betas.append(beta)
        bests.append(best)
    rows = torch.cat([transitions, start.unsqueeze(0)])
    alpha, state, total = _begin(emissions[0])
    tags, marginals = [state], [beta]  # their types, for the script
    for t in range(T):
        alpha, state, total, tag, probabilities = _after(
            alpha, state, total, emissions[t], mask[t], betas[T - 1 - t], bests[T - 1 - t], rows
        )
        tags.append(tag)
        marginals.append(probabilities)
    return torch.stack(tags[1:]), torch.stack(marginals[1:]), total.exp()


def _by_scan(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for `torch.export`."""
    from torch._higher_order_ops.scan import scan

    def back(carry: tuple[Tensor, Tensor], given: tuple[Tensor, Tensor]) -> Any:
        here = tuple(x.clone() for x in carry)
        return _before(*carry, *given, transitions), here

    def ahead(carry: tuple[Tensor, Tensor, Tensor], given: tuple[Tensor, Tensor, Tensor, Tensor]) -> Any:
        found = _after(*carry, *given, rows)
        return found[:3], found[3:]

    last = end + torch.zeros_like(emissions[0])
    _, (beta, best) = scan(back, (last, last.clone()), (emissions, mask), dim=0, reverse=True)
    rows = torch.cat([transitions, start.unsqueeze(0)])
    (_, _, total), (tags, marginals) = scan(ahead, _begin(emissions[0]), (emissions, mask, beta, best), dim=0)
    return tags, marginals, total.exp()


@cache
def _by_script() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    with warnings.catch_warnings():  # scripts are deprecated, but nothing else keeps a loop in a trace
        warnings.simplefilter("ignore")
        return torch.jit.script(by_loop)


def _before(beta: Tensor, best: Tensor, e: Tensor, m: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """Beta and best of the token before, ``(B, L)``; unchanged if there is no token here."""
    here = m.unsqueeze(1)
    sums = _near_zero(((e + beta).unsqueeze(1) + transitions).logsumexp(2))
    largest = _near_zero(((e + best).unsqueeze(1) + transitions).amax(2))
    return torch.where(here, sums, beta), torch.where(here, largest, best)


def _begin(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Before the first token: alpha ``(B, L + 1)``, the row of the start scores, and log probability 0."""
    nowhere = torch.full_like(e, -torch.inf)
    alpha = torch.cat([nowhere, torch.zeros_like(e[:, :1])], 1)
    state = torch.zeros_like(e[:, 0]).long() + e.shape[1]
    return alpha, state, torch.zeros_like(e[:, 0])


def _after(
    alpha: Tensor, state: Tensor, total: Tensor, e: Tensor, m: Tensor, beta: Tensor, best: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Alpha, label and log probability after this place; its label and marginals."""
    here = m.unsqueeze(1)
    # Without labels from which the end cannot be reached: the largest of them would round away the others.
    ahead = (alpha.unsqueeze(2) + rows).logsumexp(1) + e
    own = _near_zero(torch.where(torch.isinf(beta), beta, ahead))
    row = rows[state] + e
    chosen = (row + best).argmax(1)
    scores = row + beta
    gain = scores.gather(1, chosen.unsqueeze(1)).squeeze(1) - scores.logsumexp(1)
    moved = torch.cat([own, torch.full_like(e[:, :1], -torch.inf)], 1)
    marginals = torch.where(here, (own + beta).softmax(1), torch.zeros_like(e))
    tag = torch.where(m, chosen, torch.full_like(chosen, -1))
    return (
        torch.where(here, moved, alpha),
        torch.where(m, chosen, state),
        torch.where(m, total + gain, total),
        tag,
        marginals,
    )


def _near_zero(values: Tensor) -> Tensor:
    """Less the largest of each row, which changes no difference between them."""
    largest = values.amax(1, keepdim=True)
    return values - torch.where(torch.isinf(largest), torch.zeros_like(largest), largest)
