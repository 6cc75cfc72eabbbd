"""One distribution answers everything: for taggers, where it is asked block by block, and for any chain scores."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.models.contract import POS, TRAIN
from trellis import CRF, HMM, Sentence, chain
from trellis.errors import ModelError, NoPathError
from trellis.models import Posterior
from trellis.tags import Scheme, TagSet, spans_from_tags

TAGS = TagSet(("O", "B-A", "I-A"), Scheme.IOB2)


@pytest.fixture(params=[False, True], ids=["shared", "edges"])
def posterior(request: pytest.FixtureRequest) -> Posterior:
    random = np.random.default_rng(3)
    masks = TAGS.allowed_transitions()
    return Posterior(
        chain.ChainScores(
            random.normal(size=(7, 3)),
            [3, 0, 4],
            np.where(masks.transitions, random.normal(size=(3, 3)), -np.inf),
            np.where(masks.start, random.normal(size=3), -np.inf),
            edges=random.normal(size=(5, 3, 3)) if request.param else None,
        ),
        TAGS,
        inputs=[["a", "b", "c"], [], ["d", "e", "f", "g"]],
    )


def enumerated(posterior: Posterior, index: int) -> dict[tuple[str, ...], float]:
    """The probability of every labelling of one input."""
    one = posterior.scores.part(index)
    paths = list(product(range(3), repeat=len(one.emissions)))
    weights = np.exp([float(one.score(np.array(path, dtype=np.int64))[0]) for path in paths])
    return {tuple(TAGS.decode(path)): w for path, w in zip(paths, weights / weights.sum(), strict=True)}


def test_answers_are_those_of_an_enumeration(posterior: Posterior) -> None:
    for b in range(3):
        every = enumerated(posterior, b)
        best = max(every, key=every.__getitem__)
        assert posterior.best()[b] == list(best)
        assert [item.tags for item in posterior.kbest(3)[b]] == [
            list(path) for path, p in sorted(every.items(), key=lambda pair: -pair[1])[:3] if p > 0
        ]
        np.testing.assert_allclose(posterior.kbest(2)[b][0].probability, every[best])
        np.testing.assert_allclose(posterior.entropy()[b], -sum(p * np.log(p) for p in every.values() if p))
        for t, row in enumerate(posterior.marginals()[b]):
            expected = [sum(p for path, p in every.items() if path[t] == label) for label in TAGS.labels]
            np.testing.assert_allclose(row, expected)
        for span, probability in posterior.spans()[b]:
            holds = (p for path, p in every.items() if span in spans_from_tags(path, Scheme.IOB2))
            np.testing.assert_allclose(probability, sum(holds))
    np.testing.assert_allclose(
        posterior.probabilities(posterior.best()), [max(enumerated(posterior, b).values()) for b in range(3)]
    )


def test_a_part_answers_as_the_whole_does(posterior: Posterior) -> None:
    for b in range(3):
        one = posterior.part(b)
        assert one.best() == posterior.best()[b : b + 1]
        assert one.spans() == posterior.spans()[b : b + 1]
        assert one.first == b
    assert len(posterior) == 3
    with pytest.raises(ModelError, match=r"index must be in 0\.\.2 of 3 inputs, got 3"):
        posterior.part(3)


def test_a_chain_of_any_origin_is_drawn_and_explained(posterior: Posterior) -> None:
    view = posterior.trellis(2, k=2)
    assert view.tokens == ("d", "e", "f", "g")
    assert list(view.paths[0].tags) == posterior.best()[2]
    bare = Posterior(posterior.scores, TAGS)
    assert bare.trellis(2).tokens == ("0", "1", "2", "3")
    for position in range(4):
        why = posterior.explain(2, position)
        assert why.label == posterior.best()[2][position] != why.runner_up
        np.testing.assert_allclose(sum(c.difference for c in why.contributions), why.score_difference)
        every = enumerated(posterior, 2)
        rivals = {path: p for path, p in every.items() if path[position] != why.label}
        assert why.alternative == max(rivals, key=rivals.__getitem__)
        np.testing.assert_allclose(why.score_difference, np.log(every[why.labelling] / every[why.alternative]))
    with pytest.raises(ModelError, match=r"position must be in 0\.\.3 of 4 tokens, got 4"):
        posterior.explain(2, 4)


def test_finer_states_are_explained_by_labels() -> None:
    tagger = HMM(order=2).fit(POS)
    words = ["the", "dog", "sees"]
    why = tagger.posterior([words]).explain(0, 1)
    assert list(why.labelling) == tagger.predict([words])[0]
    assert why.labelling[1] == why.label != why.runner_up == why.alternative[1]
    np.testing.assert_allclose(sum(c.difference for c in why.contributions), why.score_difference)


def test_the_encoder_runs_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger, runs = CRF(features="ner").fit(TRAIN), []
    scores_of = CRF._scores
    monkeypatch.setattr(CRF, "_scores", lambda self, inputs: runs.append(len(inputs)) or scores_of(self, inputs))
    posterior = tagger.posterior([["Anna", "met", "Rome"]] * 3)
    posterior.best(), posterior.kbest(2), posterior.marginals(), posterior.spans(), posterior.entropy()
    posterior.trellis(1), posterior.explain(2, 0), posterior.sample(2)
    assert runs == [3]


def test_spans_are_the_same_without_probabilities_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 2)
    tagger, X = CRF(features="ner").fit(TRAIN), [["Anna", "met", "Rome"], ["Rome"], [], ["Anna", "Rome", "Anna"]]
    everything, few = tagger.answers(X), tagger.answers(X, token_probabilities=False)
    assert len(everything.probabilities) == 7
    assert len(few.probabilities) == 0
    np.testing.assert_array_equal(few.ids, everything.ids)
    np.testing.assert_array_equal(few.span_probabilities, everything.span_probabilities)
    assert len(everything.span_probabilities) > 0


def test_errors_number_the_sentence_of_the_whole_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 2)
    tagger = HMM.from_probabilities([1, 0], [[0, 1], [1, 0]], [[1, 0], [0, 1]])
    inputs = [[0, 1]] * 4 + [[0, 0]]
    for ask in (tagger.predict, tagger.marginals, lambda X: tagger.kbest(X, 2), tagger.span_probabilities):
        with pytest.raises(NoPathError, match="sentence 4 of length 2 has no valid path"):
            ask(inputs)
    where = [Sentence(["a", "dog"], path="x.conll", lines=[7, 8])]
    model = CRF(features="ner").fit(TRAIN)
    known = [["O", "I-PER"]]
    with pytest.raises(NoPathError, match=r"sentence 2 \(x\.conll:7\) of length 2 has no valid path"):
        model.predict([["a", "dog"], ["a", "dog"], *where], known=[["O", "O"], ["O", "O"], *known])


def test_a_list_of_texts_is_several_texts_and_a_list_of_token_lists_is_tokens() -> None:
    tagger = CRF(features="ner").fit(TRAIN)
    alone = tagger("Anna met Rome")
    assert tagger(["Anna met Rome", "Rome"]) == [alone, tagger("Rome")]
    assert tagger([["Anna", "met", "Rome"]]) == [alone]
    assert tagger(Sentence(["Anna", "met", "Rome"])) == alone
    assert tagger([]) == []


def test_without_constraints_a_span_is_as_probable_as_reading_it_off_the_tags() -> None:
    """Also O I-A is read as a span, and is part of its probability."""
    random = np.random.default_rng(5)
    scores = chain.ChainScores(random.normal(size=(4, 3)), [4], random.normal(size=(3, 3)))
    posterior = Posterior(scores, TAGS)
    every = enumerated(posterior, 0)
    spans = {span for path in every for span in spans_from_tags(path, Scheme.IOB2)}
    for span, probability in posterior.span_probabilities([sorted(spans)])[0]:
        holds = (p for path, p in every.items() if span in spans_from_tags(path, Scheme.IOB2))
        np.testing.assert_allclose(probability, sum(holds))
