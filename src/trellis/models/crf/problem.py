"""The weights of a feature CRF as a training problem, whoever has the sentences: in memory, or in parts on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from trellis import _native
from trellis.arrays import IntArray
from trellis.features import AttributeIndex, Compiled
from trellis.models.crf.sharing import PairTable, pair_table
from trellis.models.crf.steps import Steps
from trellis.models.crf.weights import AttributeWeights, CRFWeights, owners_of
from trellis.tags import TagStates
from trellis.training.hessian import add_decay
from trellis.training.objective import Vector
from trellis.training.processes import Own, Team


class WeightedFeatures(ABC):
    """Which features have weights, and the loss as a function of these; a subclass has the sentences."""

    native: _native.Objective
    chain: Steps
    index: AttributeIndex
    edge_index: AttributeIndex
    states: TagStates
    steps: Compiled | None = None
    """The features of steps, if there are such."""
    c2: float
    _team: Team

    @property
    def size(self) -> int:
        """How many weights."""
        return self.native.size

    @property
    @abstractmethod
    def own(self) -> Own:
        """Loss and gradient of the sentences of this process, without the L2 term."""

    @abstractmethod
    def settle(self) -> None:
        """Once all weights are chosen: make ready what `evaluate` needs, and free the rest."""

    @abstractmethod
    def _use(self, chain: Steps) -> None:
        """From here on these transitions are possible and have weights."""

    def evaluate(self, weights: Vector, gradient: Vector) -> float:
        """Loss with its L2 term, and the gradient of both."""
        loss = self._team.total(weights, gradient, self.own)
        if self.c2:
            loss += self.c2 * add_decay(weights, 2.0 * self.c2, gradient)
        return loss

    def parameters(self, weights: Vector) -> CRFWeights:
        """The weights by name."""
        ends, labels = self.native.states()
        state, step, edge = np.split(weights, [len(labels), len(labels) + self.chain.cells()[2]])
        transitions, histories = self.chain.split(step)
        start, end = (np.where(mask, 0.0, -np.inf) for mask in (self.chain.start, self.chain.end))
        L, edges = len(self.states), None
        if self.steps is not None:
            edges = AttributeWeights(self.edge_index, *self.native.edges(), edge.copy(), L * L)
        return CRFWeights(
            self.index, ends, labels, state.copy(), L, transitions, self.chain.weighted, start, end, edges, histories
        )

    def take_over(self, old: CRFWeights, old_states: TagStates) -> Vector:
        """The weights of an earlier model by name: its state features are added to those chosen here."""
        L = len(self.states)  # the labels of the earlier model come first, with the same numbers
        states = _Joined.of(self.native.states(), old, old.labels.astype(np.int64), L)
        self.native.set_states(*states.table)
        self._use(self.chain.joined(old.weighted, old.histories))
        found = [states.weights, self.chain.weights_of(old.transitions, old.weighted, old.histories)]
        if self.steps is not None and old.edges is not None:
            pairs = np.ravel_multi_index(np.divmod(old.edges.labels, len(old_states)), (L, L))
            edges = _Joined.of(self.native.edges(), old.edges, pairs, L * L)
            self.native.set_edges(self.steps, *edges.table)
            found.append(edges.weights)
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Joined:
    """The weights of an earlier model by name, added to a choice of weights that are zero."""

    table: PairTable
    weights: Vector

    @classmethod
    def of(cls, own: PairTable, old: AttributeWeights, old_labels: IntArray, width: int) -> _Joined:
        """Attributes keep their numbers; the labels of the earlier model may have new ones."""
        ends, labels = own
        old_keys = old.owners * width + old_labels
        keys = np.union1d(owners_of(ends) * width + labels, old_keys)
        weights = np.zeros(len(keys))
        weights[np.searchsorted(keys, old_keys)] = old.weights
        return cls(pair_table(keys, width, len(ends)), weights)
