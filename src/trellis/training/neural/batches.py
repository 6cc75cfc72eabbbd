"""Which sentences go together: batches of similar length, within a budget of tokens, in random order.

A pure function of the lengths, the settings, the epoch and the window: a resumed training needs to know only how many
batches of the epoch are done. Examples that are all in memory are one window; of a streamed corpus, there are several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trellis.arrays import IntArray
from trellis.training.neural.settings import TrainingSettings

_JITTER = 0.1
"""Lengths are compared as if they were up to this much longer, so that batches differ between epochs."""


def batches_of(lengths: IntArray, settings: TrainingSettings, epoch: int, window: int = 0) -> list[IntArray]:
    """The batches of one window of an epoch (both from 0), each the indices of its examples; every one is in one."""
    rng = np.random.default_rng([settings.seed, epoch, window])
    by_length = np.argsort(lengths * (1 + _JITTER * rng.random(len(lengths))) + rng.random(len(lengths)))
    batches = [by_length[begin:end] for begin, end in _cuts(lengths[by_length], settings)]
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a training will be; exact if there is one window, and an estimate if there are several.

    In the second epoch of a streamed corpus, other sentences share a window than in the first.
    """

    steps: int
    """Of the whole training."""
    batches: list[int]
    """Of each epoch."""


def forecast(windows: Iterable[IntArray], settings: TrainingSettings) -> Forecast:
    """The steps of a training; batches are drawn again in each epoch, so their number may differ."""
    steps, batches = 0, [0] * settings.passes
    for number, lengths in enumerate(windows):
        for epoch in range(settings.passes):
            count = len(batches_of(lengths, settings, epoch, number))
            batches[epoch] += count
            steps += -(-count // settings.accumulate)  # the last step of a window may have fewer batches
    return Forecast(steps, batches)


def _cuts(lengths: IntArray, settings: TrainingSettings) -> Iterator[tuple[int, int]]:
    """Begin and end of each batch: as many as fit, `longest * examples <= batch_tokens`, and at least one."""
    begin = 0
    while begin < len(lengths):
        window = lengths[begin : begin + settings.batch_size]
        padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        end = begin + max(1, int(np.searchsorted(padded, settings.batch_tokens, side="right")))
        yield begin, end
        begin = end
