"""Exact inference on linear chains: from scores to answers, on ragged batches of NumPy arrays.

Make a ``ChainScores`` and ask it::

    >>> import numpy as np
    >>> from trellis import chain
    >>> scores = chain.ChainScores(
    ...     emissions=np.log([[0.5, 0.4, 0.7], [0.5, 0.6, 0.3], [0.5, 0.4, 0.7]]),
    ...     lengths=[3],
    ...     transitions=np.log([[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]),
    ...     start=np.log([0.2, 0.4, 0.4]),
    ... )
    >>> float(np.exp(scores.log_partition()[0]).round(6))
    0.130218
    >>> scores.viterbi().tags.tolist()
    [2, 2, 2]

Every question is a function as well: ``chain.viterbi(scores)`` is ``scores.viterbi()``. ``trellis.chain.torch`` has the
same for tensors, with gradients. ``SegmentScores`` answers for segments instead of tokens.
"""

import numpy.typing as _npt

from trellis.arrays import FloatArray as _FloatArray
from trellis.chain.answers import Decoded, Marginals, Paths
from trellis.chain.runtime import get_num_threads, set_num_threads
from trellis.chain.scores import ChainScores
from trellis.chain.segments import Segmented, SegmentMarginals, SegmentPaths, SegmentScores
from trellis.chain.tables import ChainTable

__all__ = [
    "ChainScores",
    "ChainTable",
    "Decoded",
    "Marginals",
    "Paths",
    "SegmentMarginals",
    "SegmentPaths",
    "SegmentScores",
    "Segmented",
    "backward_table",
    "entropy",
    "forward_table",
    "get_num_threads",
    "kbest",
    "log_partition",
    "marginals",
    "nll",
    "sample",
    "score",
    "set_num_threads",
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


def weighted_nll(scores: ChainScores, tags: _npt.ArrayLike, weights: _npt.ArrayLike) -> _FloatArray:
    """``scores.nll(tags, weights=weights)``."""
    return scores.nll(tags, weights=weights)
