"""Emissions of many sentences: batches of similar length on all cores, results in the order of the input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from trellis import chain
from trellis.arrays import FloatArray, IntArray
from trellis.models.neural.inputs import EncodedSentences
from trellis.models.neural.network import Network

_FEWEST, _MOST = 1024, 8192  # tokens of a batch: larger ones share more words; beyond, a CPU gains nothing


def scores_of(network: Network, inputs: EncodedSentences) -> chain.ChainScores:
    """The scores of encoded sentences, from which every answer comes."""
    transitions, start, end = (x.detach().cpu().numpy() for x in network.head.chain())
    return chain.ChainScores(emissions(network, inputs, len(start)), inputs.lengths, transitions, start, end)


def emissions(network: Network, inputs: EncodedSentences, num_tags: int) -> FloatArray:
    """``(N, L)`` for all tokens, in order; double, so that probabilities add up as they do for every tagger."""
    result = np.empty((int(inputs.lengths.sum()), num_tags))
    network.eval()

    def answer(examples: IntArray) -> None:
        with torch.inference_mode():
            batch = inputs.batch(examples, network.parts, of_words=network.encoder.of_words)
            scores = network(batch.to(network.device))
        result[inputs.rows(examples)] = scores.cpu().numpy()

    batches = _batches(inputs, network.device)
    workers = min(torch.get_num_threads(), len(batches)) if network.device.type == "cpu" else 1
    if workers < 2:
        for examples in batches:
            answer(examples)
        return result
    # One small batch does not keep several cores busy; several batches at a time do.
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(answer, batches))
    return result


def _batches(inputs: EncodedSentences, device: torch.device) -> list[IntArray]:
    """Sentences of similar length together, longest first."""
    if inputs.subwords is not None:  # a transformer takes most of the time, and it does compute on padding
        return inputs.subwords.by_length(device.type)
    order = np.argsort(-inputs.lengths, kind="stable")
    taken = np.cumsum(inputs.lengths[order])
    share = int(taken[-1]) // (2 * torch.get_num_threads()) if len(taken) else 0  # at least two batches per core
    cuts = np.flatnonzero(np.diff(taken // min(max(share, _FEWEST), _MOST))) + 1
    return [own for own in np.split(order, cuts) if len(own)]
