"""The score of a path, and the paths of greatest score."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trellis.chain.torch._scan.batch import Batch, Chain, pad, prepare
from trellis.chain.torch._scan.markov import NEG_INF, finite, pick


def path_score(chain: Chain, tags: Tensor) -> Tensor:
    """Score of the given path of each sequence, [B]."""
    batch = pad(chain)
    return _path_score(batch, batch.layout.pad(tags))


def viterbi(chain: Chain) -> tuple[Tensor, Tensor]:
    """Best path of each sequence, flat [N], and its score [B]; ties go to the smallest label id."""
    batch = prepare(chain)
    with torch.no_grad():
        last, pointers = _viterbi_forward(batch)
        tags = _follow(last, pointers, batch.layout.active).squeeze(-1)  # [T, B]
    return batch.layout.flatten(tags), _path_score(batch, tags)


def kbest(chain: Chain, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k best distinct paths as (counts, scores, paths).

    `counts[B]` is the number of paths found, fewer than k if fewer exist; `scores` holds theirs flat,
    descending inside a sequence; `paths` holds for each sequence its paths one after another.
    """
    batch = prepare(chain)
    T, _, L = batch.shape
    K = k if T * math.log(L) > 50 else min(k, L**T)  # there are L ** T paths
    scores, slots, pointers = _kbest_forward(batch, K)  # [B, K] twice
    active = batch.layout.active
    tags = _follow(slots, pointers, active) // K  # [T, B, K]
    found = scores > NEG_INF  # [B, K]
    paths = tags.permute(1, 2, 0)[found.unsqueeze(-1) & active.T.unsqueeze(1)]
    return found.sum(-1), scores[found], paths


def _path_score(batch: Batch, tags: Tensor) -> Tensor:
    """Score of padded tags [T, B]."""
    active = batch.layout.active
    last = batch.layout.last(tags)
    emitted = torch.where(active, pick(batch.emissions, tags), 0.0).sum(0)
    moved = torch.where(active[1:], _moves(batch, tags), 0.0).sum(0)
    return emitted + moved + torch.where(active[0], batch.start[tags[0]] + batch.end[last], 0.0)


def _moves(batch: Batch, tags: Tensor) -> Tensor:
    """Score of each transition of padded tags, [T - 1, B]."""
    if batch.edges is None:
        return batch.transitions[tags[:-1], tags[1:]]
    return pick(batch.steps_from(tags[:-1], slice(1, None)), tags[1:])


def _viterbi_forward(batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """Return the best last label [B, 1] and for each later position the best previous label [B, L]."""
    best = batch.start + batch.emissions[0]
    pointers = []
    for t in range(1, batch.shape[0]):
        # best[t, j] = e[t, j] + max_i (best[t-1, i] + A[t, i, j])
        value, pointer = (best.unsqueeze(-1) + batch.steps(t)).max(1)
        value = value + batch.emissions[t]
        value = value - finite(value.amax(-1, keepdim=True))
        best = torch.where(batch.layout.active[t].unsqueeze(-1), value, best)
        pointers.append(pointer)
    return (best + batch.end).argmax(-1, keepdim=True), pointers


def _kbest_forward(batch: Batch, K: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return scores and last slots of the K best paths, [B, K], and pointers [B, L * K] of later positions.

    Slot j * K + r is the path of rank r among those that end in label j; its pointer is the slot before it.
    """
    T, B, L = batch.shape
    first = (batch.start + batch.emissions[0]).unsqueeze(-1)
    best = torch.cat([first, first.new_full((B, L, K - 1), NEG_INF)], -1)  # [B, L, K]
    shifts, pointers = [best.new_zeros(B, 1)], []
    for t in range(1, T):
        # best[t, j, :] = e[t, j] + the K largest of best[t-1, i, r] + A[t, i, j] over i and r
        moves = (best.unsqueeze(-1) + batch.steps(t).unsqueeze(-2)).flatten(1, 2).transpose(1, 2)
        value, slot = (part[..., :K] for part in moves.sort(stable=True, dim=-1, descending=True))
        value = value + batch.emissions[t].unsqueeze(-1)
        shift = finite(value.detach().amax((1, 2)).unsqueeze(-1))
        active = batch.layout.active[t].unsqueeze(-1)
        best = torch.where(active.unsqueeze(-1), value - shift.unsqueeze(-1), best)
        shifts.append(torch.where(active, shift, 0.0))
        pointers.append(slot.flatten(1))
    final = (best + batch.end.unsqueeze(-1)).flatten(1)
    scores, slots = (part[:, :K] for part in final.sort(stable=True, dim=-1, descending=True))
    empty = torch.full((K,), NEG_INF, dtype=scores.dtype, device=scores.device)
    empty[:1] = 0.0
    scores = torch.where(batch.layout.active[0].unsqueeze(-1), scores + torch.stack(shifts).sum(0), empty)
    return scores, slots, pointers


def _follow(last: Tensor, pointers: list[Tensor], active: Tensor) -> Tensor:
    """Trace pointers back from the last states [B, K] to the states at every position, [T, B, K]."""
    state = last
    states = [state]
    for t in range(len(pointers), 0, -1):
        # state[t-1] = pointer[t][state[t]], and padding only repeats the last state
        state = torch.where(active[t].unsqueeze(-1), pointers[t - 1].gather(1, state), state)
        states.append(state)
    return torch.stack(states[::-1])
