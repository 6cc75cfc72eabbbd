"""Rows side by side with dropout: what is dropped, and that the backward pass drops the same."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trellis.nn.dropout import Dropout, RowSource

LENGTHS = np.array([3, 0, 5, 1, 40, 1])
N = int(LENGTHS.sum())


def mask_of(dropout: Dropout, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return dropout.apply(torch.ones(N, width, dtype=dtype), LENGTHS)


def test_without_dropout_rows_come_as_they_are(instruction_set: str) -> None:
    table, index, own = torch.randn(7, 5), torch.randint(0, 7, (N,)), torch.randn(N, 3)
    other = torch.randn(4, 3)
    rows = torch.randint(0, 4, (N,))
    found = Dropout(1, 0.0, 0.0, 0.0).joined(
        [[RowSource(table, index)], [RowSource(own), RowSource(other, rows)]], LENGTHS
    )
    assert torch.equal(found, torch.cat([table[index], own + other[rows]], 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masks_are_the_same_bits_on_every_machine(instruction_set: str, dtype: torch.dtype) -> None:
    mask = mask_of(Dropout(5, 0.1, 0.2, 0.3), 37, dtype)
    places = np.flatnonzero(mask.numpy().ravel() == 0)
    assert len(places) == 956
    assert int(np.bitwise_xor.reduce(places * 2654435761 % 2**32)) == 2515591965


def test_numbers_are_dropped_by_themselves_and_the_rest_is_scaled() -> None:
    mask = mask_of(Dropout(3, 0.0, 0.25, 0.0), 1000)
    assert set(mask.unique().tolist()) == {0.0, 1 / 0.75}
    dropped = (mask == 0).double()
    assert abs(float(dropped.mean()) - 0.25) < 0.01
    # Columns and rows know nothing of each other: correlations are those of independent draws.
    rows = torch.corrcoef(dropped) - torch.eye(N)
    assert float(rows.abs().max()) < 6 / 1000**0.5


def test_columns_are_dropped_for_a_whole_sentence() -> None:
    mask = mask_of(Dropout(3, 0.0, 0.0, 0.3), 500)
    first, rest = mask[:3], mask[8]
    assert torch.equal(first[0], first[1])
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], rest)
    assert abs(float((mask[[0, 3, 8, 9, 49]] == 0).double().mean()) - 0.3) < 0.04


def test_tokens_are_dropped_whole_and_not_scaled() -> None:
    lengths = np.array([4000])
    mask = Dropout(9, 0.05, 0.0, 0.0).apply(torch.ones(4000, 3), lengths)
    assert torch.equal(mask, mask[:, :1].expand(-1, 3))
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert abs(float((mask == 0).double().mean()) - 0.05) < 0.015


def test_another_seed_is_another_mask() -> None:
    assert not torch.equal(mask_of(Dropout(1, 0.0, 0.5, 0.0), 9), mask_of(Dropout(2, 0.0, 0.5, 0.0), 9))


def test_seeds_come_from_torch() -> None:
    torch.manual_seed(4)
    first = [Dropout.drawn(numbers=0.5) for _ in range(2)]
    torch.manual_seed(4)
    assert [Dropout.drawn(numbers=0.5) for _ in range(2)] == first
    assert first[0] != first[1]


def test_the_gradient_is_that_of_the_same_mask(instruction_set: str) -> None:
    dropout = Dropout(5, 0.1, 0.2, 0.3)
    table, own = torch.randn(7, 5, dtype=torch.float64), torch.randn(N, 3, dtype=torch.float64)
    frozen, index = torch.randn(7, 3, dtype=torch.float64), torch.randint(0, 7, (N,))
    table.requires_grad_()
    own.requires_grad_()
    mask = mask_of(dropout, 8)
    outer = torch.randn(N, 8, dtype=torch.float64)
    wanted = torch.autograd.grad((torch.cat([table[index], own + frozen[index]], 1) * mask * outer).sum(), [table, own])
    sources = [[RowSource(table, index, padded=True)], [RowSource(own), RowSource(frozen, index)]]
    found = dropout.gradients(outer, sources, LENGTHS)
    wanted[0][0] = 0.0
    assert found[2] is None
    for mine, theirs in zip(found[:2], wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", [torch.full((N,), 7), torch.full((N,), -1), torch.zeros(N - 1, dtype=torch.int64)])
def test_rows_that_are_not_there_are_refused(index: Tensor) -> None:
    with pytest.raises(ValueError, match="a token has a row that there is not"):
        Dropout(1, 0.0, 0.0, 0.0).joined([[RowSource(torch.zeros(7, 2), index)]], LENGTHS)


def test_tables_of_other_types_are_read_as_single_precision() -> None:
    table = torch.randn(N, 3, dtype=torch.bfloat16, requires_grad=True)
    sources, dropout = [[RowSource(table)], [RowSource(torch.zeros(N, 1))]], Dropout(1, 0.0, 0.0, 0.0)
    found = dropout.joined(sources, LENGTHS)
    assert torch.equal(found[:, :3], table.float())
    (gradient, _) = dropout.gradients(found.detach(), sources, LENGTHS)
    assert gradient is not None
    assert torch.equal(gradient, table.float())
