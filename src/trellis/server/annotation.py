"""Annotation: corrections, learning from them, and the sentences worth labelling next."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType

from trellis.errors import ConfigError, TrellisError, number_of, warn
from trellis.metrics import TaggingScores
from trellis.models import CRF, Tagger, folder
from trellis.models.data import Label, headline, tokens_of
from trellis.models.selection import DEFAULT, MEASURES, spread
from trellis.server.batcher import Batcher, BatchJob
from trellis.server.corrections import CorrectedSentence, Corrections
from trellis.server.inference import InputColumns, ModelInference, by_part, concatenated
from trellis.server.jobs import parts_within
from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError
from trellis.server.registry import ModelRegistry, ServedModel
from trellis.server.schemas import AnnotationState, LearnerState, NextSentence, Progress
from trellis.text import Sentence

_LOG = logging.getLogger("trellis.server")
_RANKED = 2000  # sentences of the pool that are compared at a time
_AHEAD = 20  # sentences that are chosen together
_HELD_OUT = 5  # without held-out sentences, every fifth correction is one


@dataclass(frozen=True)
class LearningData:
    """What a model learned from, if it is at hand, and sentences to compare models on."""

    train: Sequence[Sentence] = ()
    dev: Sequence[Sentence] = ()


@dataclass(frozen=True)
class AnnotationSettings:
    """What a server was started for besides answering."""

    corrections: Path | None = None
    data: Mapping[str, LearningData] = field(default_factory=dict)
    """What each model may learn from, by its name."""
    pool: Sequence[str] = ()
    """Texts, one sentence each, for the first model."""


class UncertaintyInference(ModelInference):
    """How unsure a model is of each sentence."""

    __slots__ = ()

    def answer(self, parts: Sequence[InputColumns]) -> list[Sequence[float]]:
        """The uncertainty of each sentence, part by part."""
        return by_part(MEASURES[DEFAULT](self.posterior(concatenated(parts), raw=True)).tolist(), parts)


class Annotation:
    """Corrections, a learner and a pool; each may be missing."""

    def __init__(
        self, registry: ModelRegistry, limits: ServerLimits, batcher: Batcher, settings: AnnotationSettings
    ) -> None:
        self._registry, self._limits, self._batcher = registry, limits, batcher
        pool = dict.fromkeys(settings.pool)
        self._total, self._corrections = len(pool), None
        if settings.corrections is not None:
            self._corrections = Corrections(settings.corrections)
            pool = {text: None for text in pool if not self._corrections.has_text(text)}
            served = {model.name for model in registry}
            for name, count in self._corrections.models().items():
                if count and name not in served:
                    what = f"{number_of(count, 'corrected sentence')} of a model called {name!r}, which is not served"
                    warn(f"{settings.corrections} has {what}: nothing is learned from them")
        self._left = pool
        """Texts of the pool that nobody has corrected yet, in its order."""
        self._learner, self._data = Learner(), settings.data
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="trellis-writer")
        self._offered: set[str] = set()
        self._next: list[str] = []
        self._ranked_by: ServedModel | None = None

    def state(self) -> AnnotationState:
        is_kept = self._corrections is not None
        return AnnotationState(*self._progress(), is_kept, is_kept, self._total > 0, self._learner.state)

    async def correct(self, correction: tuple[str, str, Sequence[str], Sequence[Label]]) -> Progress:
        """Keep a model's name, a sentence's text, its tokens and their labels, on the disk when this returns."""
        try:
            await self._in_writer(self.writable().add, *correction)
        except ConfigError as error:  # the disk is full, say: the path is for the log alone
            _LOG.error("a correction was not kept: %s", error)
            message = "the correction was not kept: the server cannot write to its disk"
            raise RequestError("unavailable", message) from None
        self._left.pop(correction[1], None)
        return Progress(*self._progress())

    async def next(self) -> NextSentence:
        """The sentence of the pool that is worth labelling next."""
        if not self._total:
            raise RequestError("conflict", "there is no pool of sentences: start the server with --annotate")
        if self._ranked_by is not self._registry.get() or not self._next:
            self._next = await self._choose()
        if not self._next:
            raise RequestError("conflict", "every sentence of the pool is done")
        text = self._next.pop(0)
        self._offered.add(text)
        return NextSentence(*self._progress(), text)

    def learn(self, name: str | UnsetType = UNSET) -> LearnerState:
        model = self._registry.get(name)
        data = self._data.get(model.name, LearningData())
        return self._learner.start(model, data, self.writable().sentences(model.name))

    async def accept(self) -> LearnerState:
        """Put the new model in the place of the old one, and open it."""
        await self._in_writer(self._learner.accept, self._registry)
        await self._in_writer(self._registry.refresh)
        return self._learner.state

    def reject(self) -> LearnerState:
        return self._learner.reject()

    def close(self) -> None:
        self._writer.shutdown(wait=True)
        if self._corrections is not None:
            self._corrections.close()

    def writable(self) -> Corrections:
        """The corrections, or the problem that none are kept."""
        if self._corrections is None:
            raise RequestError("conflict", "corrections are not kept: start the server with --corrections")
        return self._corrections

    def _progress(self) -> tuple[int, int, int]:
        """Sentences that are corrected, those of the pool that are done, and all of the pool."""
        corrected = 0 if self._corrections is None else len(self._corrections)
        return corrected, self._total - len(self._left), self._total

    async def _choose(self) -> list[str]:
        """The sentences of the pool to offer next; the model is asked as by any request, so nobody waits for it."""
        model = self._registry.get()
        texts = list(islice((text for text in self._left if text not in self._offered), _RANKED))
        inputs = InputColumns.of_texts(texts, model)
        parts = parts_within(inputs, self._limits)
        answers = await self._batcher.submit(BatchJob(UncertaintyInference(model), parts, list, self._limits.seconds))
        self._ranked_by = model
        tokens = [tuple(tokens_of(item)) for item in inputs.items]
        scores = np.array(list(chain.from_iterable(answers)))
        return [texts[one.index] for one in spread(scores, tokens, _AHEAD)]

    async def _in_writer(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)


class Learner:
    """Learns from corrections while the old model goes on answering; one training at a time.

    A copy of the model learns in a thread, starting from what it knows. Nobody sees the new model until it is accepted:
    then it is written in the place of the old one, and the server reloads it like any other change.
    """

    def __init__(self) -> None:
        self.state = LearnerState("idle")
        self._new: Tagger[Any] | None = None

    def start(self, model: ServedModel, data: LearningData, corrections: list[CorrectedSentence]) -> LearnerState:
        if self.state.state == "learning":
            raise RequestError("conflict", "a model is learning already")
        if not isinstance(model.tagger, CRF):
            raise RequestError("conflict", f"only feature CRFs learn here, and this is a {model.tagger.kind} model")
        if not corrections:
            raise RequestError("conflict", "there is nothing to learn from: no sentence was corrected")
        self.state = begin = LearnerState("learning", model=model.name, step=0)
        threading.Thread(target=self._learn, args=(model.tagger, data, corrections), daemon=True).start()
        return begin

    def accept(self, registry: ModelRegistry) -> None:
        """Write the new model in the place of the old one."""
        if self._new is None or self.state.state != "done":
            raise RequestError("conflict", "there is no new model to accept")
        path = registry.path(str(self.state.model))
        if path.is_dir():
            folder.save_model(path, self._new)
        else:
            self._new.save(path)
        self.reject()

    def reject(self) -> LearnerState:
        """Forget the new model."""
        if self.state.state == "learning":
            raise RequestError("conflict", "a model is learning: wait for it")
        self._new, self.state = None, LearnerState("idle")
        return self.state

    def _learn(self, old: CRF, data: LearningData, corrections: list[CorrectedSentence]) -> None:
        model, steps = self.state.model, 0

        def count(_: Any) -> None:
            nonlocal steps
            steps += 1
            self.state = LearnerState("learning", model=model, step=steps)

        try:
            train, dev = split_corrections(corrections, data)
            before, new = _scores(old, dev), copy.deepcopy(old)
            tokens, labels = zip(*train, strict=True)
            new.fit(tokens, labels, warm_start=True, progress=count)
            self._new = new
            after = _scores(new, dev)
            self.state = LearnerState("done", model=model, metric=after[0], before=before[1], after=after[1])
        except TrellisError as error:
            self.state = LearnerState("failed", model=model, message=str(error))
        except Exception as error:  # told as little about as any other mistake of ours
            self.state = LearnerState("failed", model=model, message=f"learning failed: {type(error).__name__}")


def split_corrections(
    corrections: list[CorrectedSentence], data: LearningData
) -> tuple[list[CorrectedSentence], list[CorrectedSentence]]:
    """What to learn from and what to compare on."""
    train, dev = _labelled(data.train), _labelled(data.dev)
    if dev:
        return train + corrections, dev
    complete = [sentence for sentence in corrections if all(isinstance(label, str) for label in sentence[1])]
    held_out = complete[::_HELD_OUT] if len(complete) >= 2 * _HELD_OUT else []
    held_out_tokens = {tokens for tokens, _ in held_out}  # each sentence was corrected once
    return train + [sentence for sentence in corrections if sentence[0] not in held_out_tokens], held_out


def _labelled(sentences: Sequence[Sentence]) -> list[CorrectedSentence]:
    return [(tuple(sentence.tokens), list(sentence.tags or ())) for sentence in sentences]


def _scores(
    tagger: Tagger[Any], dev: list[CorrectedSentence]
) -> tuple[Literal["f1", "accuracy"] | UnsetType, float | UnsetType]:
    """The metric and its value, if there is something to compare on."""
    if not dev:
        return UNSET, UNSET
    scores = tagger.evaluate([tokens for tokens, _ in dev], [labels for _, labels in dev])  # type: ignore[misc]
    return "accuracy" if isinstance(scores, TaggingScores) else "f1", headline(scores)
