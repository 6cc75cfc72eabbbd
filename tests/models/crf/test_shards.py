"""A corpus is trained in shards, by any number of threads: losses and gradients add up, the first problem is told."""

import numpy as np
import pytest

from tests.models.crf.test_training import make_data, objective_of
from trellis import chain
from trellis.errors import DataError


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = chain.get_num_threads()
    chain.set_num_threads(request.param)
    yield request.param
    chain.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_a_corpus_in_many_shards_is_the_sum_of_its_sentences():
    X, y = make_data(seed=4)
    small, large = objective_of(X, y), objective_of(X * 400, y * 400)
    weights = np.random.default_rng(1).normal(size=small.size)
    gradients = np.empty((2, small.size))
    losses = [small.evaluate(weights, gradients[0]), large.evaluate(weights, gradients[1])]
    assert losses[1] == pytest.approx(400 * losses[0])
    np.testing.assert_allclose(gradients[1], 400 * gradients[0], rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("threads")
def test_the_first_sentence_that_fails_is_named_though_later_shards_fail_too():
    X, y = make_data(seed=5, sentences=4000)
    for late in (1700, 3900, 2500):
        X[late][0]["late"] = 1.0
    objective = objective_of(X, y)
    weights = np.zeros(objective.size)
    ends, _ = objective.native.states()
    own = objective.index.names().index("late")
    weights[ends[own - 1] : ends[own]] = np.nan
    with pytest.raises(DataError, match=r"^sentence 1700\b"):
        objective.evaluate(weights, np.empty(objective.size))
