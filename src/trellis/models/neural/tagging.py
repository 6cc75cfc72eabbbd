"""Emissions of many sentences: batches of similar length on all cores, results in the order of the input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import torch

from trellis import chain
from trellis.arrays import FloatArray, IntArray
from trellis.models.neural.inputs import EncodedSentences, ranges
from trellis.models.neural.network import Network
from trellis.nn.threads import one_thread
from trellis.ragged import later_tokens

_SMALL = 256  # tokens that are not worth a second thread
_FEWEST, _MOST = 1024, 8192  # tokens of a batch: larger ones share more words; beyond, a CPU gains nothing


def scores_of(network: Network, inputs: EncodedSentences) -> chain.ChainScores:
    """The scores of encoded sentences, from which every answer comes."""
    emissions, edges = token_scores(network, inputs)
    return network.head.answers(emissions, inputs.lengths, edges)


def token_scores(network: Network, inputs: EncodedSentences) -> tuple[FloatArray, FloatArray | None]:
    """``(N, L)`` for all tokens, in order, and ``(P, L, L)`` for all pairs of neighbours if the network scores these.

    They are double, so that probabilities add up as they do for every tagger.
    """
    L = network.head.num_scores
    result = np.empty((int(inputs.lengths.sum()), L))
    steps = None if network.edges is None else np.empty((len(later_tokens(inputs.lengths)), L, L))
    first_pairs = np.cumsum(np.maximum(inputs.lengths - 1, 0)) - np.maximum(inputs.lengths - 1, 0)
    network.eval()

    def answer(examples: IntArray) -> None:
        with torch.inference_mode():
            batch = inputs.batch(examples, network.parts, of_words=network.encoder.of_words)
            scores, edges = network.scores(batch.to(network.device))
        result[inputs.rows(examples)] = scores.cpu().numpy()
        if steps is not None and edges is not None:
            pairs = np.maximum(inputs.lengths[examples] - 1, 0)
            steps[ranges(first_pairs[examples], pairs)] = edges.cpu().numpy()

    batches = _batches(inputs, network.device)
    workers = min(torch.get_num_threads(), len(batches)) if network.device.type == "cpu" else 1
    if workers < 2:
        small = len(result) <= _SMALL and inputs.subwords is None
        with one_thread() if small else nullcontext():
            for examples in batches:
                answer(examples)
        return result, steps
    # One small batch does not keep several cores busy; several batches at a time do.
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(answer, batches))
    return result, steps


def _batches(inputs: EncodedSentences, device: torch.device) -> list[IntArray]:
    """Sentences of similar length together, longest first."""
    if inputs.subwords is not None:  # a transformer takes most of the time, and it does compute on padding
        return inputs.subwords.by_length(device.type)
    order = np.argsort(-inputs.lengths, kind="stable")
    taken = np.cumsum(inputs.lengths[order])
    share = int(taken[-1]) // (2 * torch.get_num_threads()) if len(taken) else 0  # at least two batches per core
    cuts = np.flatnonzero(np.diff(taken // min(max(share, _FEWEST), _MOST))) + 1
    return [own for own in np.split(order, cuts) if len(own)]
