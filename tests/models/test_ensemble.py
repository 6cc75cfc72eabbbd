"""Taggers that answer as one: averaged scores are a chain again."""

import pickle

import numpy as np
import pytest

from tests.models.contract import POS, TRAIN
from trellis.errors import ModelError, StoreError
from trellis.lexicon import Lexicon
from trellis.models import CRF, HMM, Ensemble, load
from trellis.tags import validate_tags

SENTENCES = [["Paul", "met", "Anna"], [], ["Rome"]]


@pytest.fixture(scope="module")
def members():
    return [CRF(c2=c2).fit(TRAIN) for c2 in (0.01, 0.5, 2.0)]


def test_the_scores_are_the_mean_of_the_members(members):
    ensemble = Ensemble.of(members)
    own = [member.chain_scores(SENTENCES) for member in members]
    mean = sum(scores.emissions for scores in own) / 3
    np.testing.assert_allclose(ensemble.chain_scores(SENTENCES).emissions, mean, rtol=1e-14)
    p = np.array([ensemble.marginals([SENTENCES[0]])[0].sum(axis=1)])
    np.testing.assert_allclose(p, 1.0)
    assert not any(validate_tags(tags, ensemble.tagset_.scheme) for tags in ensemble.predict(SENTENCES))


def test_an_ensemble_of_one_is_that_one(members):
    one = Ensemble.of(members[:1])
    np.testing.assert_allclose(one.marginals(SENTENCES)[0], members[0].marginals(SENTENCES)[0], rtol=1e-12)


def test_a_saved_or_pickled_ensemble_gives_the_same_answers(members, tmp_path):
    ensemble = Ensemble.of(members)
    ensemble.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for copy in (again, pickle.loads(pickle.dumps(ensemble))):
        assert isinstance(copy, Ensemble)
        assert [a.tolist() for a in copy.marginals(SENTENCES)] == [a.tolist() for a in ensemble.marginals(SENTENCES)]


def test_scores_of_steps_are_averaged_and_members_without_any_count_as_zeros(tmp_path):
    (tmp_path / "steps.txt").write_text("U0:%x[0,0]\nB\nB1:%x[-1,0]/%x[0,0]\n")
    members = [CRF(features=str(tmp_path / "steps.txt"), c2=0.1).fit(TRAIN), CRF(c2=0.1).fit(TRAIN)]
    found, edges = Ensemble.of(members).chain_scores(TRAIN).edges, members[0].chain_scores(TRAIN).edges
    assert np.abs(edges).max() > 0.1
    np.testing.assert_allclose(found, edges / 2, rtol=1e-14)


def test_members_see_the_inputs_as_they_do_alone(tmp_path):
    from tests.models.neural.test_model import tiny

    (tmp_path / "steps.txt").write_text("U0:%x[0,0]\nB\nB1:%x[0,0]\n")
    for member in (tiny(training={"epochs": 2}).fit(TRAIN), CRF(features=str(tmp_path / "steps.txt")).fit(TRAIN)):
        wide = [["Ｐａｕｌ", "met", "Ａｎｎａ"]]
        alone, own = Ensemble.of([member]).marginals(wide)[0], member.marginals(wide)[0]
        np.testing.assert_allclose(alone, own, rtol=1e-12)


def test_networks_of_several_seeds_make_one(tmp_path):
    from tests.models.neural.test_model import tiny

    found = [tiny(training={"epochs": 2, "seed": seed}).fit(TRAIN) for seed in (1, 2)]
    Ensemble.of(found).save(tmp_path / "model")
    again = load(tmp_path / "model")
    mean = sum(model.chain_scores(SENTENCES).emissions for model in found) / 2
    np.testing.assert_allclose(again.chain_scores(SENTENCES).emissions, mean, rtol=1e-12)


def test_members_that_do_not_fit_together_are_named(members):
    with pytest.raises(ModelError, match="at least one tagger, got none"):
        Ensemble.of([])
    with pytest.raises(ModelError, match="tagger 1 has other labels"):
        Ensemble.of([members[0], HMM().fit(POS)])
    with pytest.raises(ModelError, match="tagger 1 learned its labels in another scheme"):
        Ensemble.of([members[0], CRF(learn_scheme="data").fit(TRAIN)])
    with_lexicon = CRF().fit(TRAIN, lexicon=Lexicon(["New York"], strength="prefer"))
    with pytest.raises(ModelError, match="tagger 1 has a lexicon of its own, which an ensemble does not apply"):
        Ensemble.of([members[0], with_lexicon])
    with pytest.raises(ModelError, match="made of taggers that have learned"):
        Ensemble().fit(TRAIN)


@pytest.mark.parametrize(
    ("family", "labels", "others"),
    [
        (CRF, ["ABC", "B", "C", "A"], ["A", "BB", "CC", "A"]),  # (A, B), (B, C), and (B, B), (C, C)
        (HMM, ["ABCA"], ["ABA", "ACA"]),  # (A, B), (B, C), and (A, B), (A, C)
    ],
)
def test_states_of_order_2_must_be_the_same_pairs_not_only_their_last_labels(family, labels, others):
    one, other = (
        family(order=2, scheme="plain").fit([list("xyzx")[: len(y)] for y in labels], list(map(list, labels)))
        for labels in (labels, others)
    )
    assert one._state_labels().tolist() == other._state_labels().tolist()
    with pytest.raises(ModelError, match=r"tagger 1 tells other pairs of labels apart \(order 2\)"):
        Ensemble.of([one, other])
    Ensemble.of([one, one]).predict([["x"]])


def test_a_file_with_an_ensemble_in_an_ensemble_is_refused(members, tmp_path):
    Ensemble.of([Ensemble.of(members)]).save(tmp_path / "model")
    with pytest.raises(StoreError, match="member 0 is an ensemble itself"):
        load(tmp_path / "model")
