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

``trellis.chain.torch`` has the same for tensors, with gradients. ``SegmentScores`` answers for segments instead of
tokens.
"""

from trellis.chain.scores import ChainScores, Decoded, Marginals, Paths, get_num_threads, set_num_threads
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
    "get_num_threads",
    "set_num_threads",
]
