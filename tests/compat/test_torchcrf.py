"""`trellis.compat.torchcrf.CRF` behaves as `torchcrf.CRF`: the same calls against both."""

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torchcrf
from torch import Tensor, nn

from trellis.compat import torchcrf as compat

# pytorch-crf passes its uint8 masks to torch.where, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:where received a uint8 condition tensor")

BOTH = pytest.mark.parametrize("CRF", [torchcrf.CRF, compat.CRF], ids=["torchcrf", "trellis"])
REDUCTIONS = ["none", "sum", "mean", "token_mean"]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}


@dataclass(frozen=True)
class Batch:
    """Emissions, tags and a contiguous mask in the axis order of a layer."""

    emissions: Tensor
    tags: Tensor
    mask: Tensor  # bool

    def masks(self) -> list[Tensor | None]:
        return [None, self.mask, self.mask.to(torch.uint8)]


def make_pair(num_tags: int, batch_first: bool = False, seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """Both layers with the same parameters, far enough from zero to matter."""
    torch.manual_seed(seed)
    theirs = torchcrf.CRF(num_tags, batch_first=batch_first)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = compat.CRF(num_tags, batch_first=batch_first)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def make_batch(
    lengths: list[int], num_tags: int, batch_first: bool = False, dtype: torch.dtype = torch.float32
) -> Batch:
    generator = torch.Generator().manual_seed(1)
    T, B = max(lengths), len(lengths)
    emissions = torch.randn(T, B, num_tags, generator=generator, dtype=dtype)
    tags = torch.randint(num_tags, (T, B), generator=generator)
    mask = torch.arange(T).unsqueeze(-1) < torch.tensor(lengths)
    if batch_first:
        emissions, tags, mask = (x.transpose(0, 1).contiguous() for x in (emissions, tags, mask))
    return Batch(emissions, tags, mask)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def gradients(crf: nn.Module, batch: Batch, mask: Tensor | None, reduction: str) -> dict[str, Tensor]:
    """Gradients of all parameters and the emissions after one backward pass."""
    emissions = batch.emissions.clone().requires_grad_()
    crf.zero_grad()
    value = crf(emissions, batch.tags, mask=mask, reduction=reduction)
    (value * torch.linspace(1, 2, value.numel(), dtype=value.dtype).reshape(value.shape)).sum().backward()
    found = {name: parameter.grad for name, parameter in crf.named_parameters()}
    found["emissions"] = emissions.grad
    return {name: grad.clone() for name, grad in found.items() if grad is not None}


class TestConstruction:
    @pytest.mark.parametrize("num_tags", [0, -1])
    def test_number_of_tags_must_be_positive(self, num_tags: int) -> None:
        assert_same_error(lambda module: module.CRF(num_tags))

    @BOTH
    def test_batch_comes_second_unless_asked_for(self, CRF: Any) -> None:
        assert CRF(3).batch_first is False
        assert CRF(3, True).batch_first is True
        assert CRF(num_tags=3, batch_first=True).num_tags == 3

    @BOTH
    def test_parameters(self, CRF: Any) -> None:
        parameters = [(name, tuple(p.shape), p.dtype, p.requires_grad) for name, p in CRF(5).named_parameters()]
        assert parameters == [
            ("start_transitions", (5,), torch.float32, True),
            ("end_transitions", (5,), torch.float32, True),
            ("transitions", (5, 5), torch.float32, True),
        ]

    def test_same_seed_gives_the_same_parameters(self) -> None:
        states = []
        for module in (torchcrf, compat):
            torch.manual_seed(11)
            states.append(list(module.CRF(4).parameters()))
        assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))

    @BOTH
    def test_reset_parameters_draws_again(self, CRF: Any) -> None:
        crf = CRF(4)
        nn.init.ones_(crf.transitions)
        crf.reset_parameters()
        assert crf.transitions.abs().max() <= 0.1

    @pytest.mark.parametrize("batch_first", [False, True])
    def test_repr(self, batch_first: bool) -> None:
        theirs, ours = make_pair(7, batch_first)
        assert repr(ours) == repr(theirs) == "CRF(num_tags=7)"

    def test_both_are_modules_that_nest_move_and_copy(self) -> None:
        theirs, ours = make_pair(3)
        batch = make_batch([4, 2], 3)
        moved = copy.deepcopy(nn.ModuleDict({"crf": ours})).double().float()
        assert list(moved.state_dict()) == list(nn.ModuleDict({"crf": theirs}).state_dict())
        assert_close(moved["crf"](batch.emissions, batch.tags), theirs(batch.emissions, batch.tags))


class TestCheckpoints:
    def test_load_both_ways(self) -> None:
        theirs, ours = make_pair(4)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        for source, target in [(theirs, compat.CRF(4)), (ours, torchcrf.CRF(4))]:
            buffer = io.BytesIO()
            torch.save(source.state_dict(), buffer)
            buffer.seek(0)
            target.load_state_dict(torch.load(buffer, weights_only=True), strict=True)
            assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))

    @BOTH
    def test_wrong_size_is_refused(self, CRF: Any) -> None:
        with pytest.raises(RuntimeError, match="size mismatch for start_transitions"):
            CRF(4).load_state_dict(torchcrf.CRF(5).state_dict())


SHAPES = pytest.mark.parametrize(
    ("lengths", "num_tags"),
    [([5, 3, 1], 4), ([1, 1], 3), ([6], 2), ([3, 5], 1), ([2, 7, 7, 4, 1, 6], 9)],
    ids=["ragged", "one token each", "one sequence", "one tag", "larger"],
)
ORDERS = pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


@SHAPES
@ORDERS
@DTYPES
class TestResults:
    @pytest.fixture
    def setting(
        self, lengths: list[int], num_tags: int, batch_first: bool, dtype: torch.dtype
    ) -> tuple[nn.Module, nn.Module, Batch]:
        theirs, ours = make_pair(num_tags, batch_first)
        return theirs.to(dtype), ours.to(dtype), make_batch(lengths, num_tags, batch_first, dtype)

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_log_likelihood(self, setting: tuple[nn.Module, nn.Module, Batch], reduction: str) -> None:
        theirs, ours, batch = setting
        for mask in batch.masks():
            expected = theirs(batch.emissions, batch.tags, mask=mask, reduction=reduction)
            actual = ours(batch.emissions, batch.tags, mask=mask, reduction=reduction)
            assert_close(actual, expected)
            assert actual.requires_grad

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_gradients(self, setting: tuple[nn.Module, nn.Module, Batch], reduction: str) -> None:
        theirs, ours, batch = setting
        for mask in batch.masks():
            expected = gradients(theirs, batch, mask, reduction)
            actual = gradients(ours, batch, mask, reduction)
            assert {"start_transitions", "end_transitions", "emissions"} <= actual.keys()
            for name, grad in expected.items():
                assert_close(actual[name], grad)

    def test_decode(self, setting: tuple[nn.Module, nn.Module, Batch]) -> None:
        theirs, ours, batch = setting
        for mask in batch.masks():
            expected = theirs.decode(batch.emissions, mask=mask)
            actual = ours.decode(batch.emissions, mask=mask)
            assert actual == expected
            assert type(actual) is list
            assert all(type(path) is list and all(type(tag) is int for tag in path) for path in actual)

    def test_arguments_by_position(self, setting: tuple[nn.Module, nn.Module, Batch]) -> None:
        theirs, ours, batch = setting
        arguments = batch.emissions, batch.tags, batch.mask, "none"
        assert_close(ours(*arguments), theirs(*arguments))
        assert ours.decode(batch.emissions, batch.mask) == theirs.decode(batch.emissions, batch.mask)


class TestPrivateMethods:
    """Public scripts call them; they take the time first, whatever `batch_first` says."""

    @SHAPES
    @ORDERS
    def test_give_the_same_numbers_and_gradients(self, lengths: list[int], num_tags: int, batch_first: bool) -> None:
        pair, batch = make_pair(num_tags, batch_first), make_batch(lengths, num_tags)
        for mask in (batch.mask, batch.mask.to(torch.uint8)):
            found = []
            for crf in pair:
                crf.zero_grad()
                emissions = batch.emissions.clone().requires_grad_()
                score, log_z = (
                    crf._compute_score(emissions, batch.tags, mask),
                    crf._compute_normalizer(emissions, mask),
                )
                (log_z - 2 * score).sum().backward()
                grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in crf.parameters()]
                found.append([score, log_z, emissions.grad, *grads])
            for actual, expected in zip(*found[::-1], strict=True):
                assert_close(actual, expected)
            theirs, ours = (crf._viterbi_decode(batch.emissions, mask) for crf in pair)
            assert ours == theirs

    @ORDERS
    @pytest.mark.parametrize("bad", ["too few tags", "tags too short", "mask too short", "mask off at the origin"])
    def test_validate(self, bad: str, batch_first: bool) -> None:
        assert_same_error(lambda module: module.CRF(3, batch_first)._validate(*BAD_CALLS[bad]))
        assert [crf._validate(E, tags=Y, mask=ON) for crf in make_pair(3, batch_first)] == [None, None]


class TestDetails:
    def test_default_reduction_is_sum_and_default_mask_is_all_on(self) -> None:
        theirs, ours = make_pair(3)
        batch = make_batch([4, 4], 3)
        expected = theirs(batch.emissions, batch.tags)
        assert_close(ours(batch.emissions, batch.tags), expected)
        assert_close(ours(batch.emissions, batch.tags, torch.ones(4, 2, dtype=torch.bool), "sum"), expected)

    def test_what_the_padding_holds_changes_nothing(self) -> None:
        theirs, ours = make_pair(3)
        batch = make_batch([5, 2], 3)
        emissions = batch.emissions.masked_fill(~batch.mask.unsqueeze(-1), 77.0)
        tags = batch.tags.masked_fill(~batch.mask, 2)
        expected = theirs(batch.emissions, batch.tags, batch.mask)
        assert_close(theirs(emissions, tags, batch.mask), expected)
        assert_close(ours(emissions, tags, batch.mask), expected)
        assert ours.decode(emissions, batch.mask) == theirs.decode(batch.emissions, batch.mask)

    def test_tied_decodings_agree(self) -> None:
        theirs, ours = make_pair(3)
        for crf in (theirs, ours):
            for parameter in crf.parameters():
                nn.init.zeros_(parameter)
        emissions = torch.randint(0, 2, (6, 40, 3), generator=torch.Generator().manual_seed(2)).float()
        assert ours.decode(emissions) == theirs.decode(emissions)
        assert ours.decode(torch.zeros(4, 2, 3)) == [[0] * 4] * 2

    def test_views_that_are_not_contiguous(self) -> None:
        theirs, ours = make_pair(3)
        batch = make_batch([5, 2], 3, batch_first=True)
        arguments = [x.transpose(0, 1) for x in (batch.emissions, batch.tags, batch.mask)]
        assert not arguments[0].is_contiguous()
        assert_close(ours(*arguments), theirs(*arguments))
        assert ours.decode(arguments[0], arguments[2]) == theirs.decode(arguments[0], arguments[2])


def assert_same_error(call: Callable[[Any], Any]) -> None:
    """Both modules must refuse a call with a ValueError of the same text."""
    with pytest.raises(ValueError, match=r".") as theirs:
        call(torchcrf)
    with pytest.raises(ValueError, match=r".") as ours:
        call(compat)
    assert str(ours.value) == str(theirs.value)


E = torch.zeros(4, 2, 3)  # (T, B, L), or (B, T, L) = (4, 2, 3)
Y = torch.zeros(4, 2, dtype=torch.long)
ON = torch.ones(4, 2, dtype=torch.bool)


def off_at(*where: int) -> Tensor:
    mask = ON.clone()
    mask[where] = False
    return mask


BAD_CALLS: dict[str, tuple[Tensor, Tensor, Tensor | None]] = {
    "two dimensions": (E[0], Y, None),
    "four dimensions": (E.unsqueeze(0), Y, None),
    "too few tags": (E[..., :2], Y, None),
    "too many tags": (torch.zeros(4, 2, 5), Y, None),
    "tags too short": (E, Y[:3], None),
    "tags of too small a batch": (E, Y[:, :1], None),
    "tags transposed": (E, Y.T, None),
    "tags with a third axis": (E, Y.unsqueeze(-1), None),
    "mask too short": (E, Y, ON[:3]),
    "mask transposed": (E, Y, ON.T),
    "mask of one axis": (E, Y, ON[0]),
    "mask off at the origin": (E, Y, off_at(0, 0)),
    "mask off everywhere": (E, Y, ~ON),
    "tags before mask": (E, Y[:3], ON[:2]),
    "emissions before tags": (E[..., :2], Y[:3], ON[:2]),
}


class TestErrors:
    @ORDERS
    @pytest.mark.parametrize("bad", BAD_CALLS)
    def test_forward(self, bad: str, batch_first: bool) -> None:
        emissions, tags, mask = BAD_CALLS[bad]
        assert_same_error(lambda module: module.CRF(3, batch_first=batch_first)(emissions, tags, mask=mask))

    @ORDERS
    @pytest.mark.parametrize("bad", [name for name in BAD_CALLS if "tags" not in name or "many" in name])
    def test_decode(self, bad: str, batch_first: bool) -> None:
        emissions, _, mask = BAD_CALLS[bad]
        assert_same_error(lambda module: module.CRF(3, batch_first=batch_first).decode(emissions, mask=mask))

    @ORDERS
    @pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
    def test_first_step_of_the_mask_follows_the_axis_order(self, batch_first: bool, dtype: torch.dtype) -> None:
        first_of_second = off_at(0, 1) if not batch_first else off_at(1, 0)
        assert_same_error(
            lambda module: module.CRF(3, batch_first)(E, Y, mask=first_of_second.to(dtype), reduction="none")
        )
        last_of_first = off_at(3, 0) if not batch_first else off_at(0, 1)
        theirs, ours = make_pair(3, batch_first)
        assert_close(ours(E, Y, last_of_first.to(dtype)), theirs(E, Y, last_of_first.to(dtype)))

    @pytest.mark.parametrize("reduction", ["average", "", "SUM", None])
    def test_unknown_reduction(self, reduction: Any) -> None:
        assert_same_error(lambda module: module.CRF(3)(E, Y, reduction=reduction))

    def test_shapes_are_checked_before_the_reduction(self) -> None:
        assert_same_error(lambda module: module.CRF(3)(E[0], Y, reduction="average"))

    @BOTH
    def test_tag_out_of_range_is_refused(self, CRF: Any) -> None:
        with pytest.raises((IndexError, ValueError)):
            CRF(3)(E, Y + 3)
