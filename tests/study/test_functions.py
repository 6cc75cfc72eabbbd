"""Feature functions of any kind: the example of the textbook, all answers by enumeration, learning, bad functions."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import CRF, FeatureFunctions
from trellis.errors import ModelError, NotFittedError, ShapeError

SENTENCE = ["first", "second", "third"]


def textbook() -> FeatureFunctions:
    """Li Hang's example; the places 1, 2, 3 of the book are 0, 1, 2 here."""
    transitions = [
        lambda a, b, x, i: (a, b) == (1, 2) and i in (1, 2),
        lambda a, b, x, i: (a, b) == (1, 1) and i == 1,
        lambda a, b, x, i: (a, b) == (2, 1) and i == 2,
        lambda a, b, x, i: (a, b) == (2, 1) and i == 1,
        lambda a, b, x, i: (a, b) == (2, 2) and i == 2,
    ]
    states = [
        lambda y, x, i: y == 1 and i == 0,
        lambda y, x, i: y == 2 and i in (0, 1),
        lambda y, x, i: y == 1 and i in (1, 2),
        lambda y, x, i: y == 2 and i == 2,
    ]
    return FeatureFunctions([1, 2], transitions, states, weights=[1, 0.6, 1, 1, 0.2, 1, 0.5, 0.8, 0.5])


def test_the_example_of_the_textbook():
    model = textbook()
    assert model.score(SENTENCE, [1, 2, 2]) == pytest.approx(3.2)
    best = model.viterbi(SENTENCE)
    assert best.labels == [1, 2, 1]
    assert best.score == pytest.approx(4.3)
    scores = {y: model.score(SENTENCE, y) for y in itertools.product([1, 2], repeat=3)}
    z = sum(map(math.exp, scores.values()))
    assert model.log_partition(SENTENCE) == pytest.approx(math.log(z))
    assert model.probability(SENTENCE, [1, 2, 2]) == pytest.approx(math.exp(3.2) / z)
    assert [b.labels for b in model.kbest(SENTENCE, 3)] == [list(y) for y in sorted(scores, key=scores.get)[:-4:-1]]


def by_hand(model: FeatureFunctions, x: list[str], y: tuple[str, ...]) -> float:
    """The equation in the class's docstring, term by term."""
    total, split = 0.0, len(model.transitions)
    for i, label in enumerate(y):
        total += sum(w * s(label, x, i) for w, s in zip(model.weights_[split:], model.states, strict=True))
        if i:
            pair = y[i - 1], label
            total += sum(w * t(*pair, x, i) for w, t in zip(model.weights_[:split], model.transitions, strict=True))
    return total


TRANSITIONS = [
    lambda a, b, x, i: a == b,
    lambda a, b, x, i: 0.5 if (a, b) == ("A", "B") and x[i] == x[i - 1] else 0,
    lambda a, b, x, i: len(x) - i if b == "C" else -1,
]
STATES = [lambda y, x, i: y == x[i].upper(), lambda y, x, i: np.float32(i) if y == "B" else 0]


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=3),
    st.lists(st.floats(-2, 2), min_size=5, max_size=5),
)
def test_every_answer_by_enumeration(X: list[list[str]], weights: list[float]):
    model = FeatureFunctions("ABC", TRANSITIONS, STATES, weights=weights)
    for x, predicted in zip(X, model.predict(X), strict=True):
        paths = list(itertools.product("ABC", repeat=len(x)))
        scores = np.array([by_hand(model, x, y) for y in paths])
        z = np.logaddexp.reduce(scores)
        assert model.log_partition(x) == pytest.approx(z)
        assert by_hand(model, x, tuple(predicted)) == pytest.approx(scores.max())
        chances = np.exp(scores - z)
        expected = [
            [sum(p for y, p in zip(paths, chances, strict=True) if y[i] == a) for a in "ABC"] for i in range(len(x))
        ]
        assert model.marginals(x) == pytest.approx(np.array(expected).reshape(-1, 3), abs=1e-9)
        assert model.probability(x, paths[0]) == pytest.approx(chances[0])


X = [["a", "b", "b"], ["c"], [], ["b", "a"]]
Y = [["A", "B", "C"], ["C"], [], ["B", "A"]]


@pytest.mark.parametrize(("c1", "c2"), [(0.0, 0.1), (0.0, 1.0), (0.2, 0.1)])
def test_learned_weights_are_where_the_slope_is_nothing(c1: float, c2: float):
    model = FeatureFunctions("ABC", TRANSITIONS, STATES).fit(X, Y, c1=c1, c2=c2)

    def loss(weights: np.ndarray) -> float:
        other = FeatureFunctions("ABC", TRANSITIONS, STATES, weights=weights)
        likelihood = sum(math.log(other.probability(x, y)) for x, y in zip(X, Y, strict=True))
        return -likelihood + c1 * np.abs(weights).sum() + c2 * (weights**2).sum()

    least = loss(model.weights_)
    assert model.history_.loss == pytest.approx(least)
    for k, step in itertools.product(range(5), (-0.05, 0.05)):
        moved = model.weights_.copy()
        moved[k] += step
        assert loss(moved) > least
    if c1:
        assert (model.weights_ == 0.0).any()


def test_fitting_goes_on_from_weights_that_are_there():
    model = FeatureFunctions("ABC", TRANSITIONS, STATES).fit(X, Y)
    first = model.weights_.copy()
    assert len(model.fit(X, Y).history_.steps) <= 1
    assert model.weights_ == pytest.approx(first, abs=1e-3)


def bad(value: object):
    def odd(y, x, i):
        if isinstance(value, Exception):
            raise value
        return value

    return odd


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (KeyError("k"), r"function odd\('A', x, 0\) of sentence 1 raised KeyError: 'k'"),
        (None, r"function odd\('A', x, 0\) of sentence 1 must be a finite number, got None"),
        ("1", r"must be a finite number, got '1'"),
        (math.nan, r"must be a finite number, got nan"),
        (-math.inf, r"must be a finite number, got -inf"),
        (1j, r"must be a finite number, got 1j"),
        (10**400, r"must be a finite number, got 1000"),
    ],
)
def test_a_function_that_fails_or_gives_no_number_is_named(value: object, message: str):
    model = FeatureFunctions("AB", [], [bad(value)], weights=[1.0])
    with pytest.raises(ModelError, match=message):
        model.predict([[], ["word"]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FeatureFunctions([]), "labels must be one or more and distinct"),
        (lambda: FeatureFunctions("AA"), "labels must be one or more and distinct"),
        (lambda: FeatureFunctions([["A"]]), r"labels that have a hash, got \[\['A'\]\]"),
        (lambda: FeatureFunctions(5), "labels must be a list of labels that have a hash, got 5"),
        (lambda: FeatureFunctions("A", [3]), "must be callable, got 3"),
        (
            lambda: FeatureFunctions("A", TRANSITIONS[0]),
            "transitions must be a list of feature functions, got <function",
        ),
        (lambda: FeatureFunctions("A", [], STATES[0]), "states must be a list of feature functions, got <function"),
        (lambda: textbook().score(SENTENCE, 3), "sentence 0: expected a list of labels, one per place, got 3"),
        (lambda: textbook().score(SENTENCE, [1, [2], 2]), r"unknown label \[2\], expected one of"),
        (lambda: textbook().fit([SENTENCE], None), "y must be a list of labels for each sentence, got None"),
        (lambda: textbook().predict({"first": SENTENCE}), "X must be a list of sentences, got {'first'"),
        (lambda: FeatureFunctions("A", [], STATES, weights=[1]), "weights must be 2 finite numbers"),
        (lambda: FeatureFunctions("A", [], STATES, weights=[1, math.inf]), "weights must be 2 finite numbers"),
        (lambda: textbook().score(SENTENCE, [1, 2]), "sentence 0 has 3 places, but 2 labels"),
        (lambda: textbook().score(SENTENCE, [1, 2, 3]), "unknown label 3, expected one of"),
        (lambda: textbook().fit([SENTENCE], []), "there are 1 sentence, but labels for 0"),
        (lambda: textbook().fit([], []), "nothing to learn from: X has no sentence"),
        (lambda: textbook().predict("abc"), "X must be a list of sentences"),
        (lambda: textbook().predict(5), "X must be a list of sentences, got 5"),
        (lambda: textbook().predict([5]), "sentence 0 must have a length"),
    ],
)
def test_bad_arguments_are_named(make, message: str):
    with pytest.raises(ModelError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "values"),
    [("c1", (-1, math.nan, math.inf, "1", None, 1j)), ("c2", (-0.5,)), ("max_iterations", (0, -1, 1.5, "3", True))],
)
def test_settings_that_fit_cannot_use_are_named(name: str, values: tuple[object, ...]):
    for value in values:
        with pytest.raises(ModelError, match=f"^{name} must be"):
            textbook().fit([SENTENCE], [[1, 2, 2]], **{name: value})


def test_a_function_that_changes_the_sentence_is_refused():
    def greedy(y, x, i):
        x.append("more")
        return 1.0

    with pytest.raises(ModelError, match="a feature function changed sentence 1: it had 1 places, and now has 3"):
        FeatureFunctions("AB", [], [greedy], weights=[1.0]).predict([[], ["word"]])


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_what_an_exception_says_is_cut_and_may_fail():
    for problem, message in ((ValueError("x" * 10_000), "raised ValueError: x{500}$"), (Speechless(), "Speechless$")):
        with pytest.raises(ModelError, match=message):
            FeatureFunctions("AB", [], [bad(problem)], weights=[1.0]).predict([["word"]])


def test_c2_is_that_of_the_feature_crf():
    """The same features, the same penalty: a weight of both models is the same."""

    functions = [partial(lambda label, word, y, x, i: (y, x[i]) == (label, word), a, b) for a in "AB" for b in "ab"]
    X, Y = [["a", "b", "a"], ["b", "a"], ["a"]], [["A", "B", "A"], ["B", "B"], ["A"]]
    given = [[[word] for word in own] for own in X]
    crf = CRF(features="given", c2=0.3, scheme="plain", all_possible_states=True, all_possible_transitions=True)
    crf.fit(given, Y)
    steps = [partial(lambda a, b, p, y, x, i: (p, y) == (a, b), a, b) for a in "AB" for b in "AB"]
    model = FeatureFunctions("AB", steps, functions).fit(X, Y, c2=0.3)
    assert model.history_.loss == pytest.approx(crf.history_.loss, rel=1e-6)


def test_without_weights_there_is_no_answer():
    with pytest.raises(NotFittedError, match="no weights yet: call fit"):
        FeatureFunctions("AB", [], [lambda y, x, i: 1.0]).predict([["a"]])


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(ShapeError, match=r"expected an array of numbers, got \['a'\]"):
        FeatureFunctions("A", [], [lambda y, x, i: 1.0], weights=["a"])
