"""Which sentences are worth labelling next: those that a model is least sure of, and no two of a kind.

    tagger = trellis.CRF().fit(labelled)            the few sentences that are labelled so far
    for one in trellis.select(tagger, pool, 50):    what to label next, most valuable first
        print(pool[one.index], one.value)

Every measure is read from the exact distribution over labellings of a sentence, and divided by its tokens: people read
each of them. Then sentences are taken one after another, the most valuable first, each worth less the more it resembles
one that was taken already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import ConfigError, ModelError, shown
from trellis.models.data import listed, tokens_of
from trellis.models.posterior import Posterior
from trellis.models.tagger import Tagger
from trellis.tags import Role, Scheme
from trellis.text import splitter

_BLOCK = 1000
_FIRST, _LAST = (Role.B, Role.S), (Role.E, Role.S)
_COUNTED = {
    Scheme.IOB2: _FIRST,
    Scheme.BIOES: _FIRST,
    Scheme.BILOU: _FIRST,
    Scheme.BMES: _FIRST,
    Scheme.IOE2: _LAST,
}
"""The roles of which every span has exactly one; in other schemes, one label alone does not say where spans begin."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A sentence that is worth labelling."""

    index: int
    """Its number in the pool, from 0."""
    value: float
    """What the measure says of it, per token."""
    similarity: float
    """How much it resembles one that was taken before it, from 0 to 1."""


def expected_errors(posterior: Posterior) -> FloatArray:
    """``(B,)``: how many spans of the best labelling are wrong, and how many are missing from it, on average.

    sum over spans s of the best labelling of 1 - P(s), plus E[number of spans] less the sum of P(s)

    Without spans, the expected number of wrong labels.
    """
    spans = posterior.spans()
    predicted = np.array([len(scored) for scored in spans], dtype=np.float64)
    right = np.array([sum(span.probability for span in scored) for scored in spans], dtype=np.float64)
    expected, tags = right, posterior.tags
    if tags.scheme is not Scheme.PLAIN:
        if tags.scheme not in _COUNTED:
            raise ModelError(
                f"expected errors need a scheme in which labels say where spans begin or end, and {tags.scheme.value} "
                "does not: choose entropy or margin"
            )
        counted = np.array([role in _COUNTED[tags.scheme] for role, _ in tags.parsed])
        expected = np.array([rows[:, counted].sum() for rows in posterior.marginals()], dtype=np.float64)
    wrong, missing = predicted - right, expected - right
    errors: FloatArray = np.maximum(wrong, 0.0) + np.maximum(missing, 0.0)
    return errors


def margin(posterior: Posterior) -> FloatArray:
    """``(B,)``: 1 less the lead of the best labelling over the second, in probability; 1 is a tie."""
    best_two = [[path.probability for path in pair] for pair in posterior.kbest(2)]
    return np.array([1.0 - (pair[0] - pair[1] if len(pair) > 1 else 1.0) for pair in best_two])


MEASURES: dict[str, Callable[[Posterior], FloatArray]] = {
    "errors": expected_errors,
    "entropy": Posterior.entropy,
    "margin": margin,
}

DEFAULT = "entropy"


def select(
    tagger: Tagger[Any], pool: Iterable[Any], n: int, *, by: str = DEFAULT, diversity: float = 0.5
) -> list[Selected]:
    """The `n` sentences of a pool that are most worth labelling, best first.

    Args:
        tagger: a fitted model, such as one that was trained on the few sentences labelled so far.
        pool: sentences, token lists, or raw texts.
        n: how many; fewer if fewer differ.
        by: "entropy" of the whole labelling; "margin", how close the second best labelling comes to the best; or
            "errors", the expected number of wrong and missing spans (or labels), which needs a scheme that says where
            spans begin or end.
        diversity: how much a sentence loses that has the same words as one taken before: 0 is nothing, with 1 a copy is
            worth nothing. The same tokens are never taken twice.

    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigError(f"n must be an integer >= 1, got {shown(n)}")
    if by not in MEASURES:
        raise ConfigError(f"by must be one of {', '.join(MEASURES)}, got {shown(by)}")
    if not 0 <= diversity <= 1:
        raise ConfigError(f"diversity must be in 0..1, got {shown(diversity)}")
    how = splitter(tagger.tokenizer_)
    sentences = [how.sentence(item) if isinstance(item, str) else item for item in listed(pool)]
    blocks = (sentences[i : i + _BLOCK] for i in range(0, len(sentences), _BLOCK))
    values = [MEASURES[by](tagger.posterior(block)) for block in blocks]
    tokens = [tuple(map(str, tokens_of(sentence))) for sentence in sentences]
    return spread(np.concatenate([np.empty(0), *values]), tokens, n, diversity)


def spread(values: FloatArray, sentences: Sequence[tuple[str, ...]], n: int, diversity: float = 0.5) -> list[Selected]:
    """Greedily the sentence with the highest ``value * (1 - diversity * similarity)``; among equals the first.

    The `values` are what a measure says of whole sentences; here they are divided by tokens.
    """
    values = values / np.maximum([len(tokens) for tokens in sentences], 1)
    words, similarity = _Words(sentences), np.zeros(len(sentences))
    first = {tokens: i for i, tokens in reversed([*enumerate(sentences)])}  # what repeats an earlier one is left out
    left = np.array([bool(tokens) and first[tokens] == i for i, tokens in enumerate(sentences)], dtype=np.bool_)
    chosen: list[Selected] = []
    while len(chosen) < n and left.any():
        worth = np.where(left, values * (1.0 - diversity * similarity), -np.inf)
        best = int(worth.argmax())
        chosen.append(Selected(best, float(values[best]), float(similarity[best])))
        left[best] = False
        similarity = np.maximum(similarity, words.similar_to(best))
    return chosen


class _Words:
    """Which sentences have which words and pairs of words, as vectors weighted by how rare those are."""

    def __init__(self, sentences: Sequence[tuple[str, ...]]) -> None:
        holders: dict[Any, list[int]] = defaultdict(list)
        folded = [[token.casefold() for token in tokens] for tokens in sentences]
        self._terms: list[set[Any]] = [{*tokens, *pairwise(tokens)} for tokens in folded]
        for i, terms in enumerate(self._terms):
            for term in terms:
                holders[term].append(i)
        self._holders: dict[Any, IntArray] = {term: np.array(numbers) for term, numbers in holders.items()}
        squares = {term: np.log1p(len(sentences) / len(rows)) ** 2 for term, rows in self._holders.items()}
        self._squares = squares
        self._norms = np.sqrt([max(sum(squares[term] for term in terms), 1e-300) for terms in self._terms])

    def similar_to(self, index: int) -> FloatArray:
        """``(B,)`` cosines with one sentence."""
        products = np.zeros(len(self._terms))
        for term in self._terms[index]:
            products[self._holders[term]] += self._squares[term]
        cosines: FloatArray = products / (self._norms * self._norms[index])
        return cosines
