"""What models are asked for: tags, a trellis, reasons. Each inference answers a batch of sentences at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trellis.lexicon import Entry, Lexicon
from trellis.models import CRF, Labelling, Posterior, Tagged
from trellis.models.data import Label, inputs_of, segments
from trellis.models.posterior import pairs_by_label
from trellis.server.problems import too_large
from trellis.server.registry import ServedModel
from trellis.server.schemas import TokenReason
from trellis.text import splitter

_SHOWN = 0.005
"""Probability from which a step between two labels is told."""
_STEPS = 2**25
"""Pairs of states at neighbouring tokens that a trellis may have: 256 MB."""


class InputColumns(NamedTuple):
    """Sentences in columns: token lists or `Sentence`s, the raw texts that they were split from, known labels.

    A column may be missing. Objects for single sentences would cost more than a feature CRF needs to tag them.
    """

    items: Sequence[Any]
    texts: Sequence[str | None] | None = None
    known: Sequence[Sequence[Label] | None] | None = None
    positions: Sequence[int] = ()

    @classmethod
    def of_texts(cls, texts: Sequence[Any], model: ServedModel) -> InputColumns:
        """Raw texts, split into tokens as the model reads them; token lists among them stay as they are."""
        how = splitter(model.tagger.tokenizer_)
        return cls(*inputs_of(texts, how, with_gaps=segments(model.tagger.tagset_)))

    def part(self, start: int, end: int) -> InputColumns:
        """Some of the sentences."""
        texts = None if self.texts is None else self.texts[start:end]
        known = None if self.known is None else self.known[start:end]
        return InputColumns(self.items[start:end], texts, known, self.positions)


def concatenated(parts: Sequence[InputColumns]) -> InputColumns:
    """All sentences of several parts, which have the same columns."""
    if len(parts) == 1:
        return parts[0]
    texts = None if parts[0].texts is None else [text for part in parts for text in part.texts or ()]
    known = None if parts[0].known is None else [labels for part in parts for labels in part.known or ()]
    return InputColumns(list(chain.from_iterable(part.items for part in parts)), texts, known)


def by_part(values: Sequence[Any], parts: Sequence[InputColumns]) -> list[Sequence[Any]]:
    """A value for each sentence, in lists part by part."""
    if len(parts) == 1:
        return [values]
    ends = list(accumulate(len(part.items) for part in parts))
    return [values[end - len(part.items) : end] for end, part in zip(ends, parts, strict=True)]


@dataclass(frozen=True, slots=True)
class ModelInference:
    """An inference of one model, by a posterior."""

    model: ServedModel

    def sentences(self, part: InputColumns) -> list[InputColumns]:
        """Each sentence of a part as a part of its own."""
        return [part.part(i, i + 1) for i in range(len(part.items))]

    def posterior(self, inputs: InputColumns, *, raw: bool, lexicon: tuple[Entry, ...] = ()) -> Posterior:
        """The distribution that every answer is read from."""
        known = None
        if inputs.known is not None:
            known = [labels or [None] * len(item) for labels, item in zip(inputs.known, inputs.items, strict=True)]
        return self.model.tagger.posterior(
            inputs.items, known=known, raw=raw, lexicon=_lexicon(lexicon) if lexicon else "own"
        )

    def annotated(self, posterior: Posterior, inputs: InputColumns) -> list[Tagged]:
        """All that a posterior says about sentences."""
        return posterior.annotate(inputs.texts, separator=splitter(self.model.tagger.tokenizer_).separator)


@lru_cache(maxsize=16)
def _lexicon(entries: tuple[Entry, ...]) -> Lexicon:
    """A lexicon with its automaton, kept for the next batch."""
    return Lexicon(entries)


TaggedSentence = tuple[Any, Sequence[Labelling] | None]
"""The tags of a sentence or its `Tagged`, and its best labellings if they were asked for."""


@dataclass(frozen=True, slots=True)
class TagInference(ModelInference):
    """The best labels, with or without their probabilities, and the `k` best labellings."""

    raw: bool
    known: bool = False
    probabilities: bool = True
    k: int = 0
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[InputColumns]) -> list[Sequence[TaggedSentence]]:
        """One posterior for all parts, or `predict` where the best labels of token lists are all that is asked for."""
        inputs = concatenated(parts)
        if not (self.probabilities or self.k or self.raw or self.known or self.lexicon):
            return by_part([(tags, None) for tags in self.model.tagger.predict(inputs.items)], parts)
        posterior = self.posterior(inputs, raw=self.raw, lexicon=self.lexicon)
        sentences = self.annotated(posterior, inputs) if self.probabilities else posterior.best()
        labellings = posterior.kbest(self.k) if self.k else [None] * len(sentences)
        return by_part(list(zip(sentences, labellings, strict=True)), parts)


@dataclass(frozen=True, slots=True)
class TrellisInference(ModelInference):
    """Every label of every token, the steps between them, and the best paths."""

    raw: bool
    known: bool
    k: int
    lexicon: tuple[Entry, ...] = ()

    def answer(self, parts: Sequence[InputColumns]) -> list[dict[str, Any]]:
        """The fields of a `TrellisAnswer` for each part, which is one sentence; one posterior for all."""
        inputs = concatenated(parts)
        posterior = self.posterior(inputs, raw=self.raw, lexicon=self.lexicon)
        entropy, answers = posterior.entropy().tolist(), []
        for i, tagged in enumerate(self.annotated(posterior, inputs)):
            view = posterior.trellis(i, k=self.k)
            answer = tagged.to_dict() | {"labels": view.labels, "trellis": view.probabilities, "paths": view.paths}
            answers.append(answer | {"steps": steps_of(posterior.part(i)), "entropy": entropy[i]})
        return answers


def steps_of(posterior: Posterior) -> list[list[float]]:
    """``[t, i, j, p]``: token t has label i and the next one label j with probability p; only where it is not tiny."""
    tokens, states = posterior.scores.emissions.shape
    if tokens * states**2 > _STEPS:
        most = _STEPS // states**2
        raise too_large(f"the trellis has {tokens} tokens with {states} states each: expected at most {most} tokens")
    by_state = posterior.scores.marginals(pairwise=True).pairwise
    assert by_state is not None
    pairs = pairs_by_label(by_state, posterior.state_labels, len(posterior.tags))
    return [[t, i, j, round(float(pairs[t, i, j]), 6)] for t, i, j in np.argwhere(pairs >= _SHOWN).tolist()]


@dataclass(frozen=True, slots=True)
class ExplainInference(ModelInference):
    """Why tokens got their labels."""

    top: int

    def answer(self, parts: Sequence[InputColumns]) -> list[list[TokenReason]]:
        """The reasons of each position that is asked about; a part is one sentence."""
        tagger = self.model.tagger
        answers = []
        for part in parts:
            if isinstance(tagger, CRF):
                explanations = [tagger.explain(part.items[0], position) for position in part.positions]
            else:
                posterior = tagger.posterior(part.items)
                explanations = [posterior.explain(0, position) for position in part.positions]
            reasons = msgspec.convert(explanations, list[TokenReason], from_attributes=True)
            for reason in reasons:
                reason.contributions = reason.contributions[: self.top]
            answers.append(reasons)
        return answers
