"""What people give by mistake in place of sentences and labels: each is an error that says what came, and where."""

from __future__ import annotations

from typing import Any

import pytest

from trellis import CRF, HMM, MarkovChain
from trellis.errors import DataError, ModelError
from trellis.models.data import Labelled

X = [["a", "b"], ["b"]]
Y = [["A", "B"], ["B"]]


@pytest.fixture(scope="module", params=[CRF, HMM])
def model(request: pytest.FixtureRequest) -> Any:
    return request.param().fit(X, Y)


@pytest.mark.parametrize("inputs", [None, 5, 1.5])
def test_no_list_of_sentences(model: Any, inputs: Any) -> None:
    for ask in (model.predict, model.fit, model.marginals):
        with pytest.raises(DataError, match="expected a list of sentences, got"):
            ask(inputs)


@pytest.mark.parametrize("labels", [[[1, 2], [3]], [[["A", 1], "B"], ["B"]], [["A", object()], ["B"]]])
def test_labels_that_are_no_strings(model: Any, labels: Any) -> None:
    with pytest.raises(DataError, match=r"sentence 0, position \d: a label must be a string, None or several strings"):
        model.fit(X, labels)


def test_sentences_without_a_length() -> None:
    with pytest.raises(DataError, match=r"sentence 1 must be a list of tokens or a Sentence, got <generator"):
        HMM().fit([["a"], (x for x in "a")], [["A"], ["A"]])
    with pytest.raises(DataError, match="sentence 0 must be a list of tokens or a Sentence, got True"):
        HMM().fit(X, Y).predict([True])


@pytest.mark.parametrize("token", [{"a": 1}, ["a"], (["a"],)])
def test_observations_without_a_hash(token: Any) -> None:
    with pytest.raises(DataError, match="sentence 1, position 1: an observation must be a string or an integer"):
        HMM().fit(X, Y).predict([["a"], ["a", token]])


@pytest.mark.parametrize(("length", "n"), [(1.5, 1), ("1", 1), (-1, 1), (2**63, 1), (10**9, 1), (1, None)])
def test_draws_that_cannot_be(length: Any, n: Any) -> None:
    for drawn in (HMM().fit(X, Y), MarkovChain([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])):
        with pytest.raises(ModelError, match=r"length|n must be"):
            drawn.sample(length, n=n)


@pytest.mark.parametrize("seed", ["a", -1, 1.5])
def test_seeds_that_draw_nothing(seed: Any) -> None:
    for drawn in (HMM().fit(X, Y), MarkovChain([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])):
        with pytest.raises(ModelError, match=f"seed must be an integer >= 0, got {seed!r}"):
            drawn.sample(3, seed=seed)


def test_a_part_of_the_data_keeps_the_numbers_of_its_sentences() -> None:
    data = Labelled.of([["a"], ["b"], ["c"]], [["O"], ["O"], ["O"]])
    assert data.part(1, 3).part(1, 2).name(0) == "sentence 2"
