"""The addresses for those who teach: corrections, learning from them, and the sentences worth labelling next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from trellis.models.data import tokens_of
from trellis.models.selection import DEFAULT, MEASURES, spread
from trellis.server.batcher import Batcher
from trellis.server.corrections import Corrections
from trellis.server.learning import Learner, LearningData
from trellis.server.limits import ServerLimits
from trellis.server.problems import ConflictError
from trellis.server.questions import Asked, AskedQuestion, apart, posterior_of, together
from trellis.server.requests import correction_of, parts_within, split
from trellis.server.shelf import ModelShelf, ServedModel

_RANKED = 2000  # sentences of the pool that are compared at a time
_AHEAD = 20  # sentences that are chosen together


@dataclass(frozen=True)
class TeachingSettings:
    """What a server was started for besides answering."""

    corrections: Path | None = None
    data: LearningData = field(default_factory=LearningData)
    pool: Sequence[str] = ()
    """Texts, one sentence each."""


@dataclass(frozen=True, slots=True)
class UncertaintyQuestion(AskedQuestion):
    """How unsure a model is of each sentence."""

    model: ServedModel

    def answer(self, parts: Sequence[Asked]) -> list[Sequence[float]]:
        """One posterior for all."""
        posterior = posterior_of(self.model, together(parts), raw=True, known=False)
        return apart(MEASURES[DEFAULT](posterior).tolist(), parts)


class Teaching:
    """Corrections, a learner and a pool; each may be missing."""

    def __init__(self, shelf: ModelShelf, limits: ServerLimits, batcher: Batcher, settings: TeachingSettings) -> None:
        self._shelf, self._limits, self._batcher, self._pool = shelf, limits, batcher, tuple(settings.pool)
        self._corrections = None if settings.corrections is None else Corrections(settings.corrections)
        self._learner = Learner(settings.data)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="trellis-writer")
        self._offered: set[str] = set()
        self._next: list[str] = []
        self._ranked_by: ServedModel | None = None

    def state(self) -> dict[str, Any]:
        """What there is, and how far it is."""
        return {
            "corrections": self._corrections is not None,
            "learning": self._corrections is not None,
            "pool": bool(self._pool),
            "learner": self._learner.state(),
            **self._progress(),
        }

    async def correct(self, body: bytes) -> dict[str, Any]:
        """Keep what is said about a sentence; it is on the disk afterwards."""
        kept = self._kept()
        found = correction_of(body, self._shelf, self._limits)
        await self._in_writer(kept.add, found.text, found.tokens, found.labels)
        return self._progress()

    async def next(self) -> dict[str, Any]:
        """The sentence of the pool that is worth labelling next."""
        if not self._pool:
            raise ConflictError("there is no pool of sentences: start the server with --annotate")
        if self._ranked_by is not self._shelf.get() or not self._next:
            self._next = await self._choose()
        if not self._next:
            raise ConflictError("every sentence of the pool is done")
        text = self._next.pop(0)
        self._offered.add(text)
        return {"text": text, **self._progress()}

    def learn(self) -> dict[str, Any]:
        """Begin to learn from all corrections."""
        self._learner.start(self._shelf.get(), self._kept().sentences())
        return self._learner.state()

    async def accept(self) -> dict[str, Any]:
        """Put the new model in the place of the first one, and open it."""
        await self._in_writer(self._learner.accept, self._shelf.path(self._shelf.get().name))
        await self._in_writer(self._shelf.refresh)
        return self._learner.state()

    def reject(self) -> dict[str, Any]:
        """Forget the new model."""
        self._learner.reject()
        return self._learner.state()

    def close(self) -> None:
        """Let go of the file."""
        self._writer.shutdown(wait=True)
        if self._corrections is not None:
            self._corrections.close()

    def _kept(self) -> Corrections:
        if self._corrections is None:
            raise ConflictError("corrections are not kept: start the server with --corrections")
        return self._corrections

    def _progress(self) -> dict[str, int]:
        done = set() if self._corrections is None else self._corrections.texts
        count = 0 if self._corrections is None else len(self._corrections)
        return {"sentences": count, "done": sum(text in done for text in self._pool), "total": len(self._pool)}

    async def _choose(self) -> list[str]:
        """The best of the sentences that are left; asked like any other request, so that nobody waits for it."""
        model, done = self._shelf.get(), self._offered | (self._corrections.texts if self._corrections else set())
        texts = [text for text in self._pool if text not in done][:_RANKED]
        asked = split(model, texts)
        parts = parts_within(asked, self._limits)
        found = await self._batcher.submit(UncertaintyQuestion(model), parts, list, self._limits.seconds)
        scores = list(chain.from_iterable(found))
        self._ranked_by = model
        tokens = [tuple(tokens_of(item)) for item in asked.items]
        return [texts[one.index] for one in spread(np.array(scores), tokens, _AHEAD)]

    async def _in_writer(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)
