"""Exact inference on linear chains for torch tensors, with gradients.

``ChainScores`` has the methods of ``trellis.chain.ChainScores``, and each is a function as well. CPU tensors go through
the native kernels: the gradient of the log partition is the marginals, so no graph is recorded. Every other device,
gradients of gradients, and gradients of answers other than log partition, score and loss go through a torch
implementation (``_scan``) that gives the same numbers.

By-token inputs and results have the layout of the emissions: flat ``(N,)`` for flat emissions ``(N, L)``, or padded
``(B, T)`` or ``(T, B)`` for emissions of that shape, with 0 (tags: -1) at places without a token.
"""

from torch import Tensor

from trellis.chain.tables import ChainTable
from trellis.chain.torch.answers import Decoded, Marginals, Paths, SegmentMarginals
from trellis.chain.torch.scores import ChainScores
from trellis.chain.torch.segments import SegmentScores

__all__ = [
    "ChainScores",
    "ChainTable",
    "Decoded",
    "Marginals",
    "Paths",
    "SegmentMarginals",
    "SegmentScores",
    "backward_table",
    "entropy",
    "forward_table",
    "kbest",
    "log_partition",
    "marginals",
    "nll",
    "sample",
    "score",
    "span_log_prob",
    "viterbi",
    "viterbi_table",
    "weighted_nll",
]

log_partition = ChainScores.log_partition
score = ChainScores.score
nll = ChainScores.nll
viterbi = ChainScores.viterbi
kbest = ChainScores.kbest
marginals = ChainScores.marginals
sample = ChainScores.sample
entropy = ChainScores.entropy
span_log_prob = ChainScores.span_log_prob
forward_table = ChainScores.forward_table
backward_table = ChainScores.backward_table
viterbi_table = ChainScores.viterbi_table


def weighted_nll(scores: ChainScores, tags: Tensor, weights: Tensor) -> Tensor:
    """``scores.nll(tags, weights=weights)``."""
    return scores.nll(tags, weights=weights)
