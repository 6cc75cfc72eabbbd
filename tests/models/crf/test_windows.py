"""Features of templates and few labels: rows of windows give the loss and the gradient of the same features by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import chain
from trellis.features import AttributeIndex, GivenExtractor, TemplateExtractor, Templates
from trellis.models.crf.model import Observed
from trellis.models.crf.training import CRFObjective, FeatureSelection
from trellis.models.data import Labelled
from trellis.tags import StateMap

PLACES = st.sampled_from(["", *(f"%x[{row},0]" for row in range(-3, 4)), "%type[0,0]", "%type[1,0]", "%lower[-1,0]"])
LINES = st.lists(st.lists(PLACES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8)


def make_data(labels, seed, sentences=7):
    random = np.random.default_rng(seed)
    names = [f"L{i}" for i in range(labels)]
    sizes = random.choice([0, 1, 1, 2, 3, 9], size=sentences)
    X = [random.choice(list("aAb1"), size=n).tolist() for n in sizes] + [["a"] * labels]
    return X, [random.choice(names, size=n).tolist() for n in sizes] + [names]


def evaluated(extractor, inputs, y, index, *, min_freq=0.0, single=False):
    data = Labelled.of(inputs, y)
    observed = Observed.of(extractor, inputs, index, None, grow=True)
    choice = FeatureSelection(min_freq, False, True, True, False)
    objective = CRFObjective(
        observed, index, data, StateMap.of(data.labels_in(data.detect("plain"))), choice, single=single
    )
    weights = np.random.default_rng(3).normal(size=objective.size)
    gradient = np.empty_like(weights)
    return objective.evaluate(weights, gradient), gradient


def both(text, X, y, **options):
    """From templates, and from the same features as names, which have no windows."""
    templates, index, names = TemplateExtractor(Templates.parse(text)), AttributeIndex(), AttributeIndex()
    found = evaluated(templates, X, y, index, **options)
    for name in index.names():
        names.native.add(name.encode())
    named = [[set(token) for token in templates.strings(x)] for x in X]
    return found, evaluated(GivenExtractor(), named, y, names, **options)


@settings(max_examples=60, deadline=None)
@given(lines=LINES, labels=st.integers(1, 8), seed=st.integers(0, 99), min_freq=st.sampled_from([0.0, 2.0]))
def test_windows_give_what_the_features_by_name_give(lines, labels, seed, min_freq):
    text = "".join(f"U{i}:{line}\n" for i, line in enumerate(lines)) + "B\n"
    X, y = make_data(labels, seed)
    (loss, gradient), (expected, slopes) = both(text, X, y, min_freq=min_freq)
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slopes, atol=1e-12)


@pytest.mark.parametrize("labels", [3, 4, 7, 8])
def test_windows_in_single_precision_and_with_several_threads(labels):
    text = "".join(f"U{i}:%x[{i - 3},0]\n" for i in range(7)) + "U8:%x[-1,0]/%x[0,0]\nU9:%x[0,0]/%x[1,0]\nB\n"
    X, y = make_data(labels, seed=5, sentences=300)
    (loss, gradient), (expected, slopes) = both(text, X, y, single=True)
    assert loss == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, slopes, atol=1e-3)
    before = chain.get_num_threads()
    try:
        chain.set_num_threads(3)
        (same, again), _ = both(text, X, y, single=True)
    finally:
        chain.set_num_threads(before)
    assert same == loss
    np.testing.assert_array_equal(again, gradient)
