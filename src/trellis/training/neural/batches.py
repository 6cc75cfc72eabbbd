"""Which sentences go together: batches of similar length, within a budget of tokens, in random order.

A pure function of the lengths, the settings and the epoch: a resumed training needs to know only how many batches of
the epoch are done.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.arrays import IntArray
from trellis.training.neural.settings import TrainingSettings

_JITTER = 0.1
"""Lengths are compared as if they were up to this much longer, so that batches differ between epochs."""


def batches_of(lengths: IntArray, settings: TrainingSettings, epoch: int) -> list[IntArray]:
    """The batches of one epoch (from 0), each the indices of its examples; every example is in exactly one."""
    rng = np.random.default_rng([settings.seed, epoch])
    by_length = np.argsort(lengths * (1 + _JITTER * rng.random(len(lengths))) + rng.random(len(lengths)))
    batches = [by_length[begin:end] for begin, end in _cuts(lengths[by_length], settings)]
    return [batches[i] for i in rng.permutation(len(batches))]


def steps_of(batches: int, settings: TrainingSettings) -> int:
    """How many steps this many batches make: the last one of an epoch may have fewer batches than `accumulate`."""
    return -(-batches // settings.accumulate)


def count_steps(lengths: IntArray, settings: TrainingSettings) -> int:
    """The steps of a whole training; batches are drawn again in each epoch, so their number may differ."""
    counts = (len(batches_of(lengths, settings, epoch)) for epoch in range(settings.passes))
    return sum(steps_of(count, settings) for count in counts)


def _cuts(lengths: IntArray, settings: TrainingSettings) -> Iterator[tuple[int, int]]:
    """Begin and end of each batch: as many as fit, `longest * examples <= batch_tokens`, and at least one."""
    begin = 0
    while begin < len(lengths):
        window = lengths[begin : begin + settings.batch_size]
        padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        end = begin + max(1, int(np.searchsorted(padded, settings.batch_tokens, side="right")))
        yield begin, end
        begin = end
