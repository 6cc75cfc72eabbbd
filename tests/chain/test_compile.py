"""`torch.compile` takes the layer as it is: one graph, the same loss, gradients and labels."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from trellis.chain.torch import ChainScores, scan
from trellis.chain.torch import compile as operators
from trellis.chain.torch.scan import backward, prepare, total
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

    def forward(
        self, x: Tensor, tags: Tensor, mask: Tensor | None, reduction: str, with_edges: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        emissions = self.scorer(x)
        edges = emissions[1:, :, :, None] * emissions[:-1, :, None, :]  # of neighbours along the first axis
        if self.crf.batch_first:
            edges = emissions[:, 1:, :, None] * emissions[:, :-1, None, :]
        options = {"edges": edges} if with_edges else {}
        best = self.crf.viterbi(emissions, mask, **options)
        return self.crf.nll(emissions, tags, mask, reduction=reduction, **options), best.tags, best.scores.detach()


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
@pytest.mark.parametrize("with_edges", [False, True])
def test_loss_gradients_and_labels_are_those_of_the_plain_module(
    batch_first: bool, masked: bool, reduction: str, with_edges: bool
) -> None:
    x, tags, mask = inputs(batch_first)
    results = []
    for wrap in (lambda module: module, compiled):
        model = Tagger(batch_first)
        loss, best, scores = wrap(model)(x, tags, mask if masked else None, reduction, with_edges)
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


def arguments(transposed: bool, masked: bool, with_edges: bool = False) -> tuple[Tensor, ...]:
    emissions = torch.randn(3, 4, 2, dtype=torch.float64)
    emissions = (emissions.transpose(0, 1).contiguous().transpose(0, 1) if transposed else emissions).requires_grad_()
    tags = torch.zeros(3, 4, dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=torch.bool) if masked else None
    chain = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 2), (2,), (2,))]
    edges = torch.randn(3, 3, 2, 2, dtype=torch.float64, requires_grad=True) if with_edges else None
    return emissions, tags, mask, *chain, edges  # type: ignore[return-value]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("with_edges", [False, True])
class TestOperators:
    """torch's own checks of schema, fake shapes and strides, autograd registration and tracing."""

    def test_nll(self, transposed: bool, masked: bool, with_edges: bool) -> None:
        torch.library.opcheck(operators._nll, (*arguments(transposed, masked, with_edges), True, -100))

    def test_nll_backward(self, transposed: bool, masked: bool, with_edges: bool) -> None:
        given = arguments(transposed, masked, with_edges)
        plain = (x.detach() if isinstance(x, Tensor) else x for x in given)
        torch.library.opcheck(operators._nll_backward, (torch.ones(3, dtype=torch.float64), *plain, True, -100))

    def test_viterbi(self, transposed: bool, masked: bool, with_edges: bool) -> None:
        given = arguments(transposed, masked, with_edges)
        emissions, _, *rest = (x.detach() if isinstance(x, Tensor) else x for x in given)
        torch.library.opcheck(operators._viterbi, (emissions, *rest, True))


def test_operator_gradients_are_those_of_the_layer() -> None:
    emissions, tags, mask, *chain = arguments(False, True, True)
    function: Callable[..., Tensor] = lambda e, *rest: operators._nll(e, tags, mask, *rest, True, -100)  # noqa: E731
    assert torch.autograd.gradcheck(function, (emissions, *chain))


@pytest.mark.parametrize("with_edges", [False, True])
def test_gradient_without_autograd_is_the_same_on_both_implementations(with_edges: bool) -> None:
    """Other devices have no kernels; the operator's backward pass takes the torch implementation there."""
    emissions, tags, mask, *chain = (
        x.detach() if isinstance(x, Tensor) else x for x in arguments(False, True, with_edges)
    )
    found = [
        ChainScores.padded(emissions, mask, *chain, backend=backend).nll_gradient(tags, torch.tensor([0.5, 2.0, 1.0]))
        for backend in ("auto", "scan")
    ]
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.reshape(theirs.shape), theirs)


def scan_chain(lengths: list[int], L: int = 3) -> scan.Chain:
    generator = torch.Generator().manual_seed(2)
    shapes = ((sum(lengths), L), (L, L), (L,), (L,))
    emissions, *rest = (torch.randn(*shape, generator=generator, requires_grad=True) for shape in shapes)
    return scan.Chain(emissions, torch.tensor(lengths), *rest)


class Operations(TorchDispatchMode):
    """Counts operations that compute something: each is at least one kernel on a GPU."""

    VIEWS = frozenset({"detach", "expand", "select", "slice", "squeeze", "transpose", "unbind", "unsqueeze", "view"})

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ not in self.VIEWS
        return func(*args, **(kwargs or {}))


class TestScan:
    """The torch implementation, which other devices than the CPU take."""

    def test_recursion_compiles_to_one_graph_with_the_same_gradients(self) -> None:
        chain = scan.Chain(*(None if x is None else x.detach() for x in scan_chain([4, 1, 3])))  # type: ignore[arg-type]
        batch = prepare(chain)

        def log_partition(emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
            own = replace(batch, emissions=emissions, transitions=transitions, start=start, end=end)
            return total(own, *backward(own))

        results = []
        for wrap in (lambda function: function, compiled):
            leaves = [x.clone().requires_grad_() for x in (batch.emissions, *chain[2:5]) if x is not None]
            value = wrap(log_partition)(*leaves)
            value.sum().backward()
            results.append([value.detach(), *(x.grad for x in leaves)])
        native = ChainScores(chain.emissions, chain.lengths, chain.transitions, chain.start, chain.end)
        torch.testing.assert_close(results[1][0], native.log_partition())
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected)

    def test_operations_per_position_are_those_of_the_documentation(self) -> None:
        found = []
        for T in (5, 15):
            chain = scan_chain([T, T - 2])
            with Operations() as forward:
                value = scan.log_partition(chain).sum()
            with Operations() as backwards:
                value.backward()
            with Operations() as best:
                scan.viterbi(chain)
            found.append([forward.count, backwards.count, best.count])
        assert [later - first for first, later in zip(*found, strict=True)] == [230, 170, 100]
