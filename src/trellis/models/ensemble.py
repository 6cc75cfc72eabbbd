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
from trellis.errors import ModelError, StoreError, number_of
from trellis.models.data import Labelled
from trellis.models.families import tagger_class
from trellis.models.tagger import FitOptions, Tagger
from trellis.store import Stored
from trellis.text import splitter

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
            if other.lexicon_ is not None:
                raise ModelError(
                    f"tagger {number} has a lexicon of its own, which an ensemble does not apply: set its lexicon_ to "
                    "None, and give the lexicon to the ensemble (lexicon_)"
                )
            if not np.array_equal(other._state_labels(), first._state_labels()):  # type: ignore[arg-type]
                raise ModelError(f"tagger {number} learned its labels in another scheme than tagger 0")
            if _pairs(other) != _pairs(first):
                raise ModelError(f"tagger {number} tells other pairs of labels apart (order 2) than tagger 0")
        model = cls()
        model.settings_ = model.config
        model.members_, model.tagset_, model.tokenizer_ = tuple(members), first.tagset_, first.tokenizer_
        return model

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        raise ModelError("an ensemble is made of taggers that have learned: Ensemble.of([one, another])")

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        scores = [member._scores(member._for_scores(inputs, [])) for member in self.members_]
        names = ("emissions", "transitions", "start", "end")
        emissions, transitions, start, end = (
            np.mean([getattr(x, name) for x in scores], axis=0, dtype=np.float64) for name in names
        )
        edges = [x.edges for x in scores if x.edges is not None]  # members without any count as zeros
        mean_edges = sum(edges) / len(scores) if edges else None
        return chain.ChainScores(emissions, scores[0].lengths, transitions, start, end, mean_edges)

    def _extent(self) -> str:
        return number_of(len(self.members_), "member")

    def _state_labels(self) -> IntArray | None:
        return self.members_[0]._state_labels()

    def _scores_per_token(self) -> int:
        return max(member._scores_per_token() for member in self.members_)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        manifests: dict[str, Any] = {}
        arrays: Arrays = {}
        for number, member in enumerate(self.members_):
            manifest, of_member = member._state()
            manifests[str(number)] = {**manifest, "kind": member.kind, "config": config.to_dict(member.settings_)}
            arrays |= {f"member {number}.{name}": array for name, array in of_member.items()}
        return {"members": manifests}, arrays

    def _restore(self, stored: Stored) -> None:
        table, tags = stored.manifest.table("members"), self.tagset_
        count = len(table.values)
        if not 0 < count <= _MOST:
            raise StoreError(f"{stored.where}: an ensemble has 1 to {_MOST} members, got {count}")
        shared: dict[str, Any] = {"labels": list(tags.labels), "scheme": tags.scheme.value, "style": tags.style.value}
        shared["tokenizer"] = splitter(self.tokenizer_).to_dict()
        members: list[Tagger[Any]] = []
        for number in range(count):
            fields, prefix, where = table.table(str(number)), f"member {number}.", f"{stored.where}, member {number}"
            kind = fields.text("kind")
            if kind == self.kind:
                raise StoreError(f"{where} is an ensemble itself")
            arrays = {name.removeprefix(prefix): x for name, x in stored.arrays.items() if name.startswith(prefix)}
            members.append(tagger_class(kind).from_stored(Stored.of(where, kind, {**fields.values, **shared}, arrays)))
        self.members_ = tuple(members)


def _pairs(tagger: Tagger[Any]) -> list[list[int]] | None:
    """Order 2: the pairs of labels that have their own state."""
    learned = vars(tagger).get("parameters_", vars(tagger).get("model_"))
    histories = getattr(learned, "histories", None)
    return None if histories is None else histories.pairs.tolist()
