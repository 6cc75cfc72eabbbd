"""What `trellis.nn.CRF` adds to pytorch-crf's layer, and what it promises about its loss."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.chain.strategies import check
from trellis.errors import ChainError, ConfigError, ShapeError
from trellis.nn import CRF

L = 4
FORBIDDEN = [(0, 2), (2, 1), (3, 0)]
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
REDUCTIONS = ["none", "sum", "mean", "token_mean"]


def make_crf(batch_first: bool = True, **options: Any) -> CRF:
    torch.manual_seed(0)
    crf = CRF(L, batch_first=batch_first, **options).double()
    for parameter in crf.parameters():
        nn.init.normal_(parameter)
    return crf


def make_emissions(B: int = 4, T: int = 5, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(B, T, L, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def constraints() -> tuple[Tensor, Tensor, Tensor]:
    """Three forbidden transitions; label 1 may not start and label 2 may not end."""
    transitions = torch.ones(L, L, dtype=torch.bool)
    for i, j in FORBIDDEN:
        transitions[i, j] = False
    return transitions, torch.arange(L) != 1, torch.arange(L) != 2


def is_valid(path: list[int]) -> bool:
    return not path or (
        path[0] != 1 and path[-1] != 2 and all(pair not in FORBIDDEN for pair in itertools.pairwise(path))
    )


@torch.no_grad()
def enumerate_nll(crf: CRF, emissions: Tensor, tags: list[int], valid: Any = lambda path: True) -> float:
    """Of one sequence (T, L), over all valid paths."""

    def score(path: tuple[int, ...]) -> Tensor:
        own = emissions[range(len(path)), list(path)].sum()
        moves = sum((crf.transitions[i, j] for i, j in itertools.pairwise(path)), torch.zeros(()))
        return own + moves + crf.start_transitions[path[0]] + crf.end_transitions[path[-1]]

    paths = [path for path in itertools.product(range(L), repeat=len(tags)) if valid(list(path))]
    return float(torch.logsumexp(torch.stack([score(path) for path in paths]), 0) - score(tuple(tags)))


def rows(x: Tensor, mask: Tensor = MASK) -> list[list[int]]:
    return [own[m].tolist() for own, m in zip(x, mask, strict=True)]


class TestConstraints:
    emissions = make_emissions(scale=5.0)

    def test_hold_in_the_loss(self) -> None:
        crf = make_crf(constraints=constraints())
        tags = [0, 1, 2, 3]
        found = crf.nll(self.emissions[:1, :4], torch.tensor([tags]))
        assert found.item() == pytest.approx(enumerate_nll(crf, self.emissions[0, :4], tags, is_valid), rel=1e-10)
        assert found.item() < enumerate_nll(crf, self.emissions[0, :4], tags)

    def test_hold_in_decoding(self) -> None:
        crf = make_crf(constraints=constraints())
        free = make_crf()
        assert not all(is_valid(path) for path in free.decode(self.emissions, MASK))
        assert all(is_valid(path) for path in crf.decode(self.emissions, MASK))
        assert all(is_valid(path) for path in rows(crf.viterbi(self.emissions, MASK).tags))
        for paths in crf.scores(self.emissions, MASK).kbest(20).tags:
            assert all(is_valid(path) for path in paths.tolist())
        for drawn in crf.scores(self.emissions, MASK).sample(20):
            assert all(is_valid(path) for path in rows(drawn))

    def test_hold_in_probabilities(self) -> None:
        crf = make_crf(constraints=constraints())
        found = crf.marginals(self.emissions, MASK, pairwise=True)
        assert found.pairwise is not None
        for i, j in FORBIDDEN:
            assert found.transitions[i, j] == 0
            assert (found.pairwise[:, i, j] == 0).all()
        assert found.start[1] == 0
        assert found.end[2] == 0
        spans = [[0, 0, 2], [0, 0, 1]]
        assert crf.scores(self.emissions, MASK).span_log_prob(spans, [[0, 2], [1]]).tolist() == [-torch.inf] * 2
        entropy = crf.scores(self.emissions, MASK).entropy()
        assert (entropy < make_crf().scores(self.emissions, MASK).entropy())[:3].all()

    def test_forbidden_parameters_get_no_gradient_and_the_others_do(self) -> None:
        crf = make_crf(constraints=constraints())
        crf.nll(self.emissions, torch.zeros(4, 5, dtype=torch.int64)).backward()
        assert crf.transitions.grad is not None
        zero = crf.transitions.grad == 0
        assert sorted(map(tuple, zero.nonzero().tolist())) == FORBIDDEN

    def test_transitions_alone_may_be_given(self) -> None:
        crf = make_crf(constraints=constraints()[0])
        best = crf.decode(self.emissions)
        assert all(pair not in FORBIDDEN for path in best for pair in itertools.pairwise(path))

    def test_stay_out_of_the_state_dict_so_that_checkpoints_fit_both_ways(self) -> None:
        keys = {"start_transitions", "end_transitions", "transitions"}
        free, bound = make_crf(), make_crf(constraints=constraints())
        assert set(free.state_dict()) == set(bound.state_dict()) == keys
        bound.load_state_dict(free.state_dict())
        free.load_state_dict(bound.state_dict())

    def test_move_with_the_layer(self) -> None:
        crf = make_crf(constraints=constraints()).to("meta")
        assert {buffer.device.type for buffer in crf.buffers()} == {"meta"}
        assert len(list(crf.buffers())) == 3

    def test_gold_path_against_them_is_an_error_that_says_where(self) -> None:
        crf = make_crf(constraints=constraints())
        tags = torch.tensor([[0, 0, 2, 0, 0]])
        with pytest.raises(ValueError, match=r"sequence 0 .* from tag 0 to tag 2 has score -inf \(position 2\)"):
            crf.nll(self.emissions[:1], tags)

    @pytest.mark.parametrize("bad", [torch.ones(3, 3, dtype=torch.bool), torch.ones(L, L)])
    def test_of_another_shape_or_type_are_refused(self, bad: Tensor) -> None:
        with pytest.raises(ValueError, match=r"constraints of transitions must be bool \(4, 4\) for num_tags = 4, got"):
            CRF(L, constraints=bad)


class TestPlaces:
    @pytest.mark.parametrize("batch_first", [True, False])
    def test_lengths_equal_the_mask(self, batch_first: bool) -> None:
        crf, emissions, tags = make_crf(batch_first), make_emissions(), torch.arange(20).reshape(4, 5) % L
        lengths = torch.tensor([5, 0, 3, 1])
        mask = torch.arange(5) < lengths[:, None]
        if not batch_first:
            emissions, tags, mask = (x.transpose(0, 1) for x in (emissions, tags, mask))
        by_mask, by_lengths = {"mask": mask}, {"lengths": lengths}
        assert torch.equal(crf.nll(emissions, tags, **by_mask), crf.nll(emissions, tags, **by_lengths))
        assert crf.decode(emissions, **by_mask) == crf.decode(emissions, **by_lengths)
        assert [len(path) for path in crf.decode(emissions, **by_lengths)] == lengths.tolist()
        for name in ("viterbi", "marginals"):
            first, second = (getattr(crf, name)(emissions, **given) for given in (by_mask, by_lengths))
            first, second = (getattr(x, "tags", getattr(x, "tokens", x)) for x in (first, second))
            assert torch.equal(first, second)
        first, second = (crf.scores(emissions, **given) for given in (by_mask, by_lengths))
        assert torch.equal(first.log_partition(), second.log_partition())
        assert torch.equal(first.sample(3), second.sample(3))

    @pytest.mark.parametrize("batch_first", [True, False])
    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_masks_with_holes_equal_the_tokens_alone(self, batch_first: bool, reduction: str) -> None:
        crf, emissions, tags = make_crf(batch_first), make_emissions(), torch.arange(20).reshape(4, 5) % L
        alone = torch.stack(
            [
                torch.tensor(enumerate_nll(crf, e[m], t[m].tolist()) if m.any() else 0.0, dtype=torch.float64)
                for e, t, m in zip(emissions, tags, MASK, strict=True)
            ]
        )
        count = {"mean": 4, "token_mean": int(MASK.sum())}.get(reduction, 1)
        expected = alone if reduction == "none" else alone.sum() / count
        parts = (emissions, tags, MASK)
        if not batch_first:
            parts = tuple(x.transpose(0, 1) for x in parts)  # type: ignore[assignment]
        torch.testing.assert_close(crf.nll(*parts, reduction=reduction), expected)
        torch.testing.assert_close(crf(*parts, reduction=reduction), -expected)

    @pytest.mark.parametrize("masked", [True, False])
    @pytest.mark.parametrize("reduction", REDUCTIONS)
    @pytest.mark.parametrize("weighted", [True, False])
    def test_ignored_places_are_holes(self, masked: bool, reduction: str, weighted: bool) -> None:
        crf, emissions = make_crf(), make_emissions()
        tags = torch.where(MASK, 1, -100)
        options: dict[str, Any] = {"reduction": reduction}
        if weighted:
            options["label_weights"] = torch.arange(1.0, L + 1)
        outer = torch.ones_like(MASK)
        found = crf.nll(emissions, tags, outer if masked else None, **options)
        torch.testing.assert_close(found, crf.nll(emissions, torch.ones_like(tags), MASK, **options))

    def test_ignore_index_is_the_users_choice(self) -> None:
        crf, emissions = make_crf(ignore_index=3), make_emissions()
        tags = torch.where(MASK, 1, 3)
        expected = make_crf().nll(emissions, tags, MASK)
        torch.testing.assert_close(crf.nll(emissions, tags), expected)
        with pytest.raises(ValueError, match=r"tags of sequence 1, position 1 are -100: must be in 0..3"):
            crf.nll(emissions, torch.where(MASK, 1, -100))

    def test_decoding_gives_lists_of_one_label_a_token(self) -> None:
        crf, emissions = make_crf(), make_emissions()
        best = crf.decode(emissions, MASK)
        assert [type(label) for path in best for label in path] == [int] * int(MASK.sum())
        assert [len(path) for path in best] == MASK.sum(1).tolist()
        tags = crf.viterbi(emissions, MASK).tags
        assert best == rows(tags)
        assert (tags[~MASK] == -1).all()

    @pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
    def test_batch_of_nothing(self, shape: tuple[int, int]) -> None:
        crf, emissions = make_crf(), torch.empty(*shape, L, dtype=torch.float64)
        tags = torch.empty(shape, dtype=torch.int64)
        assert crf.decode(emissions) == [[]] * shape[0]
        assert crf.nll(emissions, tags).item() == 0.0
        assert crf.nll(emissions, tags, reduction="none").tolist() == [0.0] * shape[0]
        assert crf.viterbi(emissions).tags.shape == shape
        assert crf.marginals(emissions).tokens.shape == (*shape, L)
        crf.nll(emissions, tags).backward()
        assert all((p.grad == 0).all() for p in crf.parameters() if p.grad is not None)


class TestLoss:
    def test_partial_labels_cost_the_log_of_their_probability(self) -> None:
        crf, emissions = make_crf(), make_emissions()
        allowed = torch.rand(4, 5, L, generator=torch.Generator().manual_seed(2)) < 0.5
        allowed[..., 0] = True
        found = crf.nll(emissions, mask=MASK, allowed=allowed, reduction="none")
        scores = crf.scores(emissions, MASK)
        expected = scores.log_partition() - scores.log_partition(allowed=allowed)
        torch.testing.assert_close(found, expected)
        one_known = torch.ones(4, 5, L, dtype=torch.bool)
        one_known[0, 2] = torch.arange(L) == 3
        marginal = crf.marginals(emissions, MASK).tokens[0, 2, 3]
        torch.testing.assert_close(crf.nll(emissions, mask=MASK, allowed=one_known).exp(), 1 / marginal)

    def test_partial_labels_that_leave_one_path_are_tags(self) -> None:
        crf, emissions = make_crf(), make_emissions()
        tags = torch.arange(20).reshape(4, 5) % L
        allowed = nn.functional.one_hot(tags, L).bool()
        torch.testing.assert_close(crf.nll(emissions, mask=MASK, allowed=allowed), crf.nll(emissions, tags, MASK))

    def test_label_weights_without_transitions_are_those_of_cross_entropy(self) -> None:
        crf, emissions = make_crf(), make_emissions()
        for parameter in crf.parameters():
            nn.init.zeros_(parameter)
        tags, weights = torch.arange(20).reshape(4, 5) % L, torch.tensor([0.0, 1.0, 2.5, 0.5], dtype=torch.float64)
        found = crf.nll(emissions, tags, MASK, label_weights=weights)
        expected = nn.functional.cross_entropy(emissions[MASK], tags[MASK], weights, reduction="sum")
        torch.testing.assert_close(found, expected)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("T", [1, 7, 1000])
    def test_certain_path_costs_nothing_and_never_less(self, dtype: torch.dtype, T: int) -> None:
        """The gold path has probability one up to rounding; a sum of rounded parts could come out below zero."""
        crf = make_crf().to(dtype)
        generator = torch.Generator().manual_seed(4)
        tags = torch.randint(L, (8, T), generator=generator)
        base = torch.randn(8, T, L, generator=generator, dtype=dtype)
        for margin in (20.0, 200.0, 9000.0):
            emissions = base + margin * nn.functional.one_hot(tags, L).to(dtype)
            allowed = nn.functional.one_hot(tags, L).bool()
            for loss in (
                crf.nll(emissions, tags, reduction="none"),
                crf.nll(emissions, allowed=allowed, reduction="none"),
                crf.nll(emissions, tags, label_weights=torch.ones(L), reduction="none"),
            ):
                assert (loss >= 0).all()
                assert (loss <= 1e-3 * T * max(1.0, margin / 1000)).all()

    @check(
        st.integers(1, 4),
        st.integers(1, 6),
        st.sampled_from([0.1, 1.0, 30.0, 1e3, 1e4]),
        st.sampled_from([torch.float32, torch.float64]),
        st.integers(0, 2**31),
        max_examples=100,
    )
    def test_is_never_negative(self, B: int, T: int, scale: float, dtype: torch.dtype, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        crf = make_crf().to(dtype)
        emissions = scale * torch.randn(B, T, L, generator=generator, dtype=dtype)
        mask = torch.rand(B, T, generator=generator) < 0.7
        best = crf.viterbi(emissions, mask).tags  # the likeliest path, where rounding can hurt most
        some = torch.randint(L, (B, T), generator=generator)
        for tags in (best, torch.where(mask, some, -100)):
            for backend_loss in (
                crf.nll(emissions, tags, mask, reduction="none"),
                crf.nll(emissions, tags, mask, reduction="none", label_weights=torch.rand(L, generator=generator)),
            ):
                assert (backend_loss >= 0).all()


@pytest.mark.parametrize("reduction", ["sum", "mean", "token_mean"])
@pytest.mark.parametrize("size", [0, 3])
def test_batch_without_tokens_costs_nothing_and_leaves_the_parameters_alone(reduction: str, size: int) -> None:
    crf = CRF(4, batch_first=True)
    emissions = torch.randn(size, 5, 4, requires_grad=True)
    mask = torch.zeros(size, 5, dtype=torch.bool)
    loss = crf.nll(emissions, torch.zeros(size, 5, dtype=torch.int64), mask, reduction=reduction)
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is not None and not p.grad.any() and not p.grad.isnan().any() for p in crf.parameters())


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
@pytest.mark.parametrize("batch_first", [True, False])
def test_one_hot_tags_are_the_labels_they_stand_for(kind, batch_first):
    crf, emissions = make_crf(batch_first), make_emissions()
    tags = torch.arange(20).reshape(4, 5) % L
    if not batch_first:
        emissions, tags = emissions.transpose(0, 1), tags.T
    one_hot = nn.functional.one_hot(tags, L).to(kind)
    torch.testing.assert_close(crf.nll(emissions, one_hot), crf.nll(emissions, tags))
    torch.testing.assert_close(crf(emissions, one_hot), crf(emissions, tags))


def test_a_place_of_zeros_in_one_hot_tags_holds_no_token():
    crf, emissions = make_crf(), make_emissions()
    tags = torch.arange(20).reshape(4, 5) % L
    one_hot = nn.functional.one_hot(tags, L) * MASK.unsqueeze(2)
    torch.testing.assert_close(crf.nll(emissions, one_hot), crf.nll(emissions, tags, MASK))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("columns", [L - 1, L + 1])
def test_one_hot_tags_with_a_wrong_number_of_columns_are_told_so(columns, batch_first):
    crf = CRF(L, batch_first=batch_first)
    emissions = torch.zeros(2, 4, L)
    message = rf"the last dimension of one-hot tags must be num_tags = {L}, got {columns} in \(2, 4, {columns}\)"
    for ask in (crf, crf.nll):
        with pytest.raises(ShapeError, match=message):
            ask(emissions, torch.zeros(2, 4, columns, dtype=torch.int64))


def test_tags_that_are_not_one_hot_are_refused():
    crf, emissions = make_crf(), make_emissions()
    for wrong in (torch.ones(4, 5, L), torch.full((4, 5, L), 0.25)):
        with pytest.raises(ChainError, match="one-hot tags must be a single 1 among zeros"):
            crf.nll(emissions, wrong)


class TestErrors:
    crf = make_crf()
    emissions = make_emissions()
    tags = torch.zeros(4, 5, dtype=torch.int64)

    def test_options(self) -> None:
        with pytest.raises(ConfigError, match=r"^invalid reduction: median$"):
            self.crf.nll(self.emissions, self.tags, reduction="median")
        allowed = torch.ones(4, 5, L, dtype=torch.bool)
        for options, came in (({}, "neither"), ({"tags": self.tags, "allowed": allowed}, "both")):
            with pytest.raises(ChainError, match=f"^give either tags or allowed, got {came}$"):
                self.crf.nll(self.emissions, **options)
        with pytest.raises(ChainError, match=r"^give either a mask or lengths, got both$"):
            self.crf.nll(self.emissions, self.tags, MASK, lengths=torch.tensor([1, 1, 1, 1]))
        with pytest.raises(ValueError, match=r"^label_weights must be \(L,\) = \(4,\), got \(3,\)$"):
            self.crf.nll(self.emissions, self.tags, label_weights=torch.ones(3))

    @pytest.mark.parametrize(
        ("lengths", "message"),
        [
            ([1, 2, 3], r"lengths must be integers \(B,\) = \(4,\), got torch.int64 \(3,\)"),
            ([1.0, 1.0, 1.0, 1.0], r"lengths must be integers \(B,\) = \(4,\), got torch.float32 \(4,\)"),
            ([1, 2, 3, 6], r"lengths must be in 0..5, the size of the time axis, got \[1, 2, 3, 6\]"),
            ([1, 2, 3, -1], r"lengths must be in 0..5, the size of the time axis, got \[1, 2, 3, -1\]"),
        ],
    )
    def test_lengths(self, lengths: list[Any], message: str) -> None:
        with pytest.raises(ShapeError, match=f"^{message}$"):
            self.crf.decode(self.emissions, lengths=torch.tensor(lengths))

    @pytest.mark.parametrize(
        "lengths",
        [
            torch.tensor([2**62, 2**62, 2**62, 2**62 + 5]),
            torch.from_numpy(np.array([2**63, 2**63, 1, 1], np.uint64)),
            torch.tensor([True, True, True, True]),
            torch.tensor([1j, 1, 1, 1]),
            [2**64, 1, 1, 1],
            [5, 5, 5, 9],
        ],
        ids=str,
    )
    def test_lengths_beyond_the_time_axis_or_no_integers(self, lengths: Any) -> None:
        with pytest.raises(ShapeError, match=r"^lengths must be"):
            self.crf.nll(self.emissions, self.tags, lengths=lengths)

    @pytest.mark.parametrize("lengths", [[5, 0, 2, 1], torch.tensor([5, 0, 2, 1], dtype=torch.uint8), (5, 0, 2, 1)])
    def test_lengths_of_any_integers_are_fine(self, lengths: Any) -> None:
        found = self.crf.nll(self.emissions, self.tags, lengths=lengths)
        assert torch.equal(found, self.crf.nll(self.emissions, self.tags, lengths=torch.tensor([5, 0, 2, 1])))
