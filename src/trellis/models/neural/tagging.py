"""Scores of many sentences: batches of similar length on all cores, results in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from trellis import chain
from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.models.neural.inference import Inference
from trellis.models.neural.inputs import EncodedSentences, ranges
from trellis.ragged import later_tokens

SMALL = 256
"""Tokens that are not worth a second thread."""
_FEWEST, _MOST = 1024, 8192  # tokens of a batch: larger ones share more words; beyond, a CPU gains nothing

Answer = Callable[[IntArray], tuple[AnyArray, AnyArray | None]]
"""Emissions ``(N, L)`` of the sentences with these numbers, and scores of their transitions by place, or None."""


def scores_of(network: Inference, inputs: EncodedSentences) -> chain.ChainScores:
    """The scores of encoded sentences, from which every answer comes."""
    threads, plan = chain.get_num_threads(), network.plan
    batches = by_length(inputs, threads)
    workers = min(threads, len(batches))
    inside = 1 if workers > 1 or int(inputs.lengths.sum()) <= SMALL else threads

    def answer(examples: IntArray) -> tuple[AnyArray, AnyArray | None]:
        return network.scores(inputs.token_ids(examples, plan.parts, of_words=plan.of_words), inside)

    emissions, edges = gathered(answer, inputs, plan.labels, bool(plan.edges), batches, workers)
    return chain.ChainScores(emissions, inputs.lengths, *network.chain, edges)


def gathered(
    answer: Answer,
    inputs: EncodedSentences,
    L: int,
    edges: bool,
    batches: Sequence[IntArray],
    workers: int,
    prepare: Callable[[], None] | None = None,
) -> tuple[FloatArray, FloatArray | None]:
    """``(N, L)`` for all tokens, in order, and ``(P, L, L)`` for all pairs of neighbours if `edges` are wanted.

    They are double, so that probabilities add up as they do for every tagger. Several workers are threads; each of them
    calls `prepare` first.
    """
    result = np.empty((int(inputs.lengths.sum()), L))
    steps = np.empty((len(later_tokens(inputs.lengths)), L, L)) if edges else None
    pairs = np.maximum(inputs.lengths - 1, 0)
    first_pairs = np.cumsum(pairs) - pairs

    def fill(examples: IntArray) -> None:
        emissions, own = answer(examples)
        result[inputs.rows(examples)] = emissions
        if steps is not None and own is not None:
            steps[ranges(first_pairs[examples], pairs[examples])] = own

    if workers < 2:
        for examples in batches:
            fill(examples)
    else:  # one small batch does not keep several cores busy; several batches at a time do
        with ThreadPoolExecutor(workers, initializer=prepare) as pool:
            try:
                list(pool.map(fill, batches))
            except RuntimeError as error:
                if "start new thread" not in str(error):
                    raise
                for examples in batches:  # the system starts no more threads
                    fill(examples)
    return result, steps


def by_length(inputs: EncodedSentences, threads: int) -> list[IntArray]:
    """Sentences of similar length together, longest first."""
    order = np.argsort(-inputs.lengths, kind="stable")
    taken = np.cumsum(inputs.lengths[order])
    share = int(taken[-1]) // (2 * threads) if len(taken) else 0  # at least two batches per core
    cuts = np.flatnonzero(np.diff(taken // min(max(share, _FEWEST), _MOST))) + 1
    return [own for own in np.split(order, cuts) if len(own)]
