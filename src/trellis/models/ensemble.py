"""Several taggers that answer as one: their chain scores are averaged, and the mean is a chain again.

    both = Ensemble.of([load("model-1"), load("model-2"), load("model-3")])
    both.tag(sentences), both.marginals(sentences), both.save("ensemble")

Averaged scores are the geometric mean of the members' distributions, normalised, so every answer stays exact: legal
tags, probabilities that add up, spans and k best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np

from trellis import chain, config
from trellis.arrays import Arrays, IntArray
from trellis.errors import ModelError, StoreError
from trellis.models.data import Labelled
from trellis.models.registry import tagger_class
from trellis.models.tagger import FitOptions, Tagger
from trellis.store import Stored

_MOST = 64  # members of a saved ensemble


@dataclass(frozen=True)
class EnsembleConfig:
    """An ensemble has no settings of its own."""


@final
class Ensemble(Tagger[EnsembleConfig]):
    """Taggers of the same labels whose chain scores are averaged; see the module for how to use it."""

    kind: ClassVar[str] = "ensemble"
    config_class: ClassVar[type[Any]] = EnsembleConfig
    members_: tuple[Tagger[Any], ...]

    @classmethod
    def of(cls, members: Sequence[Tagger[Any]]) -> Self:
        """An ensemble of fitted taggers, which must have the same labels and learn them in the same scheme."""
        if not members:
            raise ModelError("an ensemble needs at least one tagger, got none")
        first = members[0]
        for number, other in enumerate(members):
            if other._fitted_tags() != first._fitted_tags() or other.tokenizer_ != first.tokenizer_:
                raise ModelError(f"tagger {number} has other labels, or splits text otherwise, than tagger 0")
            if other.lexical_:
                raise ModelError(f"tagger {number} has learned from a lexicon, which an ensemble does not keep")
            if not _alike(other._state_labels(), first._state_labels()):
                raise ModelError(f"tagger {number} learned its labels in another scheme than tagger 0")
        model = cls()
        model.settings_ = model.config
        model.members_, model.tagset_, model.tokenizer_ = tuple(members), first.tagset_, first.tokenizer_
        return model

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        raise ModelError("an ensemble is made of taggers that have learned: Ensemble.of([one, another])")

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        found = [member._scores(inputs) for member in self.members_]
        names = ("emissions", "transitions", "start", "end")
        parts = [np.mean([getattr(own, name) for own in found], axis=0, dtype=np.float64) for name in names]
        return chain.ChainScores(parts[0], found[0].lengths, *parts[1:])

    def _state_labels(self) -> IntArray | None:
        return self.members_[0]._state_labels()

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        manifests: list[dict[str, Any]] = []
        arrays: Arrays = {}
        for number, member in enumerate(self.members_):
            manifest, own = member._state()
            manifests.append({**manifest, "kind": member.kind, "config": config.to_dict(member.settings_)})
            arrays |= {f"member {number}.{name}": array for name, array in own.items()}
        return {"members": {str(number): manifest for number, manifest in enumerate(manifests)}}, arrays

    def _restore(self, stored: Stored) -> None:
        members = stored.manifest.table("members")
        count = len(members.values)
        if not 0 < count <= _MOST:
            raise StoreError(f"{stored.where}: an ensemble has 1 to {_MOST} members, got {count}")
        self.members_ = tuple(self._member(stored, number) for number in range(count))

    def _member(self, stored: Stored, number: int) -> Tagger[Any]:
        fields = stored.manifest.table("members").table(str(number))
        kind, prefix = fields.text("kind"), f"member {number}."
        if kind == self.kind:
            raise StoreError(f"{stored.where}: member {number} is an ensemble itself")
        shared = {name: stored.manifest.values[name] for name in ("labels", "scheme", "style", "tokenizer")}
        arrays = {name.removeprefix(prefix): own for name, own in stored.arrays.items() if name.startswith(prefix)}
        where = f"{stored.where}, member {number}"
        return tagger_class(kind).from_stored(Stored.of(where, kind, {**fields.values, **shared}, arrays))


def _alike(one: IntArray | None, two: IntArray | None) -> bool:
    return one is two or (one is not None and two is not None and np.array_equal(one, two))
