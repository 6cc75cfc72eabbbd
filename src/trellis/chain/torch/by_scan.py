"""The answers of the torch implementation, with the checks that the native side makes on the way."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trellis.chain._problems import BAD_CHAIN_SCORE, FORBIDDEN_PATH, NO_PATH, NOT_FINITE, TAG_RANGE
from trellis.chain.torch import _scan
from trellis.chain.torch.answers import Marginals
from trellis.chain.torch.batch import Batch


def log_partition(batch: Batch) -> Tensor:
    """Log Z of each sequence, which must have a path."""
    _check_finite(batch)
    value = _scan.log_partition(batch.ragged())
    dead = value == -torch.inf
    if bool(dead.any()):
        batch.check((NO_PATH, int(dead.nonzero()[0])))
    return value


def path_score(batch: Batch, tags: Tensor) -> Tensor:
    """Score of the given labels of each sequence."""
    _check_finite(batch)
    own = tags.reshape(-1)[batch.rows()]
    bad = (own < 0) | (own >= batch.num_labels)
    if bool(bad.any()):
        batch.check((TAG_RANGE, _sequence_of_token(batch, int(bad.nonzero()[0]))), tags)
    return _scan.path_score(batch.ragged(), own)


def gold_score(batch: Batch, tags: Tensor) -> Tensor:
    """The score of given labels, which must not be forbidden."""
    gold = path_score(batch, tags)
    forbidden = gold == -torch.inf
    if bool(forbidden.any()):
        batch.check((FORBIDDEN_PATH, int(forbidden.nonzero()[0])), tags)
    return gold


def marginals(batch: Batch, pairwise: bool) -> Marginals:
    """Probabilities of labels, and expected counts of transitions."""
    log_partition(batch)
    total, tokens, pairs = _scan.marginals(batch.ragged())
    lengths = batch.lengths()
    stops = lengths.cumsum(0)[lengths > 0].to(tokens.device)
    starts = stops - lengths[lengths > 0].to(tokens.device)
    ends = (tokens[starts].sum(0), tokens[stops - 1].sum(0))
    return Marginals(total, batch.by_token(tokens), pairs.sum(0), *ends, pairs if pairwise else None)


def nll_gradient(batch: Batch, tags: Tensor, grad: Tensor) -> list[Tensor]:
    """The gradient of ``(grad * nll).sum()`` without autograd: emissions by row, transitions, start, end, edges."""
    L, rows = batch.num_labels, batch.rows()
    labels, lengths = tags.reshape(-1)[rows], batch.lengths().to(grad.device)
    weights = grad.repeat_interleave(lengths)  # [N]
    _, tokens, pairs = _scan.marginals(batch.ragged())
    d_tokens = (tokens - one_hot(labels, L)) * weights[:, None]
    first = torch.ones_like(labels, dtype=torch.bool)
    first[1:] = torch.arange(len(lengths), device=grad.device).repeat_interleave(lengths).diff() != 0
    last = first.roll(-1)
    observed = one_hot(labels[:-1][~first[1:]] * L + labels[1:][~first[1:]], L * L).view(-1, L, L)
    d_pairs = (pairs - observed) * weights[~first][:, None, None]
    d_emissions = torch.zeros_like(batch.matrix).index_copy_(0, rows, d_tokens)
    found = [d_emissions, d_pairs.sum(0), d_tokens[first].sum(0), d_tokens[last].sum(0)]
    if batch.edges is not None:
        places = torch.from_numpy(batch.layout.edge_rows).to(grad.device)
        found.append(torch.zeros_like(batch.edges).view(-1, L, L).index_copy_(0, places, d_pairs))
    return found


def _sequence_of_token(batch: Batch, token: int) -> int:
    return int(np.searchsorted(batch.layout.offsets, token, side="right")) - 1


def _check_finite(batch: Batch) -> None:
    """No score is NaN or plus infinity."""
    if any(not bool((x < torch.inf).all()) for x in (batch.transitions, batch.start, batch.end)):
        batch.check((BAD_CHAIN_SCORE, 0))
    chain = batch.ragged()
    bad = ~(chain.emissions < torch.inf).all(dim=-1)  # [N]
    if chain.edges is not None:
        later = torch.ones_like(bad)
        offsets = torch.from_numpy(batch.layout.offsets).to(bad.device)
        later[offsets[:-1][offsets.diff() > 0]] = False
        bad[later] |= ~(chain.edges < torch.inf).flatten(1).all(dim=1)
    if bool(bad.any()):
        batch.check((NOT_FINITE, _sequence_of_token(batch, int(bad.nonzero()[0]))))
