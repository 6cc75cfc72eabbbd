"""Exact inference on linear chains for torch tensors, with gradients.

``ChainScores`` has the methods of ``trellis.chain.ChainScores``. CPU tensors go through the native kernels: the
gradient of the log partition is the marginals, so no graph is recorded. Every other device, gradients of gradients, and
gradients of answers other than log partition, score and loss go through a torch implementation (``scan``) that gives
the same numbers.

By-token inputs and results have the layout of the emissions: flat ``(N,)`` for flat emissions ``(N, L)``, or padded
``(B, T)`` or ``(T, B)`` for emissions of that shape, with 0 (tags: -1) at places without a token.
"""

from trellis.chain.scores import Decoded, Marginals, Paths
from trellis.chain.segments import SegmentMarginals
from trellis.chain.tables import ChainTable
from trellis.chain.torch.scores import ChainScores
from trellis.chain.torch.segments import SegmentScores

__all__ = ["ChainScores", "ChainTable", "Decoded", "Marginals", "Paths", "SegmentMarginals", "SegmentScores"]
