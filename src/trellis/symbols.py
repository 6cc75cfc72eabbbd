"""Names as numbers: the ids of words, characters, pairs and values that a network has vectors for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from trellis.arrays import IntArray
from trellis.lazy import cached

PADDING, UNKNOWN = 0, 1
"""The first two ids of every vocabulary."""
FIRST = UNKNOWN + 1
"""The first id that stands for something known."""


@dataclass(frozen=True)
class Symbols:
    """Strings numbered from 2; 0 is padding, 1 stands for all that are unknown."""

    names: tuple[str, ...] = ()
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {name: number for number, name in enumerate(self.names, start=FIRST)})

    @classmethod
    def learn(cls, counts: Mapping[str, int], min_freq: int = 1, known: Symbols | None = None) -> Symbols:
        """Symbols of the names that occur often enough, most frequent first, after those that are known already."""
        known = known or cls()
        new = (name for name, count in counts.items() if count >= min_freq and name not in known)
        return cls((*known.names, *sorted(new, key=lambda name: (-counts[name], name))))

    def __len__(self) -> int:
        """How many ids there are, padding and unknown included."""
        return len(self.names) + FIRST

    def __contains__(self, name: object) -> bool:
        """Whether the string has its own id."""
        return name in self._ids

    def ids(self, names: Sequence[str]) -> IntArray:
        """The id of each."""
        return np.fromiter(map(self._ids.get, names, repeat(UNKNOWN)), dtype=np.int64, count=len(names))

    @cached
    def _by_code_point(self) -> IntArray:
        """The ids of single characters by their code points, and a last one for all beyond."""
        points = {ord(name): number for name, number in self._ids.items() if len(name) == 1}
        table = np.full(max(points, default=-1) + 2, UNKNOWN, dtype=np.int64)
        table[list(points)] = list(points.values())
        return table

    def character_ids(self, text: str) -> IntArray:
        """The id of each character of a text."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return np.take(self._by_code_point, points, mode="clip")
