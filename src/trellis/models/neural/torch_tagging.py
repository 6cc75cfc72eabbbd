"""Scores of many sentences by a torch module: networks without a plan, and networks that are being trained."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import torch

from trellis import chain
from trellis.arrays import AnyArray, IntArray
from trellis.models.neural.network import Network, NetworkInputs
from trellis.models.neural.tagging import SMALL, by_length, gathered
from trellis.nn.lstm import one_thread


def scores_of(network: Network, inputs: NetworkInputs) -> chain.ChainScores:
    """The scores of encoded sentences, from which every answer comes."""
    network.eval()
    device, of_words, head = network.device, network.encoder.of_words, network.head

    def answer(examples: IntArray) -> tuple[AnyArray, AnyArray | None]:
        with torch.inference_mode():
            batch = inputs.batch(examples, network.parts, of_words=of_words)
            scores, edges = network.scores(batch.to(device))
        return scores.cpu().numpy(), None if edges is None else edges.cpu().numpy()

    if inputs.subwords is not None:  # a transformer takes most of the time, and it does compute on padding
        batches = inputs.subwords.by_length(device.type)
    else:
        batches = by_length(inputs, torch.get_num_threads())
    workers = min(torch.get_num_threads(), len(batches)) if device.type == "cpu" else 1
    small = workers < 2 and int(inputs.lengths.sum()) <= SMALL and inputs.subwords is None
    with one_thread() if small else nullcontext():
        emissions, edges = gathered(
            answer,
            inputs,
            head.num_scores,
            network.edges is not None,
            batches,
            workers,
            partial(torch.set_num_threads, 1),
        )
    return head.answers(emissions, inputs.lengths, edges)
