"""Ragged recurrent layers: the same as torch's own on each sentence alone, whatever else is in the batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.errors import ShapeError
from trellis.nn.lstm import BiLSTM, Packing

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


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match="lengths must be >= 0, got -1 for sequence 1"):
        Packing.of([2, -1])


@settings(max_examples=20, deadline=None)
@given(lengths_of_batches, st.integers(1, 2))
def test_each_sentence_gets_what_it_gets_alone(lengths: list[int], layers: int) -> None:
    torch.manual_seed(0)
    lstm = BiLSTM(3, 4, layers).eval()
    flat = torch.randn(sum(lengths), 3)
    together = lstm(flat, Packing.of(lengths))
    assert together.shape == (sum(lengths), 4)
    for own, alone in zip(together.split(lengths), flat.split(lengths), strict=True):
        if len(alone):
            wanted = alone
            for layer in lstm.layers:
                wanted = layer(wanted)[0]
            torch.testing.assert_close(own, wanted)


def test_gradients_reach_every_token_and_every_weight() -> None:
    lstm = BiLSTM(2, 2, 2)
    flat = torch.randn(5, 2, requires_grad=True)
    lstm(flat, Packing.of([3, 0, 2])).sum().backward()
    assert flat.grad is not None
    assert bool((flat.grad.abs().sum(1) > 0).all())
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in lstm.parameters())


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
