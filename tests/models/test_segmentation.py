"""A chain as segments: the same distribution over spans in every scheme, against the chain's own answers."""

from __future__ import annotations

from itertools import product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from trellis.chain import ChainScores
from trellis.errors import ModelError
from trellis.models import CRF, Posterior
from trellis.models.segmentation import segments_of
from trellis.tags import Role, Scheme, Span, StateMap, TagSet, make_label

SPANNED = [scheme for scheme in Scheme if scheme is not Scheme.PLAIN]


def tag_set(scheme: Scheme, kinds: tuple[str, ...] = ("A", "B")) -> TagSet:
    if scheme is Scheme.PLAIN:
        return TagSet(("N", "V", "X"))
    roles = [role for role in dict.fromkeys(scheme.letters.values()) if role is not Role.O]
    return TagSet(("O", *(make_label(role, kind, scheme) for kind in kinds for role in roles)), scheme)


def chain_of(
    tags: TagSet, lengths: list[int], seed: int, *, legal: bool, states: StateMap | None = None
) -> ChainScores:
    random = np.random.default_rng(seed)
    L = len(tags) if states is None else len(states)
    arrays = [random.normal(0, 2, shape) for shape in ((sum(lengths), L), (L, L), (L,), (L,))]
    if legal:
        allowed = tags.allowed_transitions() if states is None else states.allowed_transitions()
        for array, mask in zip(arrays[1:], (allowed.transitions, allowed.start, allowed.end), strict=True):
            array[~mask] = -np.inf
    return ChainScores(arrays[0], lengths, *arrays[1:])


def assert_same_spans(posterior: Posterior, kinds: tuple[str, ...]) -> None:
    found = posterior.segments()
    np.testing.assert_allclose(found.scores.log_partition(), posterior.scores.log_partition(), rtol=1e-12, atol=1e-9)
    marginals, types = found.marginals()
    lengths = posterior.scores.lengths.tolist()
    for b, T in enumerate(lengths):
        every = [Span(i, j, kind) for i in range(T) for j in range(i + 1, T + 1) for kind in kinds]
        if posterior.tags.scheme is Scheme.PLAIN:
            every = [span for span in every if span.end - span.start == 1]
        asked = [every if other == b else [] for other in range(len(lengths))]
        for span, probability in posterior.span_probabilities(asked)[b]:
            place = (span.end - 1, span.end - span.start - 1)
            own = marginals[b][(*place, types.index(span.label))] if span.label in types else 0.0
            assert own == pytest.approx(probability, abs=1e-9), span
    best = [[one.span for one in own] for own in posterior.spans()]
    assert found.best() == best


@pytest.mark.parametrize("legal", [True, False])
@pytest.mark.parametrize("scheme", list(Scheme))
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8)
def test_every_scheme_gives_the_same_spans(scheme: Scheme, legal: bool, seed: int) -> None:
    tags = tag_set(scheme)
    scores = chain_of(tags, [4, 0, 1, 3], seed, legal=legal)
    kinds = ("A", "B") if scheme is not Scheme.PLAIN else tags.labels
    assert_same_spans(Posterior(scores, tags), kinds)


@pytest.mark.parametrize("scheme", SPANNED)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8)
def test_forbidden_labels_stay_forbidden(scheme: Scheme, seed: int) -> None:
    tags = tag_set(scheme)
    scores = chain_of(tags, [5, 2], seed, legal=True)
    random = np.random.default_rng(seed)
    allowed = random.random(scores.emissions.shape) < 0.7
    allowed[:, 0] = True  # outside is always possible
    assert_same_spans(Posterior(scores.restricted(allowed), tags), ("A", "B"))


@pytest.mark.parametrize(
    ("data", "learned"), list(product((Scheme.IOB2, Scheme.IOB1, Scheme.IOE2), (Scheme.BIOES, Scheme.BMES)))
)
def test_states_that_are_finer_than_labels(data: Scheme, learned: Scheme) -> None:
    tags = tag_set(data)
    states = StateMap.of(tags, learned)
    scores = chain_of(tags, [4, 3], 7, legal=True, states=states)
    assert_same_spans(Posterior(scores, tags, states.finer), ("A", "B"))


def test_types_are_told_apart_only_as_far_as_steps_depend_on_it() -> None:
    counts = {Scheme.BIOES: 5, Scheme.IOB2: 5, Scheme.BMES: 5, Scheme.IO: 5, Scheme.IOB1: 9}
    for scheme, count in counts.items():
        tags = tag_set(scheme)
        found = segments_of(chain_of(tags, [6], 1, legal=True), tags)
        assert len(found.kinds) == count, scheme


def test_a_bound_on_the_length_forbids_longer_spans() -> None:
    tags = tag_set(Scheme.BIOES)
    found = segments_of(chain_of(tags, [6], 3, legal=True), tags, longest=2)
    assert found.scores.longest == 2
    assert max(span.end - span.start for span in found.best()[0]) <= 2


def test_a_trained_tagger_answers_in_segments() -> None:
    X = [["Anna", "Smith", "lives", "in", "New", "York"], ["Rome", "is", "old"]]
    y = [["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"], ["B-LOC", "O", "O"]]
    tagger = CRF(c2=0.1).fit(X, y)
    posterior = tagger.posterior([*X, ["Anna", "York"]])
    assert_same_spans(posterior, ("LOC", "PER"))


def test_what_cannot_become_segments_is_refused() -> None:
    tags = tag_set(Scheme.IOB2)
    scores = chain_of(tags, [3], 1, legal=True)
    edges = ChainScores(scores.emissions, [3], scores.transitions, edges=np.zeros((2, len(tags), len(tags))))
    with pytest.raises(ModelError, match="a chain with edges by place cannot become some"):
        segments_of(edges, tags)
    X, y = [["a", "b", "c", "d"]] * 2, [["B-A", "I-A", "I-A", "O"]] * 2
    with pytest.raises(ModelError, match="inside a span, a state of this chain can follow another one"):
        CRF(order=2, c2=0.1).fit(X, y).posterior(X).segments()
