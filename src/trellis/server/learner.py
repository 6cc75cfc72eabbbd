"""Learning from corrections while the old model goes on answering.

A copy of the model learns in a thread, starting from what it knows. Nobody sees the new model until it is accepted:
then it is written in the place of the old one, and the server reloads it like any other change.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trellis.errors import TrellisError
from trellis.models import CRF, Tagger, folder
from trellis.server.corrections import Kept
from trellis.server.problems import RequestError
from trellis.server.registry import ServedModel
from trellis.server.schemas import LearnerState
from trellis.text import Sentence

_HELD_OUT = 5  # without held-out sentences, every fifth correction is one


@dataclass(frozen=True)
class LearningData:
    """What a model learned from, if it is at hand, and sentences to compare models on."""

    train: Sequence[Sentence] = ()
    dev: Sequence[Sentence] = ()


@dataclass
class Learner:
    """One training at a time."""

    data: LearningData = field(default_factory=LearningData)
    state: LearnerState = field(default_factory=lambda: LearnerState("idle"))
    _new: Tagger[Any] | None = None
    _thread: threading.Thread | None = None

    def start(self, model: ServedModel, corrections: Sequence[Kept]) -> None:
        """Begin to learn, in the background."""
        if self.state.state == "learning":
            raise RequestError("conflict", "a model is learning already")
        if not isinstance(model.tagger, CRF):
            raise RequestError("conflict", f"only feature CRFs learn here, and this is a {model.tagger.kind} model")
        if not corrections:
            raise RequestError("conflict", "there is nothing to learn from: no sentence was corrected")
        self.state = LearnerState("learning", step=0)
        self._thread = threading.Thread(target=self._learn, args=(model.tagger, list(corrections)), daemon=True)
        self._thread.start()

    def accept(self, path: Path) -> None:
        """Write the new model in the place of the old one."""
        if self._new is None or self.state.state != "done":
            raise RequestError("conflict", "there is no new model to accept")
        if path.is_dir():
            folder.save_model(path, self._new)
        else:
            self._new.save(path)
        self.reject()

    def reject(self) -> None:
        """Forget the new model."""
        if self.state.state == "learning":
            raise RequestError("conflict", "a model is learning: wait for it")
        self._new, self.state = None, LearnerState("idle")

    def _learn(self, old: CRF, corrections: list[Kept]) -> None:
        try:
            train, dev = self._split(corrections)
            before, new = _score(old, dev), copy.deepcopy(old)
            new.fit(
                [tokens for tokens, _ in train], [labels for _, labels in train], warm_start=True, progress=self._step
            )
            self._new = new
            self.state = LearnerState("done", before=before, after=_score(new, dev))
        except TrellisError as error:
            self.state = LearnerState("failed", message=str(error))
        except Exception as error:  # told as little about as any other mistake of ours
            self.state = LearnerState("failed", message=f"learning failed: {type(error).__name__}")

    def _step(self, step: Any) -> None:
        self.state = LearnerState("learning", step=(self.state.step or 0) + 1)

    def _split(self, corrections: list[Kept]) -> tuple[list[Kept], list[Kept]]:
        """What to learn from and what to compare on."""
        own = [_kept(sentence) for sentence in self.data.train]
        if self.data.dev:
            return own + corrections, [_kept(sentence) for sentence in self.data.dev]
        whole = [kept for kept in corrections if all(isinstance(label, str) for label in kept[1])]
        held_out = whole[::_HELD_OUT] if len(whole) >= 2 * _HELD_OUT else []
        compared = {tokens for tokens, _ in held_out}  # each sentence was corrected once
        return own + [kept for kept in corrections if kept[0] not in compared], held_out


def _kept(sentence: Sentence) -> Kept:
    return tuple(sentence.tokens), list(sentence.tags or ())


def _score(tagger: Tagger[Any], dev: list[Kept]) -> float:
    """F1 or accuracy; 0 if there is nothing to compare on."""
    return tagger.score([tokens for tokens, _ in dev], [labels for _, labels in dev]) if dev else 0.0  # type: ignore[misc]
