"""Answers to ``/v1/tag``, written as JSON in the thread of the models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trellis.models.raw_text import joined
from trellis.server.questions import TagAnswer, labelling_dict
from trellis.server.shelf import ServedModel


def dumps(value: Any) -> bytes:
    """Compact JSON; texts are as they came."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def named(model: ServedModel) -> dict[str, Any]:
    """Which model answers."""
    return {"model": model.name, "version": model.version}


@dataclass(frozen=True, slots=True)
class TagWriter:
    """The answer to ``/v1/tag``, written as JSON from the answers to its sentences."""

    model: ServedModel
    form: str
    spans_only: bool
    owners: Sequence[tuple[int, int]] = ()
    documents: Sequence[str] | None = None

    def __call__(self, answers: list[TagAnswer]) -> bytes:
        """All results."""
        results = self._documents(answers) if self.documents is not None else map(self.result, answers)
        return dumps(named(self.model) | {"results": list(results)})

    def result(self, answer: TagAnswer) -> dict[str, Any]:
        """One result."""
        if answer.tagged is None:
            found: dict[str, Any] = {"tags": answer.tags}
        elif self.spans_only:
            found = {"spans": answer.tagged.to_records()}
        else:
            found = answer.tagged.to_dict()
        if answer.labellings:
            found["k_best"] = [labelling_dict(path) for path in answer.labellings]
        return found

    def _documents(self, answers: list[TagAnswer]) -> list[dict[str, Any]]:
        assert self.documents is not None
        own: list[list[Any]] = [[] for _ in self.documents]
        for (number, start), answer in zip(self.owners, answers, strict=True):
            own[number].append((start, answer.tagged))
        found = [_document(text, parts) for text, parts in zip(self.documents, own, strict=True)]
        return [{"spans": one["spans"]} for one in found] if self.spans_only else found


def _document(text: str, parts: list[Any]) -> dict[str, Any]:
    if not parts:
        return {
            "text": text,
            "tokens": [],
            "offsets": [],
            "tags": [],
            "probabilities": [],
            "spans": [],
            "sentences": [],
        }
    sentences = [[start, start + len(one.text)] for start, one in parts]
    return joined(text, parts).to_dict() | {"sentences": sentences}
