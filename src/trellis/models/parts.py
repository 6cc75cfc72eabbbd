"""The distribution behind a posterior: one chain, or several, each for some of the inputs, that answer as one.

Inputs with occurrences of a lexicon have chains with more states than those without. Whatever the states are, answers
here are about labels and come in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from trellis import chain
from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import ChainError
from trellis.models import states
from trellis.ragged import offsets_of

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ChainPart:
    """A chain for some of the inputs."""

    scores: chain.ChainScores
    state_labels: IntArray | None
    """The label that each state stands for; None if the states are the labels."""
    sequences: IntArray
    """The inputs that it is about."""

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors call a sequence by its number among all inputs."""
        try:
            yield
        except ChainError as error:
            if error.sequence is None:
                raise
            number = int(self.sequences[error.sequence])
            renamed = error.about(f"sequence {number}")
            renamed.sequence = number
            raise renamed from None


@dataclass(frozen=True, eq=False)
class ChainParts:
    """Chains that together are about each input once, and the tokens of each input."""

    parts: Sequence[ChainPart]
    lengths: IntArray
    num_labels: int

    def best(self) -> IntArray:
        """``(N,)``: the best labels."""
        return self._by_token(lambda one: states.to_labels(chain.viterbi(one.scores).tags, one.state_labels))

    def marginals(self) -> FloatArray:
        """``(N, L)``."""

        def ask(one: ChainPart) -> AnyArray:
            return states.sum_by_label(chain.marginals(one.scores).tokens, one.state_labels, self.num_labels)

        return self._by_token(ask)

    def sample(self, n: int, seed: int) -> IntArray:
        """``(n, N)``."""

        def ask(one: ChainPart) -> AnyArray:
            return states.to_labels(chain.sample(one.scores, n, seed=seed), one.state_labels).T

        return self._by_token(ask).T

    def log_partition(self) -> FloatArray:
        """``(B,)``."""
        return self._by_sequence(lambda one: chain.log_partition(one.scores))

    def entropy(self) -> FloatArray:
        """``(B,)``."""
        return self._by_sequence(lambda one: chain.entropy(one.scores))

    def score(self, ids: IntArray) -> FloatArray:
        """``(B,)``: the log of the summed weights of the paths that have these labels ``(N,)``."""
        return self._by_sequence(lambda one: states.score(one.scores, ids[self._rows(one)], one.state_labels))

    def kbest(self, k: int) -> list[tuple[IntArray, FloatArray]]:
        """For each input the labels of the k best paths and their scores."""
        found: list[tuple[IntArray, FloatArray]] = [(np.empty((0, 0), dtype=np.int64), np.empty(0))] * len(self.lengths)
        for one, paths in self._asked(lambda one: chain.kbest(one.scores, k)):
            for b, tags, scores in zip(one.sequences.tolist(), paths.tags, paths.scores, strict=True):
                found[b] = states.to_labels(tags, one.state_labels), scores
        return found

    def span_log_prob(
        self, places: IntArray, tags: IntArray, before: BoolArray | None, after: BoolArray | None
    ) -> FloatArray:
        """``(S,)``: see `trellis.chain.ChainScores.span_log_prob`; places are (sequence, begin, end)."""
        if len(self.parts) == 1:
            one = self.parts[0]
            with one.named():
                return _span_log_prob(one, places, tags, before, after)
        result = np.empty(len(places))
        sizes = places[:, 2] - places[:, 1]
        for one in self.parts:
            numbers = np.full(len(self.lengths), -1, dtype=np.int64)
            numbers[one.sequences] = np.arange(len(one.sequences))
            chosen = numbers[places[:, 0]] >= 0
            own = places[chosen].copy()
            own[:, 0] = numbers[own[:, 0]]
            sides = (None if side is None else side[chosen] for side in (before, after))
            with one.named():
                result[chosen] = _span_log_prob(one, own, tags[np.repeat(chosen, sizes)], *sides)
        return result

    def part(self, index: int) -> ChainPart:
        """The chain of one input."""
        for one in self.parts:
            place = np.searchsorted(one.sequences, index)
            if place < len(one.sequences) and one.sequences[place] == index:
                return ChainPart(one.scores.part(int(place)), one.state_labels, np.zeros(1, dtype=np.int64))
        raise AssertionError("every input has a chain")

    def _asked(self, ask: Callable[[ChainPart], T]) -> Iterator[tuple[ChainPart, T]]:
        for one in self.parts:
            with one.named():
                answer = ask(one)
            yield one, answer

    def _by_token(self, ask: Callable[[ChainPart], AnyArray]) -> AnyArray:
        found = list(self._asked(ask))
        if len(found) == 1:
            return found[0][1]
        result = np.empty((int(self.lengths.sum()), *found[0][1].shape[1:]), dtype=found[0][1].dtype)
        for one, values in found:
            result[self._rows(one)] = values
        return result

    def _by_sequence(self, ask: Callable[[ChainPart], FloatArray]) -> FloatArray:
        result = np.empty(len(self.lengths))
        for one, values in self._asked(ask):
            result[one.sequences] = values
        return result

    def _rows(self, one: ChainPart) -> IntArray:
        """The tokens of a part's inputs."""
        lengths = self.lengths[one.sequences]
        before = np.cumsum(lengths) - lengths
        result: IntArray = np.repeat(offsets_of(self.lengths)[one.sequences] - before, lengths) + np.arange(
            int(lengths.sum())
        )
        return result


def _span_log_prob(
    one: ChainPart, places: IntArray, tags: IntArray, before: BoolArray | None, after: BoolArray | None
) -> FloatArray:
    return chain.span_log_prob(one.scores, places, tags, before=before, after=after, state_labels=one.state_labels)
