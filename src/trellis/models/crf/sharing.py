"""A feature CRF that several processes train, each with its own sentences: which features all of them have together.

Sentence i of process r counts as sentence ``i * processes + r`` of one corpus, so that a corpus that is dealt out
sentence by sentence gives the features, with the same numbers, that one process would find in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis.arrays import FloatArray, IntArray
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.models.crf.weights import Observed, owners_of
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
) -> tuple[Observed, AttributeIndex, AttributeIndex]:
    """The sentences as attributes of tokens and of steps, and the indexes of these, which grow."""
    known = len(index), len(edges)
    observed = Observed.of(extractor, inputs, index, edges, grow=True)
    if team.count == 1:
        return observed, index, edges
    index = _joined(team, index, observed.tokens, known[0])
    edges = edges if observed.steps is None else _joined(team, edges, observed.steps, known[1])
    del observed  # before it is made again, with the numbers that all processes share
    return Observed.of(extractor, inputs, index, edges), index, edges


def _joined(team: Team, index: AttributeIndex, data: Compiled, known: int) -> AttributeIndex:
    """The attributes of all processes in the order of their first use, after those that were known before."""
    names, ends = index.native.strings()
    begin = int(ends[known - 1]) if known else 0
    groups, sentences = (array[known:] for array in data.first_uses(len(index)))
    stops = ends[known:].astype(np.int64) - begin
    parts = team.gather((names[begin:].tobytes(), stops, groups, sentences))
    group, sentence = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
    rank = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    own = np.concatenate([np.arange(len(part[1])) for part in parts])
    native = index.native.select(np.arange(known))
    for place in np.lexsort((own, rank, sentence, group)).tolist():
        text, ends_of = parts[rank[place]][:2]
        at = own[place]
        native.add(text[ends_of[at - 1] if at else 0 : ends_of[at]])  # one that is there already keeps its number
    return AttributeIndex(native)


def common_pairs(team: Team, own: CountedPairs, width: int, min_freq: float) -> PairTable:
    """The pairs (attribute, label) that occur in any process, often enough in all of them together."""
    ends, labels, counts = own
    parts = team.gather((owners_of(ends) * width + labels, counts))
    keys, places = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    sums = np.bincount(places, weights=np.concatenate([counts for _, counts in parts]), minlength=len(keys))
    return pair_table(keys[(sums > 0) & (sums >= min_freq)], width, len(ends))


def pair_table(keys: IntArray, width: int, attributes: int) -> PairTable:
    """Pairs in order, each ``attribute * width + label``, as a table."""
    counts = np.bincount(keys // width, minlength=attributes)
    return np.cumsum(counts), (keys % width).astype(np.uint16)
