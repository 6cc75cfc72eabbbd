"""The native losses as differentiable functions: their gradients are marginals, so nothing is taped."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trellis.chain import _native, _scan
from trellis.chain.torch.scores import layout_lengths, make_inference, raise_report, token_rows


class ChainLoss(torch.autograd.Function):
    """``log Z``, or ``log Z - score(tags)``, by the native kernels; the gradient is marginals minus indicators.

    With a scale it is the sum over the batch times that scale, without the value of each sequence.
    """

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        layout: _native.Layout,
        tags: Tensor | None,
        scale: float | None,
    ) -> Tensor:
        inference = make_inference(layout, emissions, transitions, start, end)
        keep = any(ctx.needs_input_grad)
        out = torch.empty(layout.sequences, dtype=torch.float64)
        if tags is None:
            report = inference.log_partition(out.data_ptr(), keep)
        else:
            report = inference.nll(tags.data_ptr(), out.data_ptr(), keep)
        if report[0]:
            raise_report(report, layout, (emissions, transitions, start, end), tags)
        if keep:
            ctx.save_for_backward(emissions, transitions, start, end, tags)
            ctx.inference, ctx.layout, ctx.scale = inference, layout, scale
        if scale is not None:
            out = out.sum() * scale
        return out.to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        emissions, transitions, start, end, tags = ctx.saved_tensors
        if torch.is_grad_enabled():
            grads = _scan_gradient(ctx, grad, emissions, transitions, start, end, tags)
            return (*grads, None, None, None)
        d_emissions = torch.empty_like(emissions)
        if ctx.layout.tokens != len(emissions):
            d_emissions.zero_()
        others = [torch.empty_like(x) for x in (transitions, start, end)]
        weights, weight = 0, 1.0
        if ctx.scale is None:
            by_sequence = grad.to(torch.float64).contiguous()
            weights = by_sequence.data_ptr()
        else:
            weight = grad.item() * ctx.scale
        ctx.inference.gradient(
            weights,
            weight,
            0 if tags is None else tags.data_ptr(),
            d_emissions.data_ptr(),
            *(x.data_ptr() for x in others),
        )
        return (d_emissions, *others, None, None, None)


def _scan_gradient(
    ctx: Any,
    grad: Tensor,
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    tags: Tensor | None,
) -> list[Tensor | None]:
    """The same gradient as a graph, for gradients of gradients."""
    inputs = (emissions, transitions, start, end)
    index = token_rows(ctx.layout)
    ragged = (emissions[index], layout_lengths(ctx.layout), transitions, start, end)
    value = _scan.log_partition(*ragged)
    if tags is not None:
        value = value - _scan.path_score(*ragged, tags.reshape(-1)[index])
    if ctx.scale is not None:
        value = value.sum() * ctx.scale
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
        ctx.save_for_backward(emissions, transitions, start, end, tags, weights)
        ctx.inference, ctx.layout = inference, layout
        return out.to(emissions.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        emissions, transitions, start, end, tags, weights = ctx.saved_tensors
        grads = [torch.zeros_like(emissions), *(torch.empty_like(x) for x in (transitions, start, end))]
        outer = grad.to(torch.float64).contiguous()
        pointers = (x.data_ptr() for x in (tags, weights, outer, *grads))
        ctx.inference.weighted_nll_gradient(*pointers)
        return (*grads, None, None, None)
