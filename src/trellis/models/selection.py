"""Which sentences are worth labelling next: those that the model is least sure of, and no two of a kind.

    scores = uncertainty(tagger.posterior(sentences), "margin")
    chosen = select(tagger, sentences, 50)

Measures, each divided by the square root of the number of tokens: labelling costs by the token, and of a long
sentence a model is less sure anyway.

    margin     how close the second best labelling comes to the best: p2 / p1
    errors     how many spans are expected to be wrong or missed
    entropy    of the distribution over labellings

A sentence is passed over if it is too similar to one that was chosen before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trellis.arrays import FloatArray
from trellis.errors import ConfigError
from trellis.models.base import Tagger
from trellis.models.data import listed, tokens_of
from trellis.models.posterior import Posterior
from trellis.suggest import did_you_mean
from trellis.tags import Role, Scheme

MEASURES = ("margin", "errors", "entropy")
_ALIKE = 0.5  # share of weight in common, from which on two sentences are of a kind
_SHORTEST = 4  # tokens: a sentence with fewer costs as much as one with these
_BLOCK = 1024  # sentences that are asked about at a time


def select(
    tagger: Tagger[Any], sentences: Sequence[Any], n: int, *, by: str = "margin", diverse: bool = True
) -> list[int]:
    """The numbers of the `n` sentences that are worth labelling next, best first.

    Args:
        tagger: a fitted tagger of any family.
        sentences: sentences or token lists without labels.
        n: how many; fewer if there are fewer.
        by: "margin", "errors" or "entropy".
        diverse: pass over a sentence that has most of its rare words in common with one that was chosen.

    """
    items = listed(sentences)
    parts = (tagger.posterior(items[i : i + _BLOCK]) for i in range(0, len(items), _BLOCK))
    scores = np.concatenate([np.empty(0), *(uncertainty(part, by) for part in parts)])
    return ranked(scores, [tokens_of(item) for item in items], n, diverse=diverse)


def uncertainty(posterior: Posterior, by: str = "margin") -> FloatArray:
    """How unsure a model is of each input."""
    if by not in MEASURES:
        raise ConfigError(
            f"by: unknown measure {by!r}, expected one of {', '.join(MEASURES)}{did_you_mean(by, MEASURES)}"
        )
    measure = {"margin": _margins, "errors": expected_errors, "entropy": Posterior.entropy}[by]
    result: FloatArray = measure(posterior) / np.sqrt(np.maximum(posterior.scores.lengths, _SHORTEST))
    return result


def expected_errors(posterior: Posterior) -> FloatArray:
    """The expected number of spans that are predicted wrongly or missed, by the model's own distribution.

    With S predicted spans of probability p and the true ones drawn from the distribution:

        E[wrong] + E[missed] = sum (1 - p) + (E[number of spans] - sum p)
    """
    starting = _starting(posterior)
    spans = posterior.spans()
    right = np.array([sum(one.probability for one in own) for own in spans])
    found = np.array([len(own) for own in spans])
    expected = np.array([own[:, starting].sum() for own in posterior.marginals()])
    result: FloatArray = np.maximum(found + expected - 2 * right, 0.0)
    return result


def _starting(posterior: Posterior) -> list[int]:
    """The labels that begin a span; where a scheme lets others begin one too, it counts less than there are."""
    if posterior.tags.scheme is Scheme.PLAIN:
        return list(range(len(posterior.tags)))
    firsts = (Role.B, Role.S) if any(role is Role.B for role, _ in posterior.tags.parsed) else (Role.I, Role.E, Role.S)
    return [i for i, (role, _) in enumerate(posterior.tags.parsed) if role in firsts]


def _margins(posterior: Posterior) -> FloatArray:
    """p2 / p1: 1 is a tie, 0 is certain; an empty sentence is."""
    pairs = [[one.probability for one in own] for own in posterior.kbest(2)]
    return np.array([own[1] / own[0] if len(own) > 1 and own[0] > 0 else 0.0 for own in pairs])


def ranked(scores: FloatArray, tokens: Sequence[Sequence[str]], n: int, *, diverse: bool = True) -> list[int]:
    """The numbers of the `n` best scores, best first; with `diverse`, no two of a kind unless nothing else is left."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    if not diverse:
        return order[:n]
    chosen = list(_unlike(order, tokens, n))
    rest = (i for i in order if i not in set(chosen))
    return chosen + [i for i, _ in zip(rest, range(n - len(chosen)), strict=False)]


def _unlike(order: Sequence[int], tokens: Sequence[Sequence[str]], n: int) -> Iterator[int]:
    """In their order, those that share less than half of their weight with any chosen before; rare words weigh more."""
    counts = Counter(token for own in tokens for token in set(own))
    owners: dict[str, list[int]] = {}
    weights: dict[int, float] = {}
    for i in order:
        if len(weights) >= n:
            return
        own = {token: 1.0 / counts[token] for token in set(tokens[i])}
        shared = Counter[int]()
        for token, weight in own.items():
            for other in owners.get(token, ()):
                shared[other] += weight  # type: ignore[assignment]
        total = sum(own.values())
        if any(common > _ALIKE * min(total, weights[other]) for other, common in shared.items()):
            continue
        weights[i] = total
        for token in own:
            owners.setdefault(token, []).append(i)
        yield i
