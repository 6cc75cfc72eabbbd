"""Exact inference on linear chains for torch tensors, with gradients.

The operations are those of ``trellis.chain``. CPU tensors go through the native kernels: the gradient of the log
partition is the marginals, so nothing is taped. Every other device, gradients of gradients, and gradients of answers
other than log partition, score and loss go through a torch implementation (``_scan``) that gives the same numbers.

By-token inputs and results have the layout of the emissions: flat ``(N,)`` for flat emissions ``(N, L)``, or padded
``(B, T)`` or ``(T, B)`` for emissions of that shape, where places of no token hold 0 (tags: -1).
"""

from trellis.chain.torch.ops import (
    Decoded,
    Marginals,
    Paths,
    entropy,
    kbest,
    log_partition,
    marginals,
    nll,
    sample,
    score,
    span_log_prob,
    viterbi,
    weighted_nll,
)
from trellis.chain.torch.scores import ChainScores

__all__ = [
    "ChainScores",
    "Decoded",
    "Marginals",
    "Paths",
    "entropy",
    "kbest",
    "log_partition",
    "marginals",
    "nll",
    "sample",
    "score",
    "span_log_prob",
    "viterbi",
    "weighted_nll",
]
