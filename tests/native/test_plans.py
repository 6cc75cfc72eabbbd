"""Plans of features that lie in files: bytes that are none, and arrays of other sizes, are refused."""

import numpy as np
import pytest

from tests.native.test_sharing import corpus, dicts, objective
from trellis import _native


def part() -> tuple[_native.Objective, np.ndarray, np.ndarray, np.ndarray]:
    """An objective, the plan of some other sentences, their labels, and weights."""
    shared, weights = objective(False)
    attributes = _native.Attributes()
    _native.compile_features(dicts(corpus(400)[0]), attributes, True)
    words, tags = corpus(20, seed=1)
    plan = shared.plan_of(_native.compile_features(dicts(words), attributes, False))
    labels = np.array([["B", "I", "O"].index(tag) for one in tags for tag in one], np.int64)
    return shared, plan, labels, weights


def test_a_part_has_a_loss() -> None:
    shared, plan, labels, weights = part()
    status, _, loss = shared.evaluate_part(plan, labels, None, None, None, None, weights, np.zeros(shared.size))
    assert status == 0
    assert loss > 0


@pytest.mark.parametrize("size", [0, 8, 511, 512, 4096])
def test_a_plan_that_is_cut_off_is_refused(size: int) -> None:
    shared, plan, labels, weights = part()
    with pytest.raises(ValueError, match="these bytes are not a plan of features"):
        shared.evaluate_part(plan[:size].copy(), labels, None, None, None, None, weights, np.zeros(shared.size))


def test_arrays_of_other_sizes_are_refused() -> None:
    shared, plan, labels, weights = part()
    gradient = np.zeros(shared.size)
    with pytest.raises(ValueError, match="does not fit the sentences"):
        shared.evaluate_part(plan, labels[:-1], None, None, None, None, weights, gradient)
    with pytest.raises(ValueError, match="as many weights"):
        shared.evaluate_part(plan, labels, None, None, None, None, weights[:-1], gradient)
    with pytest.raises(ValueError, match="as many weights"):
        shared.evaluate(weights[:-1], None)
    with pytest.raises(ValueError, match="does not fit"):
        shared.evaluate(weights, gradient[:-1])
