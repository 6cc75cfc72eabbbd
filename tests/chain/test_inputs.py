"""What the NumPy side takes, what it gives back for nothing, and the worked figures."""

import numpy as np
import numpy.typing as npt
import pytest

from tests.chain import oracle
from tests.chain.oracle import NEG_INF
from tests.chain.strategies import grid_case
from tests.chain.test_arrays import close, make
from trellis import chain
from trellis.chain import runtime


class TestInputs:
    def test_worked_log_sum_exp_figures(self) -> None:
        scores = chain.ChainScores([[9.0, 1.0, 7.0], [1.0, 999.0, 4.0]], [1, 1], np.zeros((3, 3)))
        assert scores.log_partition() == pytest.approx([9.1272, 999.0], abs=5e-5)

    def test_worked_figures_of_the_three_boxes(self) -> None:
        emissions = np.log([[0.5, 0.4, 0.7], [0.5, 0.6, 0.3], [0.5, 0.4, 0.7]])
        transitions = np.log([[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
        scores = chain.ChainScores(emissions, [3], transitions, np.log([0.2, 0.4, 0.4]))
        assert np.exp(scores.log_partition()) == pytest.approx([0.130218], abs=1e-9)
        best = scores.viterbi()
        assert best.tags.tolist() == [2, 2, 2]
        assert np.exp(best.scores) == pytest.approx([0.0147], abs=1e-9)

    def test_start_and_end_are_zero_where_left_out(self) -> None:
        emissions, transitions = np.ones((2, 2)), np.zeros((2, 2))
        short = chain.ChainScores(emissions, [2], transitions)
        full = chain.ChainScores(emissions, [2], transitions, np.zeros(2), np.zeros(2))
        assert short.log_partition() == full.log_partition()

    def test_strided_and_reversed_arrays_mean_what_they_say(self) -> None:
        case = grid_case(3, 0.2, 1.0)[0]
        wide = np.repeat(case.emissions, 2, axis=1)[:, ::2]
        turned = np.asfortranarray(case.transitions)
        assert not wide.flags.c_contiguous
        scores = chain.ChainScores(wide, case.lengths.astype(np.int32), turned, case.start[::-1][::-1], case.end)
        close(scores.log_partition(), oracle.log_partition(case))

    @pytest.mark.parametrize(
        ("given", "kept"),
        [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64)],
    )
    def test_dtypes(self, given: npt.DTypeLike, kept: npt.DTypeLike) -> None:
        scores = chain.ChainScores(np.ones((2, 2), dtype=given), [2], np.zeros((2, 2)))
        assert scores.emissions.dtype == scores.transitions.dtype == scores.start.dtype == kept
        assert scores.marginals().tokens.dtype == kept
        assert scores.log_partition().dtype == np.float64

    def test_inputs_are_left_alone(self) -> None:
        case, tags = grid_case(3, 0.2, 1.0)
        copies = [x.copy() for x in case.arrays()]
        scores = make(case)
        scores.marginals(allowed=np.ones(case.emissions.shape, dtype=bool))
        scores.viterbi()
        scores.nll(tags, weights=np.ones(len(tags)))
        scores.sample()
        for before, after, kept in zip(
            copies,
            case.arrays(),
            (scores.emissions, scores.lengths, scores.transitions, scores.start, scores.end),
            strict=True,
        ):
            assert np.array_equal(before, after)
            assert np.array_equal(before, kept)

    @pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
    def test_batch_without_tokens(self, lengths: list[int]) -> None:
        scores = chain.ChainScores(np.empty((0, 3)), lengths, np.full((3, 3), NEG_INF), np.full(3, NEG_INF))
        zeros = [0.0] * len(lengths)
        assert scores.log_partition().tolist() == zeros
        assert scores.score([]).tolist() == zeros
        assert scores.entropy().tolist() == zeros
        assert scores.nll([], weights=[]).tolist() == zeros
        assert scores.viterbi().scores.tolist() == zeros
        assert [tags.shape for tags in scores.kbest(3).tags] == [(1, 0)] * len(lengths)
        assert [values.tolist() for values in scores.kbest(3).scores] == [[0.0]] * len(lengths)
        for pairwise in (False, True):
            found = scores.marginals(pairwise=pairwise)
            assert found.log_partition.tolist() == zeros
            assert (found.tokens.shape, found.transitions.sum(), found.start.sum()) == ((0, 3), 0.0, 0.0)
        assert scores.sample(2).shape == (2, 0)
        assert scores.span_log_prob(np.empty((0, 3), np.int64), []).shape == (0,)

    def test_unknown_instruction_set_is_refused(self) -> None:
        now = runtime.instruction_set()
        with pytest.raises(ValueError, match="this machine has no instruction set 'mmx'"):
            runtime.use_instruction_set("mmx")
        assert runtime.instruction_set() == now
