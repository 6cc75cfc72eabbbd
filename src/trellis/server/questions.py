"""What models are asked: tags, a trellis, reasons. Each question answers a batch of sentences at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

import numpy as np

from trellis.chain import marginals
from trellis.lexicon import Entry, Lexicon
from trellis.models import CRF, Labelling, Posterior, Tagged
from trellis.models.data import Label
from trellis.models.explanation import Explanation
from trellis.models.states import sum_by_label
from trellis.server.shelf import ServedModel
from trellis.text import PackedTokens, splitter

_SHOWN = 0.005
"""Probability from which a step between two labels is told."""
_NONE: repeat[Any] = repeat(())


class Asked(NamedTuple):
    """Sentences in columns: token lists or `Sentence`s, the raw texts that they were split from, known labels.

    A column may be missing. Objects for single sentences would cost more than a feature CRF needs to tag them, and so
    would strings of tokens: `PackedTokens` have none.
    """

    items: Sequence[Any]
    texts: Sequence[str | None] | None = None
    known: Sequence[Sequence[Label] | None] | None = None
    positions: Sequence[int] = ()

    def part(self, start: int, end: int) -> Asked:
        """Some of the sentences."""
        texts = None if self.texts is None else self.texts[start:end]
        known = None if self.known is None else self.known[start:end]
        return Asked(self.items[start:end], texts, known, self.positions)

    def lengths(self) -> list[int]:
        """The number of tokens of each sentence."""
        return self.items.lengths.tolist() if isinstance(self.items, PackedTokens) else list(map(len, self.items))

    def extent(self) -> tuple[int, int]:
        """The tokens of all sentences together, and of the longest one; an empty one counts as one."""
        if isinstance(self.items, PackedTokens):
            return self.items.extent
        lengths = [length or 1 for length in map(len, self.items)]
        return sum(lengths), max(lengths, default=0)

    def unpacked(self) -> Asked:
        """With lists of strings, for models and answers that look at tokens more than once."""
        return self._replace(items=list(self.items)) if isinstance(self.items, PackedTokens) else self

    def sentences(self) -> list[Asked]:
        """Each by itself."""
        return [self.part(i, i + 1) for i in range(len(self.items))]


def together(parts: Sequence[Asked]) -> Asked:
    """All sentences of several parts, which have the same columns."""
    if len(parts) == 1:
        return parts[0]
    texts = None if parts[0].texts is None else [text for part in parts for text in part.texts or ()]
    known = None if parts[0].known is None else [own for part in parts for own in part.known or ()]
    return Asked(_joined([part.items for part in parts]), texts, known)


def _joined(items: Sequence[Sequence[Any]]) -> Sequence[Any]:
    packed = [own for own in items if isinstance(own, PackedTokens)]
    return PackedTokens.joined(packed) if len(packed) == len(items) else list(chain.from_iterable(items))


def apart(found: Sequence[Any], parts: Sequence[Asked]) -> list[Sequence[Any]]:
    """What was found for each sentence, part by part."""
    if len(parts) == 1:
        return [found]
    ends = list(accumulate(len(part.items) for part in parts))
    return [found[end - len(part.items) : end] for end, part in zip(ends, parts, strict=True)]


class AskedQuestion:
    """A question about sentences in columns."""

    __slots__ = ()

    def sentences(self, part: Asked) -> list[Asked]:
        """Each sentence of a part as a part of its own."""
        return part.sentences()


@dataclass(frozen=True, slots=True)
class BestQuestion(AskedQuestion):
    """The best labels and nothing else; the answer to a part is JSON, ``{"tags": [...]}`` for each sentence."""

    model: ServedModel
    raw: bool
    known: bool
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[Asked]) -> list[bytes]:
        """One posterior for all."""
        posterior = posterior_of(self.model, together(parts), raw=self.raw, known=self.known, lexicon=self.lexicon)
        return posterior.best_json(self.model.labels, [len(part.items) for part in parts], b'{"tags":[', b"]}")


class TagAnswers(NamedTuple):
    """What was found for some sentences, in columns: tags, or everything that can be said; and the best labellings."""

    tags: Sequence[list[str]]
    tagged: Sequence[Tagged]
    labellings: Sequence[Sequence[Labelling]]


@dataclass(frozen=True, slots=True)
class TagQuestion(AskedQuestion):
    """The best labels, with or without their probabilities, and the `k` best labellings."""

    model: ServedModel
    raw: bool
    known: bool
    probabilities: bool = True
    k: int = 0
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[Asked]) -> list[TagAnswers]:
        """One posterior for all."""
        whole = together(parts)
        posterior = posterior_of(self.model, whole, raw=self.raw, known=self.known, lexicon=self.lexicon)
        labellings = apart(posterior.kbest(self.k), parts) if self.k else [()] * len(parts)
        if not self.probabilities:
            return [TagAnswers(*own) for own in zip(apart(posterior.best(), parts), _NONE, labellings, strict=False)]
        separator = splitter(self.model.tagger.tokenizer_).separator
        tagged = posterior.annotate(whole.texts, separator=separator)
        return [TagAnswers(*own) for own in zip(_NONE, apart(tagged, parts), labellings, strict=False)]


@dataclass(frozen=True, slots=True)
class TrellisQuestion(AskedQuestion):
    """Every label of every token, the steps between them, and the best paths."""

    model: ServedModel
    raw: bool
    known: bool
    k: int
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[Asked]) -> list[dict[str, Any]]:
        """One posterior for all, one trellis each; a part is one sentence."""
        posterior = posterior_of(self.model, together(parts), raw=self.raw, known=self.known, lexicon=self.lexicon)
        tagged = TagQuestion(self.model, self.raw, self.known, lexicon=self.lexicon).answer(parts)
        entropy = posterior.entropy().tolist()
        return [self._trellis(posterior, i, one.tagged[0], entropy[i]) for i, one in enumerate(tagged)]

    def _trellis(self, posterior: Posterior, index: int, tagged: Tagged, entropy: float) -> dict[str, Any]:
        view = posterior.trellis(index, k=self.k)
        return tagged.to_dict() | {
            "labels": list(view.labels),
            "trellis": [list(row) for row in view.probabilities],
            "steps": steps_of(posterior.part(index)),
            "paths": [labelling_dict(path) for path in view.paths],
            "entropy": entropy,
        }


@dataclass(frozen=True, slots=True)
class ExplainQuestion(AskedQuestion):
    """Why tokens got their labels."""

    model: ServedModel
    top: int

    def answer(self, parts: Sequence[Asked]) -> list[list[dict[str, Any]]]:
        """The reasons of each position that is asked about; a part is one sentence."""
        return [[self._reason(part, position) for position in part.positions] for part in parts]

    def _reason(self, part: Asked, position: int) -> dict[str, Any]:
        tagger = self.model.tagger
        if isinstance(tagger, CRF):
            found = tagger.explain(part.items[0], position)
        else:
            found = tagger.posterior(part.items).explain(0, position)
        return explanation_dict(found, self.top)


def posterior_of(
    model: ServedModel, asked: Asked, *, raw: bool, known: bool, lexicon: tuple[Entry, ...] = ()
) -> Posterior:
    """The distribution that every answer is read from."""
    labels = None
    if known and asked.known is not None:
        labels = [own or [None] * len(item) for own, item in zip(asked.known, asked.items, strict=True)]
    return model.tagger.posterior(asked.items, known=labels, raw=raw, lexicon=_lexicon(lexicon) if lexicon else "own")


@lru_cache(maxsize=16)
def _lexicon(entries: tuple[Entry, ...]) -> Lexicon:
    """A lexicon with its automaton, kept for the next batch."""
    return Lexicon(entries)


def steps_of(one: Posterior) -> list[list[float]]:
    """``[t, i, j, p]``: token t has label i and the next one label j with probability p; only where it is not tiny."""
    pairs = marginals(one.scores, pairwise=True).pairwise
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
