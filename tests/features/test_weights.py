"""Sums of the weights of attributes, for any number of labels and every instruction set, against NumPy."""

import numpy as np
import pytest

from trellis import _native
from trellis.features import AttributeIndex, GivenExtractor

ATTRIBUTES = 60


def corpus(random, *, weighted):
    """Tokens with some attributes each, one of them with none."""
    tokens = [{}]
    for _ in range(50):
        chosen = random.permutation(ATTRIBUTES)[: random.integers(0, 25)]
        tokens.append({f"a{a}": float(random.normal()) if weighted else 1.0 for a in chosen})
    return [tokens]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("L", [*range(1, 36), 64, 100])
def test_each_label_gets_the_sum_of_its_weights(L, weighted):
    random = np.random.default_rng(L)
    sentences, index = corpus(random, weighted=weighted), AttributeIndex()
    data = GivenExtractor().compile(sentences, index, grow=True)
    full = random.normal(size=(len(index), L)) * (random.random((len(index), L)) < random.random((len(index), 1)))
    counts = np.count_nonzero(full, axis=1)
    labels = np.nonzero(full)[1].astype(np.uint16)
    weights = _native.Weights(np.cumsum(counts), labels, full[full != 0], L)
    emissions = np.full((data.tokens + 1, L), np.nan)
    _native.score_dataset(data, weights, emissions[:-1])
    for n in range(data.tokens):
        expected = sum((value * full[a] for a, value in data.token_attributes(n)), np.zeros(L))
        np.testing.assert_allclose(emissions[n], expected, rtol=1e-12, atol=1e-12)
    assert np.isnan(emissions[-1]).all()  # nothing is written beyond the last token
