"""Sentences of a feature CRF in parts, whose losses and gradients add up: plans in memory, or in a file that is mapped.

A part is all that an evaluation needs of its sentences, as flat arrays by name: the plan (`features/plan_data.h`) and
what is known about the labels. It belongs to a leaf of the sum over all parts (`trellis.training.leaves`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import final

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import Arrays, FloatArray, IntArray
from trellis.errors import DataError, NoPathError
from trellis.tags import TagStates
from trellis.training.objective import Vector

Compilation = tuple[IntArray, npt.NDArray[np.int32], IntArray, npt.NDArray[np.int32], FloatArray, npt.NDArray[np.int32]]
"""The arrays of compiled features: offsets, bundles of tokens, ends of bundles, attributes, values, families."""


@dataclass(frozen=True, slots=True, eq=False)
class Supervision:
    """What is known about the labels of some sentences, and how much each part of them counts."""

    tags: IntArray | None  # [N] states
    chain_tags: IntArray | None  # [N] with order 2: states of the chain
    allowed: npt.NDArray[np.uint8] | None  # [N, L] if some labels are partly known
    sentence_weights: FloatArray | None  # [B]
    token_weights: FloatArray | None  # [N]

    def arrays(self) -> Arrays:
        """By name, those that exist."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    def part(self, sentences: IntArray, lengths: IntArray) -> Supervision:
        """That of some of the sentences."""
        tokens = tokens_of_sentences(np.concatenate([[0], np.cumsum(lengths)]), sentences)
        places = {name: sentences if name == "sentence_weights" else tokens for name in self.arrays()}
        return Supervision.of({name: array[places[name]] for name, array in self.arrays().items()})

    @classmethod
    def of(cls, arrays: Arrays) -> Supervision:
        """The inverse of `arrays`; others are ignored."""
        return cls(**{field.name: arrays.get(field.name) for field in fields(cls)})


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPart:
    """Some sentences."""

    leaf: int
    read: Callable[[], Arrays]
    """The plan and the arrays of `Supervision`."""
    name: Callable[[int], str]
    """How messages call a sentence."""


@final
class Parts:
    """The parts of a process as leaves of a sum."""

    def __init__(self, native: _native.Objective, parts: list[PlannedPart], count: int, states: TagStates) -> None:
        self._native, self.count, self._states = native, count, states
        self._leaves: dict[int, list[PlannedPart]] = {}
        for part in parts:
            self._leaves.setdefault(part.leaf, []).append(part)

    def evaluate(self, leaf: int, weights: Vector, out: Vector) -> float:
        """The loss of a leaf, part after part; its gradient is written to `out`."""
        out[:] = 0.0
        return sum(self._add(part, weights, out) for part in self._leaves.get(leaf, ()))

    def _add(self, part: PlannedPart, weights: Vector, out: Vector) -> float:
        arrays = part.read()
        known = Supervision.of(arrays)
        result = self._native.evaluate_part(
            arrays["plan"],
            known.tags,
            known.chain_tags,
            known.allowed,
            known.sentence_weights,
            known.token_weights,
            weights,
            out,
        )
        return checked(result, part.name, self._states)


def checked(result: tuple[int, int, float], name: Callable[[int], str], states: TagStates) -> float:
    """The loss, unless a sentence has none."""
    status, sentence, loss = result
    if status == 0:
        return loss
    if status in (3, 5):
        raise NoPathError(
            f"{name(sentence)}: its labels break the {states.tags.scheme.value} scheme, so they are impossible"
        )
    raise DataError(f"{name(sentence)}: the scores overflow; feature values or weights are too large")


def dealt(data: Compilation, sentences: IntArray) -> Compilation:
    """The compiled features of some of the sentences; bundles that these do not use are left out."""
    offsets, token_bundles, ends, attributes, values, families = data
    tokens = tokens_of_sentences(offsets, sentences)
    used, rows = tokens, token_bundles
    if len(token_bundles):
        rows = token_bundles.reshape(int(offsets[-1]), -1)[tokens]
        used = np.flatnonzero(np.bincount(rows.reshape(-1), minlength=len(ends)))
        places = np.zeros(len(ends), dtype=np.int32)
        places[used] = np.arange(len(used), dtype=np.int32)
        rows = places[rows]
    entries = tokens_of_sentences(np.concatenate([[0], ends]), used)
    lengths = np.diff(ends, prepend=0)[used]
    return (
        np.concatenate([[0], np.cumsum(np.diff(offsets)[sentences])]).astype(np.int64),
        rows.reshape(-1),
        np.cumsum(lengths).astype(np.int64),
        attributes[entries],
        values[entries] if len(values) else values,
        families,
    )


def tokens_of_sentences(offsets: IntArray, sentences: IntArray) -> IntArray:
    """The tokens of some sentences, one sentence after another, given where those of each begin."""
    lengths = np.diff(offsets)[sentences]
    before = np.cumsum(lengths) - lengths
    return np.repeat(offsets[sentences] - before, lengths) + np.arange(int(lengths.sum()))
