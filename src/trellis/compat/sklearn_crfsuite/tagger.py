"""``pycrfsuite.Tagger`` as far as users of sklearn-crfsuite see it, through ``CRF.tagger_``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trellis.errors import ModelError
from trellis.lazy import cached
from trellis.models import CRF


@dataclass(frozen=True)
class ModelInfo:
    """What is in a model, by name."""

    attributes: dict[str, int]
    state_features: dict[tuple[str, str], float]
    transitions: dict[tuple[str, str], float]
    size: int
    """Bytes of the model's file."""


class Tagger:
    """Answers for one sequence at a time; `labels` in the order in which they first occurred."""

    def __init__(self, model: CRF, labels: list[str]) -> None:
        self.model = model
        self._labels = labels
        self._sequence: Any = None

    def labels(self) -> list[str]:
        """All labels."""
        return list(self._labels)

    def tag(self, xseq: Any = None) -> list[str]:
        """The best labels of the sequence, or of the one that was set."""
        return self.model.predict([self._given(xseq)])[0]

    def set(self, xseq: Any) -> None:
        """Set the sequence that the other methods use."""
        self._sequence = xseq

    def probability(self, yseq: list[str]) -> float:
        """The probability of these labels."""
        return float(self.model.sequence_probabilities([self._given(None)], [yseq])[0])

    def marginal(self, y: str, pos: int) -> float:
        """The probability of one label at one position."""
        return self.marginals([self._given(None)])[0][pos][y]

    def marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """The probability of each label at each position of each sequence."""
        columns = [self.model.labels_.index(label) for label in self._labels]
        return [
            [dict(zip(self._labels, row, strict=True)) for row in own[:, columns].tolist()]
            for own in self.model.marginals(X)
        ]

    def info(self) -> ModelInfo:
        """Names and weights."""
        return self._info

    @cached
    def _info(self) -> ModelInfo:
        p, labels = self.model.parameters_, self.model.labels_
        assert p is not None
        names = p.index.names()
        rows = zip(p.owners.tolist(), p.labels.tolist(), p.weights.tolist(), strict=True)
        states = {(names[attribute], labels[label]): weight for attribute, label, weight in rows}
        steps = [(i, j) for i, j in zip(*p.weighted.nonzero(), strict=True) if p.transitions[i, j] != 0.0]
        moves = {(labels[i], labels[j]): float(p.transitions[i, j]) for i, j in steps}
        return ModelInfo({name: i for i, name in enumerate(names)}, states, moves, _bytes_of(self.model))

    def _given(self, xseq: Any) -> Any:
        sequence = self._sequence if xseq is None else xseq
        if sequence is None:
            raise ModelError("no sequence is set: call set first, or give one")
        return sequence


def _bytes_of(model: CRF) -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model.save(path)
        return path.stat().st_size
