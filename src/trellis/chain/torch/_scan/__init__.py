"""Chain inference in plain torch: any device, differentiable any number of times.

The native kernels answer for CPU tensors; this package answers for every other device and for gradients of
gradients, and is an independent check on the kernels. It loops over time steps only.

Nearly everything follows from one backward recursion and the Markov chain it defines, where A[t] are the scores of
transitions into position t, those of the chain plus its edges:

    beta[T-1, i] = end[i]
    beta[t-1, i] = log sum_j exp(A[t, i, j] + e[t, j] + beta[t, j])
    log Z        = log sum_j exp(start[j] + e[0, j] + beta[0, j])

    log P(y_0 = j)             = start[j] + e[0, j] + beta[0, j] - log Z
    log P(y_t = j | y_t-1 = i) = A[t, i, j] + e[t, j] + beta[t, j] - beta[t-1, i]

Marginals push the first distribution through the conditionals, entropy is the sum of the conditionals'
entropies, samples are drawn from one conditional after another, and the loss of a tag is minus its
conditional log probability. No such sum has terms of opposite sign, so nothing cancels; beta is kept near
zero by taking its maximum out at each step, so that float32 is enough for long sequences.

Letters: B sequences, T positions of the longest, N tokens, P pairs of neighbours, L labels, S spans, K paths. Tokens
arrive flat, one sequence after another, and are padded to time-major [T, B, L] inside. Minus infinity forbids;
gradients of log Z and of probabilities with respect to a forbidden score are zero. An empty sequence has one path, the
empty one, with score 0. half and bfloat16 are computed in float32.
"""

from trellis.chain.torch._scan.answers import entropy, log_partition, marginals, sample, span_log_prob, weighted_nll
from trellis.chain.torch._scan.batch import Chain
from trellis.chain.torch._scan.best import kbest, path_score, viterbi

__all__ = [
    "Chain",
    "entropy",
    "kbest",
    "log_partition",
    "marginals",
    "path_score",
    "sample",
    "span_log_prob",
    "viterbi",
    "weighted_nll",
]
