"""Annotation: corrections, learning from them, and the sentences worth labelling next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from trellis.errors import ConfigError
from trellis.models.data import tokens_of
from trellis.models.selection import DEFAULT, MEASURES, spread
from trellis.server.batcher import Batcher
from trellis.server.corrections import Corrections
from trellis.server.fair_queue import BatchJob
from trellis.server.inference import InputColumns, ModelInference, apart, together
from trellis.server.jobs import JobBuilder, parts_within
from trellis.server.learner import Learner, LearningData
from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError
from trellis.server.registry import ModelRegistry, ServedModel
from trellis.server.schemas import AnnotationState, LearnerState, NextSentence, Progress

_LOG = logging.getLogger("trellis.server")
_RANKED = 2000  # sentences of the pool that are compared at a time
_AHEAD = 20  # sentences that are chosen together


@dataclass(frozen=True)
class AnnotationSettings:
    """What a server was started for besides answering."""

    corrections: Path | None = None
    data: LearningData = field(default_factory=LearningData)
    pool: Sequence[str] = ()
    """Texts, one sentence each."""


class UncertaintyInference(ModelInference):
    """How unsure a model is of each sentence."""

    __slots__ = ()

    def answer(self, parts: Sequence[InputColumns]) -> list[Sequence[float]]:
        """One posterior for all."""
        return apart(MEASURES[DEFAULT](self.posterior(together(parts), raw=True)).tolist(), parts)


class Annotation:
    """Corrections, a learner and a pool; each may be missing."""

    def __init__(
        self, registry: ModelRegistry, limits: ServerLimits, batcher: Batcher, settings: AnnotationSettings
    ) -> None:
        self._registry, self._limits, self._batcher = registry, limits, batcher
        self._pool = tuple(dict.fromkeys(settings.pool))
        self._jobs = JobBuilder(registry, limits)
        self._corrections = None if settings.corrections is None else Corrections(settings.corrections)
        done = self._corrections
        self._left = dict.fromkeys(text for text in self._pool if done is None or not done.has_text(text))
        """Texts of the pool that nobody has corrected yet, in its order."""
        self._learner = Learner(settings.data)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="trellis-writer")
        self._offered: set[str] = set()
        self._next: list[str] = []
        self._ranked_by: ServedModel | None = None

    def state(self) -> AnnotationState:
        """What there is, and how far it is."""
        keeps, progress = self._corrections is not None, self._progress()
        return AnnotationState(
            progress.sentences, progress.done, progress.total, keeps, keeps, bool(self._pool), self._learner.state
        )

    async def correct(self, body: bytes) -> Progress:
        """Keep what is said about a sentence; it is on the disk afterwards."""
        kept = self._kept()
        text, tokens, labels = self._jobs.correction(body)
        try:
            await self._in_writer(kept.add, text, tokens, labels)
        except ConfigError as error:  # the disk is full, say: the path is for the log alone
            _LOG.error("a correction was not kept: %s", error)
            message = "the correction was not kept: the server cannot write to its disk"
            raise RequestError("unavailable", message) from None
        self._left.pop(text, None)
        return self._progress()

    async def next(self) -> NextSentence:
        """The sentence of the pool that is worth labelling next."""
        if not self._pool:
            raise RequestError("conflict", "there is no pool of sentences: start the server with --annotate")
        if self._ranked_by is not self._registry.get() or not self._next:
            self._next = await self._choose()
        if not self._next:
            raise RequestError("conflict", "every sentence of the pool is done")
        text = self._next.pop(0)
        self._offered.add(text)
        progress = self._progress()
        return NextSentence(progress.sentences, progress.done, progress.total, text)

    def learn(self) -> LearnerState:
        """Begin to learn from all corrections."""
        self._learner.start(self._registry.get(), self._kept().sentences())
        return self._learner.state

    async def accept(self) -> LearnerState:
        """Put the new model in the place of the first one, and open it."""
        await self._in_writer(self._learner.accept, self._registry.path(self._registry.get().name))
        await self._in_writer(self._registry.refresh)
        return self._learner.state

    def reject(self) -> LearnerState:
        """Forget the new model."""
        self._learner.reject()
        return self._learner.state

    def close(self) -> None:
        """Let go of the file."""
        self._writer.shutdown(wait=True)
        if self._corrections is not None:
            self._corrections.close()

    def _kept(self) -> Corrections:
        if self._corrections is None:
            raise RequestError("conflict", "corrections are not kept: start the server with --corrections")
        return self._corrections

    def _progress(self) -> Progress:
        count, total = 0 if self._corrections is None else len(self._corrections), len(self._pool)
        return Progress(count, total - len(self._left), total)

    async def _choose(self) -> list[str]:
        """The best of the sentences that are left; asked like any other request, so that nobody waits for it."""
        model = self._registry.get()
        texts = list(islice((text for text in self._left if text not in self._offered), _RANKED))
        inputs = InputColumns.of_texts(texts, model)
        parts = parts_within(inputs, self._limits)
        found = await self._batcher.submit(BatchJob(UncertaintyInference(model), parts, list, self._limits.seconds))
        self._ranked_by = model
        tokens = [tuple(tokens_of(item)) for item in inputs.items]
        scores = np.array(list(chain.from_iterable(found)))
        return [texts[one.index] for one in spread(scores, tokens, _AHEAD)]

    async def _in_writer(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)
