"""``ChainScores``: the narrow waist. Models make one, and every answer is computed from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis.aligned import plain_array
from trellis.arrays import AnyArray, IntArray
from trellis.errors import ShapeError
from trellis.ragged import check_lengths


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ChainScores:
    """The scores of a ragged batch of label sequences, B of them with N tokens in all and L labels.

    The score of the labels ``y`` of a sequence of T tokens is::

        start[y[0]] + sum_t emissions[t, y[t]] + sum_t transitions[y[t-1], y[t]] + end[y[T-1]]

    and ``P(y) = exp(score(y)) / Z`` with Z the sum over all ``L ** T`` label sequences. Minus infinity forbids. An
    empty sequence has one label sequence, the empty one, with score 0.

    Args:
        emissions: ``(N, L)``, the sequences one after another.
        lengths: ``(B,)``, adding up to N.
        transitions: ``(L, L)``, from row to column.
        start: ``(L,)``, zeros where left out.
        end: ``(L,)``, zeros where left out.

    float32 and float64 are computed as they come; other floats become float32 and integers float64.

    """

    emissions: AnyArray
    lengths: IntArray
    transitions: AnyArray
    start: AnyArray
    end: AnyArray

    def __init__(
        self,
        emissions: npt.ArrayLike,
        lengths: npt.ArrayLike,
        transitions: npt.ArrayLike,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
    ) -> None:
        array = _floats(emissions)
        if array.ndim != 2 or array.shape[1] < 1:
            raise ShapeError(f"emissions must be (N, L) with L >= 1, got {array.shape}")
        L = array.shape[1]
        zeros = np.zeros(L, dtype=array.dtype)
        fields = {
            "emissions": array,
            "lengths": _read_only(check_lengths(lengths, len(array))),
            "transitions": _matching("transitions", transitions, (L, L), array),
            "start": zeros if start is None else _matching("start", start, (L,), array),
            "end": zeros if end is None else _matching("end", end, (L,), array),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def num_labels(self) -> int:
        """L."""
        return int(self.emissions.shape[1])

    def part(self, index: int) -> ChainScores:
        """The scores of one sequence."""
        begin = int(self.lengths[:index].sum())
        own = self.emissions[begin : begin + int(self.lengths[index])]
        return ChainScores(own, self.lengths[index : index + 1], self.transitions, self.start, self.end)

    def restricted(self, allowed: npt.ArrayLike) -> ChainScores:
        """The same scores with every label outside ``allowed[N, L]`` forbidden at its position."""
        mask = np.asarray(allowed)
        if mask.shape != self.emissions.shape or mask.dtype != np.bool_:
            raise ShapeError(
                f"allowed must be bool (N, L) = {self.emissions.shape} to match emissions, "
                f"got {mask.dtype} {mask.shape}"
            )
        forbidden = self.emissions.dtype.type(-np.inf)
        emissions = np.where(mask, self.emissions, forbidden)
        return ChainScores(emissions, self.lengths, self.transitions, self.start, self.end)


def _read_only(lengths: IntArray) -> IntArray:
    """A copy that nobody changes: answers are laid out by it."""
    own = lengths.copy()
    own.flags.writeable = False
    return own


def _floats(values: npt.ArrayLike) -> AnyArray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"scores must be numbers, got an array of {array.dtype}")
    if array.dtype.kind == "f":
        dtype: Any = array.dtype if array.dtype in (np.float32, np.float64) else np.float32
    else:
        dtype = np.float64
    return plain_array(array, dtype)


def _matching(name: str, values: npt.ArrayLike, shape: tuple[int, ...], emissions: AnyArray) -> AnyArray:
    array = plain_array(values, emissions.dtype)
    if array.shape != shape:
        letters = "(L, L)" if len(shape) == 2 else "(L,)"
        raise ShapeError(
            f"{name} must be {letters} = {shape} to match emissions (N, L) = {emissions.shape}, got {array.shape}"
        )
    return array
