"""CRFs of order 2: which labels in a row have weights, constraints, schemes to learn, every optimizer, files.
`test_enumeration` has loss, gradient and answers."""

import itertools

import numpy as np
import pytest

from tests.models.crf.oracle import PLAIN, make_data, objective_of, triples
from trellis.errors import ConfigError, StoreError
from trellis.models import CRF


def test_only_labels_that_occur_in_a_row_get_a_weight():
    def found(X, y, pairs=300, min_freq=0.0):
        return triples(objective_of(X, y, PLAIN, pairs=pairs, min_freq=min_freq))

    X, y = [list("xyzx"), list("xyz"), list("xy")], [list("ABAB"), list("ABC"), list("CC")]
    assert found(X, y) == found(X * 2, y * 2, min_freq=2) == {("A", "B", "A"), ("B", "A", "B"), ("A", "B", "C")}
    assert found(X, y, pairs=1) == {("A", "B", "A"), ("A", "B", "C")}
    assert found(X, y, min_freq=2) == found([list("xyzx")], [["A", "B", None, "C"]]) == set()
    assert found([list("xyz")], [["A", {"A", "B"}, "C"]]) == {("A", "A", "C"), ("A", "B", "C")}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("order") / "template"
    path.write_text(PLAIN, encoding="utf-8")
    return str(path)


def test_constraints_and_a_scheme_to_learn_hold(template):
    X = [["x", "y", "z", "x", "q"], ["y", "z"], ["x", "x", "y"]] * 3
    y = [["B-P", "I-P", "I-P", "O", "B-Q"], ["B-Q", "I-Q"], ["O", "O", "B-P"]] * 3
    model = CRF(features=template, order=2, c2=0.1).fit(X, y)
    assert model.states_.finer is not None
    assert model.predict(X[:3]) == y[:3]
    for x in [list("zzzz"), list("qyxz")]:
        legal = [own.tags for own in model.kbest([x], 1000)[0]]
        assert all(not (b[0] == "I" and a[1:] != b[1:]) for own in legal for a, b in itertools.pairwise(["O", *own]))
        assert sum(own.probability for own in model.kbest([x], 10_000)[0]) == pytest.approx(1.0)
        np.testing.assert_allclose(model.marginals([x])[0].sum(axis=1), 1.0)
    assert model.span_probabilities(X[:1])[0][0].probability > 0.5


@pytest.mark.parametrize(
    "settings", [{}, {"c1": 0.1}, {"algorithm": "sgd", "c2": 0.001}, {"algorithm": "ap"}, {"algorithm": "pa"}]
)
def test_every_optimizer_learns_what_takes_two_labels_back(settings, template):
    """Labels go A A B B A A B B: what follows A depends on the label before it, and only two words tell."""
    y = [[("AABB" * 5)[i + shift] for i in range(8 + shift)] for shift in range(4) for _ in range(10)]
    X = [[own[0].lower(), own[1].lower(), *["x"] * (len(own) - 2)] for own in y]
    options = {"features": template, "scheme": "plain", "c2": 0.01} | settings
    two, one = (CRF(order=order, **options).fit(X, y).predict(X) for order in (2, 1))
    assert sum(map(list.__eq__, two, y)) > sum(map(list.__eq__, one, y))
    if settings.get("algorithm") not in ("ap", "pa"):  # which stop after a pass without mistakes, not so their average
        assert two == y


def test_a_file_with_a_pair_twice_is_refused(template, tmp_path, monkeypatch):
    model = CRF(features=template, order=2, pairs=5, scheme="plain").fit(*make_data())
    manifest, arrays = model._state()
    twice = arrays["history.pairs"].copy()
    twice[1] = twice[0]
    monkeypatch.setattr(CRF, "_state", lambda self: (dict(manifest), arrays | {"history.pairs": twice}))
    model.save(tmp_path / "model")
    with pytest.raises(StoreError, match=r"history\.pairs"):
        CRF.load(tmp_path / "model")


def test_observations_of_transitions_need_order_1(tmp_path):
    (tmp_path / "template").write_text("U0:%x[0,0]\nB1:%x[0,0]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 2: 'B1:%x\[0,0\]' looks at observations of a transition"):
        CRF(features=str(tmp_path / "template"), order=2).fit([["x", "y"]], [["A", "B"]])
    with pytest.raises(ConfigError, match="pairs must be at most 10000, got 10001"):
        CRF(pairs=10_001)
