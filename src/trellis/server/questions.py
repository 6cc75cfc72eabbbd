"""What models are asked: tags, a trellis, reasons. Each question answers a batch of sentences at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trellis import chain
from trellis.lexicon import Entry, Lexicon
from trellis.models import CRF, Labelling, Posterior, Tagged
from trellis.models.data import Label
from trellis.models.explanation import Explanation
from trellis.models.states import sum_by_label
from trellis.server.shelf import ServedModel
from trellis.text import splitter

_SHOWN = 0.005
"""Probability from which a step between two labels is told."""


class Asked(NamedTuple):
    """One sentence: a token list or a `Sentence`, the raw text it was split from, and what is known of its labels."""

    item: Any
    text: str | None = None
    known: Sequence[Label] | None = None
    positions: Sequence[int] = ()


class TagAnswer(NamedTuple):
    """Tags alone, or with everything that can be said about them; and the best labellings."""

    tags: list[str]
    tagged: Tagged | None
    labellings: Sequence[Labelling]


@dataclass(frozen=True, slots=True)
class TagQuestion:
    """The best labels, with or without their probabilities, and the `k` best labellings."""

    model: ServedModel
    raw: bool
    known: bool
    probabilities: bool = True
    k: int = 0
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[Asked]) -> list[TagAnswer]:
        """One posterior for all."""
        posterior = posterior_of(self.model, parts, raw=self.raw, known=self.known, lexicon=self.lexicon)
        labellings: Sequence[Sequence[Labelling]] = posterior.kbest(self.k) if self.k else [()] * len(parts)
        if not self.probabilities:
            return [TagAnswer(tags, None, own) for tags, own in zip(posterior.best(), labellings, strict=True)]
        separator = splitter(self.model.tagger.tokenizer_).separator
        tagged = posterior.annotate([part.text for part in parts], separator=separator)
        return [TagAnswer([], one, own) for one, own in zip(tagged, labellings, strict=True)]


@dataclass(frozen=True, slots=True)
class TrellisQuestion:
    """Every label of every token, the steps between them, and the best paths."""

    model: ServedModel
    raw: bool
    known: bool
    k: int
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[Asked]) -> list[dict[str, Any]]:
        """One posterior for all, one trellis each."""
        posterior = posterior_of(self.model, parts, raw=self.raw, known=self.known, lexicon=self.lexicon)
        tagged = TagQuestion(self.model, self.raw, self.known, lexicon=self.lexicon).answer(parts)
        entropy = posterior.entropy().tolist()
        return [self._trellis(posterior, i, one.tagged, entropy[i]) for i, one in enumerate(tagged)]

    def _trellis(self, posterior: Posterior, index: int, tagged: Tagged | None, entropy: float) -> dict[str, Any]:
        assert tagged is not None
        view = posterior.trellis(index, k=self.k)
        return tagged.to_dict() | {
            "labels": list(view.labels),
            "trellis": [list(row) for row in view.probabilities],
            "steps": steps_of(posterior.part(index)),
            "paths": [labelling_dict(path) for path in view.paths],
            "entropy": entropy,
        }


@dataclass(frozen=True, slots=True)
class ExplainQuestion:
    """Why tokens got their labels."""

    model: ServedModel
    top: int

    def answer(self, parts: Sequence[Asked]) -> list[list[dict[str, Any]]]:
        """The reasons of each position that is asked about."""
        return [[self._reason(part, position) for position in part.positions] for part in parts]

    def _reason(self, part: Asked, position: int) -> dict[str, Any]:
        tagger = self.model.tagger
        if isinstance(tagger, CRF):
            found = tagger.explain(part.item, position)
        else:
            found = tagger.posterior([part.item]).explain(0, position)
        return explanation_dict(found, self.top)


def posterior_of(
    model: ServedModel, parts: Sequence[Asked], *, raw: bool, known: bool, lexicon: tuple[Entry, ...] = ()
) -> Posterior:
    """The distribution that every answer is read from."""
    labels = [part.known or [None] * len(part.item) for part in parts] if known else None
    items = [part.item for part in parts]
    return model.tagger.posterior(items, known=labels, raw=raw, lexicon=_lexicon(lexicon) if lexicon else "own")


@lru_cache(maxsize=16)
def _lexicon(entries: tuple[Entry, ...]) -> Lexicon:
    """A lexicon with its automaton, kept for the next batch."""
    return Lexicon(entries)


def steps_of(one: Posterior) -> list[list[float]]:
    """``[t, i, j, p]``: token t has label i and the next one label j with probability p; only where it is not tiny."""
    pairs = chain.marginals(one.scores, pairwise=True).pairwise
    assert pairs is not None
    if one.state_labels is not None:
        by_second = sum_by_label(pairs, one.state_labels, len(one.tags))
        pairs = np.swapaxes(sum_by_label(np.swapaxes(by_second, 1, 2), one.state_labels, len(one.tags)), 1, 2)
    places = np.argwhere(pairs >= _SHOWN)
    return [[t, i, j, round(float(pairs[t, i, j]), 6)] for t, i, j in places.tolist()]


def labelling_dict(labelling: Labelling) -> dict[str, Any]:
    """Plain values."""
    return {"tags": labelling.tags, "probability": labelling.probability}


def explanation_dict(found: Explanation, top: int) -> dict[str, Any]:
    """Plain values, with the `top` contributions that decided most."""
    return {
        "position": found.position,
        "label": found.label,
        "probability": found.probability,
        "runner_up": found.runner_up,
        "runner_up_probability": found.runner_up_probability,
        "score_difference": found.score_difference,
        "contributions": [
            {
                "position": item.position,
                "kind": item.kind,
                "name": item.name,
                "chosen": item.chosen,
                "runner_up": item.runner_up,
                "difference": item.difference,
            }
            for item in found.contributions[:top]
        ],
    }
