"""Filters over the characters of words by the native kernel, with their gradient: CPU tensors only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.errors import ShapeError
from trellis.nn.native import doubles


def filtered(vectors: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    """From vectors ``(characters, size)``, filters ``(F, width * size)`` and words ``(W, C)`` to ``(W, F)``.

    ``tanh(bias + max_t sum_k weight[:, k] . vector[word[t + k - (width - 1) // 2]])`` with t over the characters of the
    word, which is padded with 0; places before and after it add nothing, and a word without characters has a sum of 0.
    """
    tensors = (vectors, weight, bias)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    found: Tensor = _Filtered.apply(keep, words, *tensors)  # type: ignore[no-untyped-call]
    return found


class _Filtered(torch.autograd.Function):
    """What each character gives each filter at each place is computed once, no matter how often it occurs.

    Keeps its own copy of the words for the backward pass: changed ids could point outside the table.
    """

    @staticmethod
    def forward(ctx: Any, keep: bool, words: Tensor, vectors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        words = plain_tensor(words.to(torch.int64, copy=keep))
        by_place = weight.view(len(weight), -1, vectors.shape[1]).transpose(0, 1)  # (width, F, size)
        table = plain_tensor(torch.matmul(vectors, by_place.transpose(1, 2)))  # (width, characters, F)
        (W, C), (width, count, F) = words.shape, table.shape
        largest, places = table.new_empty(W, F), torch.empty(W, F, dtype=torch.int32)
        shape = (words.data_ptr(), W, C, table.data_ptr(), width, count, F)
        if not _native.spelling_forward(doubles(table), *shape, largest.data_ptr(), places.data_ptr()):
            raise ShapeError(f"ids of characters must be in 0..{count - 1}, got {_first_wrong(words, count)}")
        values = largest.add_(bias).tanh_()
        if keep:
            ctx.save_for_backward(words, places, vectors, by_place, values)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        words, places, vectors, by_place, values = ctx.saved_tensors
        (W, C), (width, F, _), count = words.shape, by_place.shape, len(vectors)
        of_largest = plain_tensor(torch.ops.aten.tanh_backward(gradient, values))
        of_table = vectors.new_zeros(width, count, F)
        shape = (words.data_ptr(), W, C, of_table.data_ptr(), width, count, F)
        _native.spelling_backward(doubles(vectors), *shape, of_largest.data_ptr(), places.data_ptr())
        of_vectors = torch.matmul(of_table, by_place).sum(0)
        of_weight = torch.matmul(of_table.transpose(1, 2), vectors).transpose(0, 1).flatten(1)
        return None, None, of_vectors, of_weight, of_largest.sum(0)


def _first_wrong(words: Tensor, count: int) -> int:
    return int(words[(words < 0) | (words >= count)][0])
