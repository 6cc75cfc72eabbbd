"""Exact inference on linear chains: from scores to answers, on ragged batches of NumPy arrays.

Make a ``ChainScores`` and ask::

    >>> import numpy as np
    >>> from trellis import chain
    >>> scores = chain.ChainScores(
    ...     emissions=np.log([[0.5, 0.4, 0.7], [0.5, 0.6, 0.3], [0.5, 0.4, 0.7]]),
    ...     lengths=[3],
    ...     transitions=np.log([[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]),
    ...     start=np.log([0.2, 0.4, 0.4]),
    ... )
    >>> float(np.exp(chain.log_partition(scores)[0]).round(6))
    0.130218
    >>> chain.viterbi(scores).tags.tolist()
    [2, 2, 2]

``trellis.chain.torch`` has the same operations for tensors, with gradients.
"""

from trellis.chain.arrays import (
    Decoded,
    Marginals,
    Paths,
    entropy,
    kbest,
    log_partition,
    marginals,
    sample,
    score,
    span_log_prob,
    viterbi,
    weighted_nll,
)
from trellis.chain.runtime import get_num_threads, set_num_threads
from trellis.chain.scores import ChainScores

__all__ = [
    "ChainScores",
    "Decoded",
    "Marginals",
    "Paths",
    "entropy",
    "get_num_threads",
    "kbest",
    "log_partition",
    "marginals",
    "sample",
    "score",
    "set_num_threads",
    "span_log_prob",
    "viterbi",
    "weighted_nll",
]
