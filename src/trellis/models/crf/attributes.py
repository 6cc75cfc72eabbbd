"""The attributes of a feature CRF: their numbers, and which pairs (attribute, label) have a weight.

Several processes find attributes in their own sentences, and give them the numbers that one process would give them
in the whole corpus: each sentence has its place among those of all processes, and attributes are numbered in the
order of their first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trellis.arrays import FloatArray, IntArray
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.models.crf.weights import Observed
from trellis.training.process_group import ProcessGroup

PairTable = tuple[IntArray, npt.NDArray[np.uint16]]
"""Where the labels of an attribute end, and the labels."""
CountedPairs = tuple[IntArray, npt.NDArray[np.uint16], FloatArray]
"""The same, and how often an attribute occurs with a label."""


@dataclass(frozen=True, slots=True)
class FeatureSelection:
    """Which features get a weight: those that occur, often enough, unless all are asked for."""

    min_freq: float
    all_states: bool
    all_transitions: bool
    transitions: bool
    constraints: bool
    all_edges: bool = False
    pairs: int | None = None
    """With order 2: at most this many pairs of labels have their own state."""


class FirstUses(NamedTuple):
    """Where attributes are used first: a group of templates, and in it a sentence, by its place among all."""

    groups: IntArray
    sentences: IntArray


def observe(
    group: ProcessGroup, extractor: Extractor, inputs: Sequence[Any], index: AttributeIndex, edges: AttributeIndex
) -> tuple[Observed, AttributeIndex, AttributeIndex]:
    """The sentences as attributes of tokens and of steps, and the indexes of these, which grow.

    Sentence i of process r counts as sentence ``i * processes + r``, as `ProcessGroup.share` deals them out.
    """
    known = len(index), len(edges)
    observed = Observed.of(extractor, inputs, index, edges, grow=True)
    if group.count == 1:
        return observed, index, edges

    def uses(data: Compiled, index: AttributeIndex, known: int) -> FirstUses:
        groups, sentences = (array[known:] for array in data.first_uses(len(index)))
        return FirstUses(groups, sentences * group.count + group.rank)

    index, _ = joined_index(group, index, uses(observed.tokens, index, known[0]), known[0])
    if observed.steps is not None:
        edges, _ = joined_index(group, edges, uses(observed.steps, edges, known[1]), known[1])
    del observed  # before it is made again, with the numbers that all processes share
    return Observed.of(extractor, inputs, index, edges), index, edges


def joined_index(
    group: ProcessGroup, index: AttributeIndex, uses: FirstUses, known: int
) -> tuple[AttributeIndex, IntArray]:
    """The attributes of all processes in the order of their first use, after the `known` first of the index.

    Also the numbers that the further attributes of this process have now.
    """
    numbers = np.empty(len(index) - known, dtype=np.int64)
    if group.count == 1:
        order = np.lexsort((np.arange(len(numbers)), uses.sentences, uses.groups))
        numbers[order] = known + np.arange(len(numbers))
        return AttributeIndex(index.native.select(np.concatenate([np.arange(known), known + order]))), numbers
    names, ends = index.native.strings()
    begin = int(ends[known - 1]) if known else 0
    stops = ends[known:].astype(np.int64) - begin
    gathered = group.gather((names[begin:].tobytes(), stops, *uses))
    templates, sentences = (np.concatenate([found[i] for found in gathered]) for i in (2, 3))
    ranks = np.repeat(np.arange(len(gathered)), [len(found[1]) for found in gathered])
    positions = np.concatenate([np.arange(len(found[1])) for found in gathered])
    native = index.native.select(np.arange(known))
    for i in np.lexsort((positions, ranks, sentences, templates)).tolist():
        text, text_ends = gathered[ranks[i]][:2]
        at = positions[i]
        number = native.add(text[text_ends[at - 1] if at else 0 : text_ends[at]])  # the old one, if it is there already
        if ranks[i] == group.rank:
            numbers[at] = number
    return AttributeIndex(native), numbers


def frequent_pairs(group: ProcessGroup, keys: IntArray, counts: FloatArray, min_freq: float) -> IntArray:
    """The pairs, each one number, that occur in any process, and often enough in all of them together."""
    if group.count > 1:
        gathered = group.gather((keys, counts))
        keys, places = np.unique(np.concatenate([keys for keys, _ in gathered]), return_inverse=True)
        counts = np.zeros(len(keys))
        np.add.at(counts, places, np.concatenate([counts for _, counts in gathered]))
    return keys[(counts > 0) & (counts >= min_freq)]


def pair_table(keys: IntArray, width: int, attributes: int) -> PairTable:
    """Pairs in order, each ``attribute * width + label``, as a table."""
    counts = np.bincount(keys // width, minlength=attributes)
    return np.cumsum(counts), (keys % width).astype(np.uint16)
