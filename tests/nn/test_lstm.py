"""The native LSTM: values and gradients of torch's own layer, on every instruction set, with any number of threads."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trellis.errors import ShapeError
from trellis.nn import BiLSTM, Packing
from trellis.nn import lstm as lstm_module
from trellis.nn.lstm import has_kernels, run_lstm


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def make(size: int, hidden: int, dtype: torch.dtype = torch.float64) -> nn.LSTM:
    torch.manual_seed(0)
    layer = nn.LSTM(size, hidden, bidirectional=True).to(dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=hidden**-0.5)
    return layer


def values_and_gradients(layer: nn.LSTM, features: Tensor, lengths: list[int], native: bool) -> list[Tensor]:
    """The states, and the gradients of a fixed function of them for features and weights."""
    features = features.clone().requires_grad_()
    layer.zero_grad()
    if native:
        forward, backward = layer.all_weights
        states = lstm_module.bilstm(features, np.array(lengths), (*forward, *backward))
    else:  # one sequence after another, by torch
        states = torch.cat([layer(own)[0] for own in features.split(lengths) if len(own)])
    (states * torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view_as(states)).sum().backward()
    found = [states.detach(), features.grad, *(parameter.grad for parameter in layer.parameters())]
    return [tensor.clone() for tensor in found if tensor is not None]


@pytest.mark.parametrize("hidden", [1, 2, 7, 8, 9, 16, 33, 100])
@pytest.mark.parametrize("lengths", [[1], [3, 0, 2], [1, 5, 1, 9, 2, 4, 30, 4], [2] * 13])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_same_as_torch(instruction_set: str, hidden: int, lengths: list[int], dtype: torch.dtype) -> None:
    layer, features = make(3, hidden, dtype), torch.randn(sum(lengths), 3, dtype=dtype)
    ours, theirs = (values_and_gradients(layer, features, lengths, native) for native in (True, False))
    assert len(ours) == len(theirs) == 10
    for mine, wanted in zip(ours, theirs, strict=True):
        scale = float(wanted.abs().max())
        torch.testing.assert_close(mine, wanted, rtol=0, atol=scale * (1e-12 if dtype == torch.float64 else 2e-5))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=9).filter(any), st.integers(1, 20), st.integers(1, 5))
def test_any_lengths_and_widths(lengths: list[int], hidden: int, size: int) -> None:
    layer, features = make(size, hidden), torch.randn(sum(lengths), size, dtype=torch.float64)
    ours, theirs = (values_and_gradients(layer, features, lengths, native) for native in (True, False))
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-10, atol=1e-11)


def test_gradients_by_differences() -> None:
    layer = make(2, 3)
    forward, backward = layer.all_weights
    features = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)

    def run(features: Tensor, *weights: Tensor) -> Tensor:
        return lstm_module.bilstm(features, np.array([2, 0, 3, 1]), weights)

    assert torch.autograd.gradcheck(run, (features, *forward, *backward))


def test_threads_change_no_bit(threads: None) -> None:
    lengths = [7, 3, 12, 1, 9, 9, 2, 30, 4, 4, 8, 15, 3, 3, 21, 6, 5, 10, 2, 2, 2, 13, 1, 17]
    layer, features = make(5, 20, torch.float32), torch.randn(sum(lengths), 5)
    found = []
    for count in (1, 2, 3, 8):
        torch.set_num_threads(count)
        states = run_lstm(layer, features, Packing.of(lengths))
        states.sum().backward()
        found.append(states.detach())
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_numbers_out_of_range_neither_overflow_nor_vanish() -> None:
    layer = make(1, 2)
    for parameter in layer.parameters():
        nn.init.constant_(parameter, 1.0)
    features = torch.tensor([[1e4], [-1e4], [800.0]], dtype=torch.float64)
    ours, theirs = (values_and_gradients(layer, features, [3], native) for native in (True, False))
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, wanted, rtol=1e-12, atol=1e-300)


def test_what_is_no_number_stays_none() -> None:
    layer = make(1, 2)
    states = run_lstm(layer, torch.tensor([[0.5], [torch.nan], [0.5], [1.0]], dtype=torch.float64), Packing.of([3, 1]))
    assert states.isnan().all(1).tolist() == [False, True, False, False]
    assert states.isnan().any(1).tolist() == [True, True, True, False], "one direction each on the other two"


def test_a_graph_that_is_kept_gives_the_same_gradient_again() -> None:
    layer = make(2, 3)
    states = run_lstm(layer, torch.randn(5, 2, dtype=torch.float64), Packing.of([3, 2])).sum()
    first, second = (torch.autograd.grad(states, list(layer.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("layers", [1, 2])
def test_other_ways_give_the_same(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole encoder by the kernels, and by torch's packed sequences as on a GPU."""
    found = []
    for native in (True, False):
        monkeypatch.setattr(lstm_module, "has_kernels", lambda _, native=native: native)
        torch.manual_seed(0)
        lstm = BiLSTM(3, 4, layers).double()
        flat = torch.randn(13, 3, dtype=torch.float64, requires_grad=True)
        states = lstm(flat, Packing.of([5, 0, 1, 7]))
        states.square().sum().backward()
        found.append([states.detach(), flat.grad, *(parameter.grad for parameter in lstm.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_may_share_rows(
    instruction_set: str, native: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same states as with a row a token, and with gradients these too, whichever way they are computed."""
    monkeypatch.setattr(lstm_module, "has_kernels", lambda _: native)
    layer, packing = make(3, 21, dtype), Packing.of([4, 0, 9, 1, 6])
    rows, index = torch.randn(5, 3, dtype=dtype, requires_grad=True), torch.randint(5, (20,))
    wanted = run_lstm(layer, rows[index], packing)
    shared = run_lstm(layer, rows, packing, index)
    weights = [rows, *layer.parameters()]
    gradients = (torch.autograd.grad(states.square().sum(), weights) for states in (shared, wanted))
    with torch.no_grad():
        without = [run_lstm(layer, rows, packing, own) for own in (index, index.int(), index.repeat_interleave(2)[::2])]
    close = {"rtol": 0, "atol": 1e-13 if dtype == torch.float64 else 1e-6}
    for states in (shared, *without):
        torch.testing.assert_close(states, wanted, **close)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong", [-1, 2])
def test_rows_that_are_not_there_are_refused(wrong: int) -> None:
    layer, features = make(2, 3).requires_grad_(False), torch.randn(2, 2, dtype=torch.float64)
    with pytest.raises(ShapeError, match=f"index must be of 2 rows, got {min(wrong, 0)} to {max(wrong, 1)}"):
        run_lstm(layer, features, Packing.of([3]), torch.tensor([0, 1, wrong]))


def test_lengths_of_other_features_are_refused() -> None:
    with pytest.raises(ShapeError, match="lengths must add up to the number of tokens N = 4, got 5 from 2"):
        run_lstm(make(2, 3), torch.randn(4, 2, dtype=torch.float64), Packing.of([3, 2]))
    with pytest.raises(ShapeError, match="lengths must add up to the number of tokens N = 3, got 5 from 2"):
        run_lstm(make(2, 3), torch.randn(4, 2, dtype=torch.float64), Packing.of([3, 2]), torch.tensor([0, 1, 3]))


def test_lengths_whose_sum_wraps_around_are_refused() -> None:
    forward, backward = make(2, 3).all_weights
    features = torch.randn(4, 2, dtype=torch.float64)
    for lengths in (np.array([2**62] * 3 + [2**62 + 4]), np.array([2**64 - 1, 5], np.uint64), np.array([5, -1])):
        with pytest.raises(ShapeError, match=r"^lengths must"):
            lstm_module.bilstm(features, lengths, (*forward, *backward))


def test_lengths_that_change_after_the_forward_pass_change_no_gradient() -> None:
    layer = make(2, 3)
    forward, backward = layer.all_weights
    found = []
    for later in ([2, 0, 3, 1], [3, 3, 0, 0], [2**40, 0, 0, 0]):
        features = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2).requires_grad_()
        lengths = np.array([2, 0, 3, 1])
        states = lstm_module.bilstm(features, lengths, (*forward, *backward))
        lengths[:] = later
        states.square().sum().backward()
        assert features.grad is not None
        found.append(features.grad)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_gates_are_kept_for_gradients_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def forward(doubles: bool, lengths: object, H: int, threads: int, keep: bool, *addresses: int) -> None:
        kept.append(keep)

    monkeypatch.setattr(lstm_module._native, "lstm_forward", forward)
    layer, features, packing = make(2, 3), torch.randn(4, 2, dtype=torch.float64), Packing.of([4])
    run_lstm(layer, features, packing)
    with torch.no_grad():
        run_lstm(layer, features, packing)
    with torch.inference_mode():
        run_lstm(layer, features, packing)
    run_lstm(layer.requires_grad_(False), features, packing)
    run_lstm(layer, features.requires_grad_(), packing)
    assert kept == [True, False, False, False, True]


def test_low_precision_is_left_to_torch() -> None:
    layer, features = make(2, 3, torch.float32), torch.randn(4, 2)
    assert has_kernels(features)
    assert not has_kernels(features.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert not has_kernels(features)
        low = run_lstm(layer, features, Packing.of([3, 1]))
    torch.testing.assert_close(low.float(), run_lstm(layer, features, Packing.of([3, 1])), rtol=0, atol=0.05)


lengths_of_batches = st.lists(st.integers(0, 6), min_size=1, max_size=6)


@given(lengths_of_batches)
def test_packing_puts_first_tokens_first_and_knows_the_way_back(lengths: list[int]) -> None:
    packing = Packing.of(lengths)
    order, inverse, batch_sizes = packing.by_position
    places = [(b, t) for b, length in enumerate(lengths) for t in range(length)]
    ranks = sorted(range(len(lengths)), key=lambda b: -lengths[b])  # stable
    wanted = [
        (b, t) for t in range(max(lengths)) for b in ranks if lengths[b] > t
    ]  # all first tokens, longest sentence first
    assert [places[row] for row in order.tolist()] == wanted
    assert order[inverse].tolist() == list(range(len(places)))
    assert packing.sequence.tolist() == [b for b, _ in places]
    assert batch_sizes.tolist() == [sum(length > t for length in lengths) for t in range(max(lengths))]


def test_forget_gates_are_open_at_first() -> None:
    bias = BiLSTM(2, 6).layers[0].bias_ih_l0
    assert bias.tolist() == [0.0] * 3 + [1.0] * 3 + [0.0] * 6


def test_dropout_between_layers_is_off_outside_training() -> None:
    torch.manual_seed(0)
    lstm = BiLSTM(3, 16, 2, dropout=0.5)
    flat, packing = torch.randn(6, 3), Packing.of(np.array([4, 2]))
    lstm.eval()
    torch.testing.assert_close(lstm(flat, packing), lstm(flat, packing))
    lstm.train()
    assert not torch.equal(lstm(flat, packing), lstm(flat, packing))
