"""Taggers that answer as one: averaged scores are a chain again."""

import numpy as np
import pytest

from tests.models.contract import POS, TRAIN
from trellis.errors import ModelError, StoreError
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


def test_a_saved_ensemble_gives_the_same_answers(members, tmp_path):
    ensemble = Ensemble.of(members)
    ensemble.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, Ensemble)
    assert [a.tolist() for a in again.marginals(SENTENCES)] == [a.tolist() for a in ensemble.marginals(SENTENCES)]


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
    with pytest.raises(ModelError, match="made of taggers that have learned"):
        Ensemble().fit(TRAIN)


def test_a_file_with_an_ensemble_in_an_ensemble_is_refused(members, tmp_path):
    Ensemble.of([Ensemble.of(members)]).save(tmp_path / "model")
    with pytest.raises(StoreError, match="member 0 is an ensemble itself"):
        load(tmp_path / "model")
