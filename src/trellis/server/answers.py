"""Answers to ``/v1/tag``, written as JSON in the thread of the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from trellis.models import Tagged
from trellis.models.raw_text import joined
from trellis.server.questions import TagAnswers, labelling_dict
from trellis.server.shelf import ServedModel


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return orjson.dumps(value)


def named(model: ServedModel) -> dict[str, Any]:
    """Which model answers."""
    return {"model": model.name, "version": model.version}


@dataclass(frozen=True, slots=True)
class BestWriter:
    """The answer to ``/v1/tag`` where it is tags alone, from the answers to a `BestQuestion`."""

    model: ServedModel

    def __call__(self, answers: list[bytes]) -> bytes:
        """All results."""
        return self.model.opening + b",".join(answers) + b"]}"


def with_name(name: dict[str, Any], result: bytes) -> bytes:
    """A result, with the name that its line has, if any."""
    return dumps(name)[:-1] + b"," + result[1:] if name else result


@dataclass(frozen=True, slots=True)
class TagWriter:
    """The answer to ``/v1/tag``, written as JSON from the answers to its sentences."""

    model: ServedModel
    form: str
    spans_only: bool
    owners: Sequence[tuple[int, int]] = ()
    documents: Sequence[str] | None = None

    def __call__(self, answers: list[TagAnswers]) -> bytes:
        """All results."""
        results = self._documents(answers) if self.documents is not None else self.results(answers)
        return dumps(named(self.model) | {"results": results})

    def results(self, answers: Sequence[TagAnswers]) -> list[dict[str, Any]]:
        """One result per sentence."""
        found: list[dict[str, Any]] = [{"tags": tags} for own in answers for tags in own.tags]
        found += [self._tagged(one) for one in tagged_in(answers)]
        for result, paths in zip(found, chain.from_iterable(own.labellings for own in answers), strict=False):
            result["k_best"] = [labelling_dict(path) for path in paths]
        return found

    def _tagged(self, one: Tagged) -> dict[str, Any]:
        return {"spans": one.to_records()} if self.spans_only else one.to_dict()

    def _documents(self, answers: list[TagAnswers]) -> list[dict[str, Any]]:
        assert self.documents is not None
        own: list[list[Any]] = [[] for _ in self.documents]
        for (number, start), tagged in zip(self.owners, tagged_in(answers), strict=True):
            own[number].append((start, tagged))
        found = [_document(text, parts) for text, parts in zip(self.documents, own, strict=True)]
        return [{"spans": one["spans"]} for one in found] if self.spans_only else found


def tagged_in(answers: Sequence[TagAnswers]) -> Iterator[Tagged]:
    """What was said about each sentence."""
    return chain.from_iterable(own.tagged for own in answers)


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
