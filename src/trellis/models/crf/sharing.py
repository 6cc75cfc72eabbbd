"""A feature CRF that several processes train, each with its own sentences: which features all of them have together.

Each sentence has a number among those of all processes, so that a corpus that is dealt out sentence by sentence
(`Team.share`) gives the features, with the same numbers, that one process would find in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trellis.arrays import FloatArray, IntArray
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.models.crf.weights import Observed, owners_of
from trellis.training.leaves import leaves_of, numbers_of
from trellis.training.processes import Team

PairTable = tuple[IntArray, npt.NDArray[np.uint16]]
"""Where the labels of an attribute end, and the labels."""
CountedPairs = tuple[IntArray, npt.NDArray[np.uint16], FloatArray]
"""The same, and how often an attribute occurs with a label."""


def numbered(
    team: Team,
    extractor: Extractor,
    inputs: Sequence[Any],
    index: AttributeIndex,
    edges: AttributeIndex,
    leaves: int,
) -> tuple[Observed, AttributeIndex, AttributeIndex]:
    """The sentences as attributes of tokens and of steps, and the indexes of these, which grow."""
    known = len(index), len(edges)
    observed = Observed.of(extractor, inputs, index, edges, grow=True)
    if team.count == 1:
        return observed, index, edges
    numbers = numbers_of(leaves_of(team.rank, team.count, leaves), leaves, len(inputs))

    def uses(data: Compiled, index: AttributeIndex, known: int) -> FirstUses:
        groups, sentences = (array[known:] for array in data.first_uses(len(index)))
        return FirstUses(groups, numbers[sentences])

    index, _ = joined_index(team, index, uses(observed.tokens, index, known[0]), known[0])
    if observed.steps is not None:
        edges, _ = joined_index(team, edges, uses(observed.steps, edges, known[1]), known[1])
    del observed  # before it is made again, with the numbers that all processes share
    return Observed.of(extractor, inputs, index, edges), index, edges


class FirstUses(NamedTuple):
    """Where attributes are used first: a group of templates, and in it a sentence, by its number among all."""

    groups: IntArray
    sentences: IntArray


def joined_index(team: Team, index: AttributeIndex, uses: FirstUses, known: int) -> tuple[AttributeIndex, IntArray]:
    """The attributes of all processes in the order of their first use, after those that were known before.

    Also the numbers that those of this process have now.
    """
    numbers = np.empty(len(index) - known, dtype=np.int64)
    if team.count == 1:
        order = np.lexsort((np.arange(len(numbers)), uses.sentences, uses.groups))
        numbers[order] = known + np.arange(len(numbers))
        return AttributeIndex(index.native.select(np.concatenate([np.arange(known), known + order]))), numbers
    names, ends = index.native.strings()
    begin = int(ends[known - 1]) if known else 0
    stops = ends[known:].astype(np.int64) - begin
    parts = team.gather((names[begin:].tobytes(), stops, *uses))
    group, sentence = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
    rank = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    own = np.concatenate([np.arange(len(part[1])) for part in parts])
    native = index.native.select(np.arange(known))
    for place in np.lexsort((own, rank, sentence, group)).tolist():
        text, ends_of = parts[rank[place]][:2]
        at = own[place]
        number = native.add(text[ends_of[at - 1] if at else 0 : ends_of[at]])  # the old one, if it is there already
        if rank[place] == team.rank:
            numbers[at] = number
    return AttributeIndex(native), numbers


def common_pairs(team: Team, own: CountedPairs, width: int, min_freq: float) -> PairTable:
    """The pairs (attribute, label) that occur in any process, often enough in all of them together."""
    ends, labels, counts = own
    return pair_table(common_keys(team, owners_of(ends) * width + labels, counts, min_freq), width, len(ends))


def common_keys(team: Team, keys: IntArray, counts: FloatArray, min_freq: float) -> IntArray:
    """The same for pairs that are each one number."""
    if team.count > 1:
        parts = team.gather((keys, counts))
        keys, places = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
        counts = np.zeros(len(keys))
        np.add.at(counts, places, np.concatenate([counts for _, counts in parts]))
    return keys[(counts > 0) & (counts >= min_freq)]


def pair_table(keys: IntArray, width: int, attributes: int) -> PairTable:
    """Pairs in order, each ``attribute * width + label``, as a table."""
    counts = np.bincount(keys // width, minlength=attributes)
    return np.cumsum(counts), (keys % width).astype(np.uint16)
