"""Native steps of Adam: the weights and the state of torch's own."""

import pytest
import torch
from torch import nn

from trellis.training.neural.optimizer import NativeAdam

SIZES = [(3,), (1,), (40, 7), (0, 4), (70001,)]


def make(kind: type[torch.optim.Adam], dtype: torch.dtype) -> tuple[list[nn.Parameter], torch.optim.Adam]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(size, dtype=dtype)) for size in SIZES]
    groups = [{"params": parameters[:2], "weight_decay": 0.0}, {"params": parameters[2:], "weight_decay": 0.1}]
    return parameters, kind(groups, lr=0.01)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_as_torch(
    kind: type[torch.optim.Adam], dtype: torch.dtype, threads: int, instruction_set: str
) -> None:
    """Also where a parameter has no gradient in one step, and where gradients are not contiguous."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    (ours, first), (theirs, second) = make(kind, dtype), make(kind, dtype)
    native = NativeAdam.of(first)
    assert native is not None
    for step in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            gradient = torch.randn(mine.shape[::-1], dtype=dtype).t() if mine.ndim == 2 else torch.randn_like(mine)
            skipped = step == 2 and mine.ndim == 2
            mine.grad, other.grad = (None, None) if skipped else (gradient, gradient * 0.25)
        native.step(0.25)
        second.step()
    torch.set_num_threads(before)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
        assert first.state[mine].keys() == second.state[other].keys()
        for what, value in second.state[other].items():
            torch.testing.assert_close(first.state[mine][what], value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_length_of_a_gradient(dtype: torch.dtype, instruction_set: str) -> None:
    gradients = [torch.randn(size, dtype=dtype) for size in SIZES]
    native = NativeAdam.of(make(torch.optim.AdamW, dtype)[1])
    assert native is not None
    wanted = float(torch.cat([x.flatten().double() for x in gradients]).norm())
    assert native.gradient_length(gradients) == pytest.approx(wanted, rel=1e-6)
    assert native.gradient_length([]) == 0.0
    gradients[2][0, 0] = torch.nan
    assert native.gradient_length(gradients) != native.gradient_length(gradients)


def test_other_optimizers_and_kinds_are_left_to_torch() -> None:
    weight = nn.Parameter(torch.zeros(3))
    assert NativeAdam.of(torch.optim.SGD([weight], lr=0.1)) is None
    assert NativeAdam.of(torch.optim.AdamW([nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))])) is None
    assert NativeAdam.of(torch.optim.AdamW([weight, nn.Parameter(torch.zeros(3, dtype=torch.float64))])) is None
    assert NativeAdam.of(torch.optim.AdamW([nn.Parameter(torch.zeros(3, 2).t())])) is None
