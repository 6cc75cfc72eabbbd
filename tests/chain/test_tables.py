"""Tables of forward, backward and Viterbi: each cell is a sum or a maximum over all paths through it, enumerated."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from hypothesis.extra.numpy import arrays as drawn
from scipy.special import logsumexp

from tests.chain import oracle
from tests.chain.oracle import NEG_INF, Case
from tests.chain.strategies import TIED, allowed_masks, check, forbidding_cases, grid_case, labelled_cases, valid_cases
from trellis import chain
from trellis.chain import torch as torch_chain
from trellis.chain.tables import log_sum
from trellis.errors import NonFiniteError, NoPathError, ShapeError

LOGS = st.floats(-1e300, 1e300, allow_nan=False) | st.just(-np.inf) | st.floats(-40.0, 40.0)
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def beginnings(case: Case, b: int, t: int, label: int) -> list[float]:
    """The score of every beginning of a sequence up to position t that has this label there."""
    emissions, steps = case.split(case.emissions)[b][: t + 1], case.steps(b)
    open_end = Case(case.emissions, case.lengths, case.transitions, case.start, np.zeros(case.num_labels))
    paths = itertools.product(range(case.num_labels), repeat=t)
    return [oracle.path_sum(open_end, emissions, steps, (*path, label)) for path in paths]


def endings(case: Case, b: int, t: int, label: int) -> list[float]:
    """The score of every end of a sequence after position t that follows this label there."""
    emissions, steps = case.split(case.emissions)[b][t:].copy(), case.steps(b)[t:]
    emissions[0] = 0.0
    open_start = Case(case.emissions, case.lengths, case.transitions, np.zeros(case.num_labels), case.end)
    paths = itertools.product(range(case.num_labels), repeat=len(emissions) - 1)
    return [oracle.path_sum(open_start, emissions, steps, (label, *path)) for path in paths]


def cells(case: Case, join, scores) -> np.ndarray:
    """`join` over the scores of each cell, (N, L)."""
    places = [(b, t) for b, length in enumerate(case.lengths.tolist()) for t in range(length)]
    rows = [[join(scores(case, b, t, j)) for j in range(case.num_labels)] for b, t in places]
    return np.array(rows).reshape(-1, case.num_labels)


def tables(case: Case) -> list[tuple[chain.ChainTable, chain.ChainTable]]:
    """Forward and backward tables of arrays, tensors and padded tensors."""
    plain = [torch.from_numpy(x) for x in case.arrays()]
    asked = [chain.ChainScores(*case.arrays()), torch_chain.ChainScores(*plain)]
    return [(scores.forward_table(), scores.backward_table()) for scores in asked]


@pytest.mark.parametrize("with_edges", [False, True])
@pytest.mark.parametrize(("L", "forbidden"), [(1, 0.0), (2, 0.3), (3, 0.0), (3, 0.4)])
def test_forward_and_backward_of_every_length_are_sums_over_all_beginnings_and_ends(L, forbidden, with_edges) -> None:
    sums_over_beginnings_and_ends(grid_case(L, forbidden, 2.0, with_edges)[0])


@check(forbidding_cases(), max_examples=40)
def test_forward_and_backward_hold_where_there_is_no_path(case: Case) -> None:
    sums_over_beginnings_and_ends(case)


def sums_over_beginnings_and_ends(case: Case) -> None:
    for forward, backward in tables(case):
        np.testing.assert_allclose(forward.values, cells(case, logsumexp, beginnings), **EXACT)
        np.testing.assert_allclose(backward.values, cells(case, logsumexp, endings), **EXACT)
        for table in (forward, backward):
            np.testing.assert_allclose(table.total, oracle.log_partition(case), **EXACT)
            full = np.flatnonzero(case.lengths)
            np.testing.assert_allclose(logsumexp(table.last[full], axis=1), table.total[full], **EXACT)
            assert (table.total[case.lengths == 0] == 0).all()


@check(valid_cases(TIED), max_examples=40)
def test_delta_is_the_maximum_over_all_beginnings_and_psi_leads_back_along_the_best_path(case: Case) -> None:
    scores = chain.ChainScores(*case.arrays())
    table, found = scores.viterbi_table(), scores.viterbi()
    np.testing.assert_allclose(table.values, cells(case, max, beginnings), **EXACT)
    np.testing.assert_array_equal(table.path, found.tags)
    np.testing.assert_array_equal(table.total, found.scores)
    np.testing.assert_array_equal(scores.forward_table().path, found.tags)
    for b, path in enumerate(case.split(table.path)):
        own = table.part(b)
        for t in range(1, len(path)):
            assert own.back[t, path[t]] == path[t - 1]
        if len(path):
            np.testing.assert_array_equal(own.back[0], -1)
            np.testing.assert_array_equal(own.last[0], own.values[-1] + case.end)
            assert path[-1] == own.last[0].argmax()


@check(labelled_cases(), st.data(), max_examples=25)
def test_forbidden_labels_are_left_out_and_tensors_give_the_same(labelled, data) -> None:
    case, tags = labelled
    allowed = data.draw(allowed_masks(case, tags))
    scores = chain.ChainScores(*case.arrays())
    tensors = torch_chain.ChainScores(*(torch.from_numpy(x) for x in case.arrays()))
    for name in ("forward_table", "backward_table", "viterbi_table"):
        table = getattr(scores, name)(allowed=allowed)
        np.testing.assert_allclose(table.total, getattr(scores.restricted(allowed), name)().total)
        same = getattr(tensors, name)(allowed=torch.from_numpy(allowed))
        np.testing.assert_array_equal(same.values, table.values)
        assert str(same) == str(table)


def test_padding_has_no_rows_and_gradients_do_not_matter() -> None:
    emissions = torch.arange(12.0).reshape(2, 3, 2).requires_grad_()
    mask = torch.tensor([[True, False, True], [False, False, False]])
    table = torch_chain.ChainScores.padded(emissions, mask, torch.zeros(2, 2)).viterbi_table()
    np.testing.assert_array_equal(table.lengths, [2, 0])
    np.testing.assert_array_equal(table.values, [[0, 1], [5, 6]])
    np.testing.assert_array_equal(table.last, [[5, 6], [NEG_INF, NEG_INF]])
    np.testing.assert_array_equal(table.total, [6, 0])


SCORES = chain.ChainScores([[2, 1], [0, 1], [1, 0]], [2, 0, 1], [[1, 0], [0, -np.inf]])


def test_it_prints_as_a_table_with_the_best_path_marked() -> None:
    table = SCORES.viterbi_table(labels=["N", "V|"], tokens=[["狗", "barks"], [], ["no"]])
    assert str(table).splitlines() == [
        "Viterbi: delta, ← psi, ● best path",
        "",
        r"| sequence | token |       N |   V\| |",
        r"| :------- | :---- | ------: | ----: |",
        r"| 0        | 狗    |     ● 2 |     1 |",
        r"| 0        | barks | ● 3 ← N | 3 ← N |",
        r"| 0        | end   |     ● 3 |     3 |",
        r"| 2        | no    |     ● 1 |     0 |",
        r"| 2        | end   |     ● 1 |     0 |",
    ]
    assert repr(table) == str(table)
    html = table._repr_html_()
    assert html.count("font-weight:bold") == 5
    assert "● 3 ← N" in html
    assert "V|" in html
    assert '<th style="text-align:left">token</th>' in html


def test_one_sequence_names_its_result() -> None:
    one = SCORES.part(2)
    assert one.forward_table().grid().title == "Forward: alpha, ● best path; log Z 1.3133"
    assert one.viterbi_table().grid().title == "Viterbi: delta, ← psi, ● best path; best score 1"
    assert [row[0] for row in one.backward_table().grid().rows] == ["start", "0"]
    assert SCORES.forward_table().part(-1).grid() == one.forward_table().grid()


def test_records_hold_numbers() -> None:
    table = SCORES.viterbi_table(labels=["N", "V"])
    assert table.to_records()[1] == {"sequence": 0, "token": "1", "N": 3.0, "V": 3.0}
    assert table.to_dict()["path"] == [0, 0, 0]


def test_an_empty_batch_has_an_empty_table() -> None:
    table = chain.ChainScores(np.empty((0, 3)), [], np.zeros((3, 3))).viterbi_table()
    assert table.values.shape == table.last.shape == (0, 3)
    assert table.grid().rows == ()


def test_without_a_path_forward_shows_where_it_ends_and_viterbi_refuses() -> None:
    stuck = chain.ChainScores(np.zeros((3, 2)), [1, 2], np.full((2, 2), -np.inf))
    table = stuck.forward_table()
    np.testing.assert_array_equal(table.total, [np.log(2), -np.inf])
    np.testing.assert_array_equal(table.path, [0, -1, -1])
    with pytest.raises(NoPathError, match=r"sequence 1 of length 2 has no valid path: .* at position 1"):
        stuck.viterbi_table()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_named(bad) -> None:
    emissions = np.zeros((3, 2))
    emissions[2, 1] = bad
    with pytest.raises(NonFiniteError, match="emissions of sequence 1, position 1, label 1 are"):
        chain.ChainScores(emissions, [1, 2], np.zeros((2, 2))).forward_table()
    with pytest.raises(NonFiniteError, match=r"start\[1\] is"):
        chain.ChainScores(np.zeros((1, 2)), [1], np.zeros((2, 2)), [0, bad]).backward_table()
    edges = chain.ChainScores(np.zeros((2, 2)), [2], np.zeros((2, 2)), edges=np.full((1, 2, 2), bad))
    with pytest.raises(NonFiniteError, match="edges of sequence 0, position 1"):
        edges.viterbi_table()


def test_sums_that_overflow_are_named() -> None:
    huge = chain.ChainScores(np.full((2, 2), 1.7e308), [2], np.zeros((2, 2)))
    for ask in (huge.forward_table, huge.backward_table, huge.viterbi_table):
        with pytest.raises(NonFiniteError, match="add up to more than float64 holds"):
            ask()


def test_a_label_that_no_path_reaches_shows_no_label_before_it() -> None:
    scores = chain.ChainScores([[2, 1], [0, -np.inf]], lengths=[2], transitions=np.zeros((2, 2)))
    assert "| 1     | ● 2 ← 0 | -inf |" in str(scores.viterbi_table())


def test_names_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"labels must be \(L,\) = \(2,\) names, got 1"):
        SCORES.forward_table(labels=["N"])
    with pytest.raises(ShapeError, match=r"tokens must be \(N,\) = \(3,\) to match emissions, got 2"):
        SCORES.forward_table(tokens=["a", "b"])
    with pytest.raises(ShapeError, match="labels must be a list of strings, got 5"):
        SCORES.forward_table(labels=5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="there is no sequence 9: the batch has 3"):
        SCORES.forward_table().part(9)
    with pytest.raises(ShapeError, match=r"lengths \[2, 0, 1\] of the sequences, got \[1, 0, 2\]"):
        SCORES.forward_table(tokens=[["a"], [], ["b", "c"]])
    with pytest.raises(ShapeError, match=r"lengths \[2, 0, 1\] of the sequences, got \[2, '5', 1\]"):
        SCORES.forward_table(tokens=[["a", "b"], 5, ["c"]])  # type: ignore[list-item]
    with pytest.raises(ShapeError, match="a sequence is asked for by its number, got 'first'"):
        SCORES.forward_table().part("first")  # type: ignore[arg-type]


def test_tokens_may_be_arrays_and_come_from_a_generator() -> None:
    tokens = [["a", "b"], [], ["c"]]
    for own in (map(np.array, tokens), (x for x in tokens), iter("abc")):
        assert SCORES.forward_table(tokens=own).tokens == ("a", "b", "c")  # type: ignore[arg-type]


@given(drawn(np.float64, array_shapes(min_dims=2, max_dims=3, max_side=4), elements=LOGS), st.integers(-1, 1))
def test_log_sums_are_those_of_scipy(values, axis) -> None:
    np.testing.assert_allclose(log_sum(values, axis), logsumexp(values, axis=axis), rtol=1e-13, atol=1e-300)


def test_what_is_nearly_certain_keeps_its_digits() -> None:
    """The log of a probability near 1 is tiny, and as exact as any other number."""
    assert log_sum(np.array([0.0, -50.0]), 0) == pytest.approx(np.exp(-50.0), rel=1e-15)
    assert log_sum(np.array([-np.inf, -np.inf]), 0) == -np.inf
    assert log_sum(np.empty((0, 3)), 1).shape == (0,)
