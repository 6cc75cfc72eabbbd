"""What people give by mistake in place of sentences and labels: each is an error that says what came, and where."""

from __future__ import annotations

from typing import Any

import pytest

from trellis import CRF, HMM, MarkovChain
from trellis.errors import DataError, DataWarning, ModelError
from trellis.models.data import Labelled, mended

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


def test_sentences_after_a_dropped_one_keep_their_numbers() -> None:
    data = Labelled.of([["a"], ["b"], ["c"]] * 9, [["I-A"], *[["B-A"], ["O"], ["O"]] * 8, ["B-A"], ["O"]])
    with pytest.warns(DataWarning, match=r"sentence 0, position 0: I-A"):
        remaining, _ = mended(data, "bio", "drop")
    assert remaining.name(3) == remaining.part(3, 5).name(0) == "sentence 4"


@pytest.mark.parametrize("how", ["repair", "drop"])
def test_bad_tags_are_mended_where_other_sentences_are_partly_labelled(how: Any) -> None:
    labels = [[None, ["B-A", "O"]], *[["B-A", "I-A"], ["O", "O"]] * 9, ["O", "I-A"]]
    with pytest.warns(DataWarning, match="sentence 19, position 1: I-A"):
        data, remaining = mended(Labelled.of([["a", "b"]] * 20, labels), "bio", how)
    assert data.labels[:3] == labels[:3]
    assert (data.labels[-1], len(remaining)) == ((["O", "B-A"], 20) if how == "repair" else (["O", "O"], 19))
    with pytest.warns(DataWarning, match="1 tag repaired|1 of 19 sentences dropped"):
        CRF().fit([["a", "b"]] * 20, labels, on_bad_tags=how)


def test_partly_known_labels_are_spelled_as_the_scheme_spells_them() -> None:
    labels = [[None, "o"], [["b-A", "o"], "o"], *[["b-A", "i-A"], ["o", "b-A"]] * 9]
    with pytest.warns(DataWarning, match="in another spelling"):
        data, _ = mended(Labelled.of([["a", "b"]] * 20, labels), None, "repair")
    assert data.labels[:3] == [[None, "O"], [["B-A", "O"], "O"], ["B-A", "I-A"]]


@pytest.mark.parametrize("family", [CRF, HMM])
def test_held_out_data_of_another_task_are_refused(family: Any) -> None:
    names = [["B-PER", "I-PER", "O"], ["O", "B-LOC"]]
    words = [["B", "I", "B"], ["B", "I"]]
    problem = (
        r"the held-out corpus has the labels B \(3\), I \(2\), and the model gives O, B-.*: they have none in common"
    )
    with pytest.raises(DataError, match=problem):
        family().fit([["a", "b", "c"], ["d", "e"]], names, dev=([["a", "b", "c"], ["d", "e"]], words))
