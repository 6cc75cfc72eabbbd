"""The native losses as differentiable functions: their gradients are marginals, so nothing is taped."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trellis import _native
from trellis.aligned import plain_tensor
from trellis.chain import _scan
from trellis.chain.torch.scores import Inference, layout_lengths, make_inference, raise_report, token_rows


class ChainLoss(torch.autograd.Function):
    """``log Z``, or ``log Z - score(tags)``, by the native kernels; the gradient is marginals minus indicators.

    With tags and a scale it is the sum over the batch times that scale, without the value of each sequence. Whether
    to keep what a backward pass needs is said from outside: a context does not know of `torch.no_grad`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        keep: bool,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        layout: _native.Layout,
        tags: Tensor | None,
        scale: float | None,
    ) -> Tensor:
        inference = make_inference(layout, emissions, transitions, start, end)
        if scale is not None and tags is not None:
            out = torch.empty((), dtype=emissions.dtype)
            report = inference.total_nll(tags.data_ptr(), scale, out.data_ptr(), keep)
        else:
            values = torch.empty(layout.sequences, dtype=torch.float64)
            if tags is None:
                report = inference.log_partition(values.data_ptr(), keep)
            else:
                report = inference.nll(tags.data_ptr(), values.data_ptr(), keep)
            out = values.to(emissions.dtype)
        if report[0]:
            raise_report(report, layout, (emissions, transitions, start, end), tags)
        if keep:
            # The native side keeps the tags it has checked: those of the caller may change, unseen by autograd.
            ctx.save_for_backward(emissions, transitions, start, end)
            ctx.inference, ctx.layout, ctx.scale, ctx.has_tags = inference, layout, scale, tags is not None
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (None, *_scan_gradient(ctx, grad, *inputs), None, None, None)
        if ctx.scale is None:
            grads = native_gradient(ctx.inference, inputs, plain_tensor(grad, torch.float64), 1.0)
        else:
            grads = native_gradient(ctx.inference, inputs, None, grad.item() * ctx.scale)
        return (None, *grads, None, None, None)


def native_gradient(
    inference: Inference,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor],
    weights: Tensor | None,
    weight: float,
) -> list[Tensor]:
    """Marginals, minus the indicators of a loss's tags, times a weight for each sequence or the same for all."""
    e, a, s, z = (torch.empty_like(x) for x in inputs)
    inference.gradient(
        0 if weights is None else weights.data_ptr(),
        weight,
        e.shape[:-1].numel(),
        e.data_ptr(),
        a.data_ptr(),
        s.data_ptr(),
        z.data_ptr(),
    )
    return [e, a, s, z]


def _scan_gradient(
    ctx: Any,
    grad: Tensor,
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
) -> list[Tensor | None]:
    """The same gradient as a graph, for gradients of gradients."""
    _, ragged = _ragged(ctx.layout, emissions, transitions, start, end)
    value = _scan.log_partition(*ragged)
    if ctx.has_tags:
        value = value - _scan.path_score(*ragged, torch.from_numpy(ctx.inference.tags))
    if ctx.scale is not None:
        value = value.sum() * ctx.scale
    return _graph_gradient(value, (emissions, transitions, start, end), grad)


def _ragged(
    layout: _native.Layout, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]:
    """The rows of the tokens, and what ``_scan`` takes."""
    index = token_rows(layout)
    matrix = emissions.reshape(-1, emissions.shape[-1])
    return index, (matrix[index], layout_lengths(layout), transitions, start, end)


def _graph_gradient(value: Tensor, inputs: tuple[Tensor, ...], grad: Tensor) -> list[Tensor | None]:
    wanted = [x for x in inputs if x.requires_grad]
    found = iter(torch.autograd.grad(value, wanted, grad, create_graph=True, allow_unused=True))
    return [next(found) if x.requires_grad else None for x in inputs]


class WeightedLoss(torch.autograd.Function):
    """``sum_t w[t] * -log P(y[t] | y[0..t-1])`` of each sequence, by the native kernels."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        layout: _native.Layout,
        tags: Tensor,
        weights: Tensor,
    ) -> Tensor:
        inference = make_inference(layout, emissions, transitions, start, end)
        out = torch.empty(layout.sequences, dtype=torch.float64)
        report = inference.weighted_nll(tags.data_ptr(), weights.data_ptr(), out.data_ptr())
        if report[0]:
            raise_report(report, layout, (emissions, transitions, start, end), tags)
        ctx.save_for_backward(emissions, transitions, start, end, weights)
        ctx.inference, ctx.layout = inference, layout
        return out.to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        emissions, transitions, start, end, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            index, ragged = _ragged(ctx.layout, emissions, transitions, start, end)
            own = weights.to(emissions.dtype).reshape(-1)[index]
            value = _scan.weighted_nll(*ragged, torch.from_numpy(ctx.inference.tags), own)
            return (*_graph_gradient(value, (emissions, transitions, start, end), grad), None, None, None)
        grads = [torch.zeros_like(emissions), *(torch.empty_like(x) for x in (transitions, start, end))]
        outer = plain_tensor(grad, torch.float64)
        pointers = (x.data_ptr() for x in (weights, outer, *grads))
        ctx.inference.weighted_nll_gradient(*pointers)
        return (*grads, None, None, None)
