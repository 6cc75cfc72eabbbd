"""The largest value of each filter over the characters of a word, by the native kernel: CPU tensors only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trellis import _native
from trellis.aligned import plain_tensor
from trellis.errors import ShapeError
from trellis.nn.native import doubles


def largest_sums(table: Tensor, words: Tensor) -> Tensor:
    """From ``(width, characters, F)`` and words ``(W, C)`` padded with 0, to ``(W, F)``.

    ``max_t sum_k table[k, word[t + k - (width - 1) // 2]]`` with t over the characters of the word; places before
    and after it add nothing, and a word without characters has zeros.
    """
    keep = torch.is_grad_enabled() and table.requires_grad
    largest: Tensor = _LargestSums.apply(keep, table, words)  # type: ignore[no-untyped-call]
    return largest


class _LargestSums(torch.autograd.Function):
    """Keeps its own copy of the words for the backward pass: changed ids could point outside the table."""

    @staticmethod
    def forward(ctx: Any, keep: bool, table: Tensor, words: Tensor) -> Tensor:
        table = plain_tensor(table)
        words = plain_tensor(words.to(torch.int64, copy=keep))
        (W, C), (width, count, F) = words.shape, table.shape
        largest, places = table.new_empty(W, F), torch.empty(W, F, dtype=torch.int32)
        shape = (words.data_ptr(), W, C, table.data_ptr(), width, count, F)
        if not _native.spelling_forward(doubles(table), *shape, largest.data_ptr(), places.data_ptr()):
            raise ShapeError(f"ids of characters must be in 0..{count - 1}, got {_first_wrong(words, count)}")
        if keep:
            ctx.save_for_backward(table, words, places)
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        table, words, places = ctx.saved_tensors
        (W, C), (width, count, F) = words.shape, table.shape
        of_table, gradient = torch.zeros_like(table), plain_tensor(gradient)
        shape = (words.data_ptr(), W, C, of_table.data_ptr(), width, count, F)
        _native.spelling_backward(doubles(table), *shape, gradient.data_ptr(), places.data_ptr())
        return None, of_table, None


def _first_wrong(words: Tensor, count: int) -> int:
    return int(words[(words < 0) | (words >= count)][0])
