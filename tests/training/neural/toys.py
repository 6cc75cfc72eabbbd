"""Small tasks to train: a linear map, and an LSTM with dropout that labels random sentences."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.training import DevScores, History
from trellis.training.checkpoint import TrainingFolder, locked
from trellis.training.neural import TrainingSettings, train
from trellis.training.neural.batches import Gather


def train_in(folder: Path, task: Any, settings: TrainingSettings, *, resume: bool = False) -> History:
    """Train in a folder, as its owner does; checkpoints stay there."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        place = TrainingFolder(folder, "neural", resume=resume)
        history = train(task, settings, folder=place)
        place.keep = True
        place.finish()
    return history


class Linear:
    """Least squares on fixed random vectors; the loss is summed over examples."""

    def __init__(self, examples: int = 20, size: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(examples, size, generator=generator, dtype=dtype)
        self.y = self.x @ torch.randn(size, generator=generator, dtype=dtype)
        self.module: nn.Module = nn.Linear(size, 1, dtype=dtype)
        self.lengths = self.tokens = np.full(examples, 3, dtype=np.int64)
        self.scores: list[float] = []
        self.seen: list[list[int]] = []
        with torch.no_grad():
            for p in self.module.parameters():
                p.fill_(0.5)

    def loss(self, examples: np.ndarray) -> tuple[Tensor, int]:
        self.seen.append(sorted(examples.tolist()))
        off = self.module(self.x[examples]).squeeze(-1) - self.y[examples]
        return (off * off).sum(), len(examples)

    def windows(self, epoch: int, first: int = 0) -> Iterator[Linear]:
        return iter([self][first:])

    def groups(self) -> list[tuple[str, list[nn.Parameter]]]:
        return [("head", list(self.module.parameters()))]

    def validate(self, gather: Gather) -> DevScores | None:
        return DevScores(self.scores.pop(0), 0.5, 0.25) if self.scores else None


class _Labeller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(12)
        self.out = nn.Linear(12, 4)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.lstm(torch.dropout(self.embedding(ids), 0.3, self.training))
        return self.out(torch.dropout(self.norm(hidden), 0.3, self.training))


class Labels:
    """Sentences of words 1..29, each labelled by its remainder by 4, with chance from three generators."""

    def __init__(self, sentences: int = 24, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.lengths = self.tokens = rng.integers(1, 9, sentences)
        self.sentences = [torch.as_tensor(rng.integers(1, 30, n)) for n in self.lengths]
        torch.manual_seed(seed)
        self.module: nn.Module = _Labeller()

    def loss(self, examples: np.ndarray) -> tuple[Tensor, int]:
        ids = nn.utils.rnn.pad_sequence([self.sentences[i] for i in examples], batch_first=True)
        weight = 1 + 0.1 * random.random() + 0.1 * np.random.random()
        losses = nn.functional.cross_entropy(
            self.module(ids).flatten(0, 1), (ids % 4).flatten(), weight=None, reduction="none"
        )
        kept = losses[ids.flatten() > 0]
        return weight * kept.sum(), len(kept)

    def windows(self, epoch: int, first: int = 0) -> Iterator[Labels]:
        return iter([self][first:])

    def groups(self) -> list[tuple[str, list[nn.Parameter]]]:
        head = list(self.module.out.parameters())  # type: ignore[union-attr]
        return [("encoder", [p for p in self.module.parameters() if all(p is not h for h in head)]), ("head", head)]

    def validate(self, gather: Gather) -> DevScores | None:
        ids = nn.utils.rnn.pad_sequence(self.sentences[:8], batch_first=True)
        right = (self.module(ids).argmax(-1) == ids % 4)[ids > 0]
        return DevScores(float(right.double().mean()))
