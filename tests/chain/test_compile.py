"""`torch.compile` takes the layer as it is: one graph, the same loss, gradients and labels."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trellis.chain.torch import library
from trellis.nn import CRF


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Tagger(nn.Module):
    def __init__(self, batch_first: bool, constraints: Tensor | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scorer = nn.Linear(5, 3)
        self.crf = CRF(3, batch_first=batch_first, constraints=constraints)

    def forward(self, x: Tensor, tags: Tensor, mask: Tensor | None, reduction: str) -> tuple[Tensor, Tensor, Tensor]:
        emissions = self.scorer(x)
        best = self.crf.viterbi(emissions, mask)
        return self.crf.nll(emissions, tags, mask, reduction=reduction), best.tags, best.scores.detach()


def compiled(module: Any) -> Any:
    return torch.compile(module, fullgraph=True, backend="aot_eager")


def inputs(batch_first: bool) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, tags = torch.randn(4, 6, 5, generator=generator), torch.randint(3, (4, 6), generator=generator)
    mask = torch.rand(4, 6, generator=generator) < 0.7  # holes, and rows that start with one
    tags[1, 2] = -100
    parts = (x, tags, mask)
    return parts if batch_first else tuple(part.transpose(0, 1) for part in parts)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("batch_first", "masked", "reduction"),
    [
        (True, True, "none"),
        (False, False, "none"),
        (False, True, "sum"),
        (True, False, "mean"),
        (False, True, "token_mean"),
        (True, False, "token_mean"),
    ],
)
def test_loss_gradients_and_labels_are_those_of_the_plain_module(
    batch_first: bool, masked: bool, reduction: str
) -> None:
    x, tags, mask = inputs(batch_first)
    results = []
    for wrap in (lambda module: module, compiled):
        model = Tagger(batch_first)
        loss, best, scores = wrap(model)(x, tags, mask if masked else None, reduction)
        (loss * torch.linspace(1, 2, loss.numel()).reshape(loss.shape)).sum().backward()
        results.append([loss.detach(), best, scores, *(p.grad for p in model.parameters())])
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain)


def test_constraints_hold_in_the_compiled_graph() -> None:
    allowed = torch.ones(3, 3, dtype=torch.bool)
    allowed[0, 1] = False
    x, _, mask = inputs(True)
    tags = torch.full((4, 6), 2)
    results = [wrap(Tagger(True, allowed))(x, tags, mask, "sum") for wrap in (lambda module: module, compiled)]
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain)


def test_lengths_compile_too() -> None:
    crf = CRF(3, batch_first=True)
    emissions, tags = torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.int64)
    lengths = torch.tensor([4, 2])

    def loss(e: Tensor, n: Tensor) -> Tensor:
        return crf.nll(e, tags, lengths=n)

    torch.testing.assert_close(compiled(loss)(emissions, lengths), loss(emissions, lengths))


def test_second_batch_of_another_shape_runs_in_the_same_graph() -> None:
    model = Tagger(True)
    fast = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for B, T in ((2, 3), (4, 7), (3, 5)):
        x, tags = torch.randn(B, T, 5), torch.zeros(B, T, dtype=torch.int64)
        torch.testing.assert_close(fast(x, tags, None, "sum")[0], model(x, tags, None, "sum")[0])


def arguments(transposed: bool, masked: bool) -> tuple[Tensor, ...]:
    emissions = torch.randn(3, 4, 2, dtype=torch.float64)
    emissions = (emissions.transpose(0, 1).contiguous().transpose(0, 1) if transposed else emissions).requires_grad_()
    tags = torch.zeros(3, 4, dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=torch.bool) if masked else None
    chain = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 2), (2,), (2,))]
    return emissions, tags, mask, *chain  # type: ignore[return-value]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("masked", [False, True])
class TestOperators:
    """torch's own checks of schema, fake shapes and strides, autograd registration and tracing."""

    def test_nll(self, transposed: bool, masked: bool) -> None:
        torch.library.opcheck(library._nll, (*arguments(transposed, masked), True, -100))

    def test_nll_backward(self, transposed: bool, masked: bool) -> None:
        plain = (x.detach() if isinstance(x, Tensor) else x for x in arguments(transposed, masked))
        torch.library.opcheck(library._nll_backward, (torch.ones(3, dtype=torch.float64), *plain, True, -100))

    def test_viterbi(self, transposed: bool, masked: bool) -> None:
        emissions, _, *rest = (x.detach() if isinstance(x, Tensor) else x for x in arguments(transposed, masked))
        torch.library.opcheck(library._viterbi, (emissions, *rest, True))


def test_operator_gradients_are_those_of_the_layer() -> None:
    emissions, tags, mask, *chain = arguments(False, True)
    function: Callable[..., Tensor] = lambda e, a, s, f: library._nll(e, tags, mask, a, s, f, True, -100)  # noqa: E731
    assert torch.autograd.gradcheck(function, (emissions, *chain))
