"""The native losses of tensors as differentiable functions: their gradients are marginals, so no graph is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.chain import scores as arrays
from trellis.chain.torch import scan
from trellis.errors import ChainError, ShapeError

Inference = _native.InferenceFloat32 | _native.InferenceFloat64
Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]
"""Emissions, transitions, start, end, and edges or None, in the layout of the batch."""
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]


def make_inference(layout: _native.Layout, arguments: Arguments) -> Inference:
    """The native side of these tensors; it points into them, so they must be kept alive."""
    emissions, transitions, start, end, edges = arguments
    kind = _native.InferenceFloat64 if emissions.dtype == torch.float64 else _native.InferenceFloat32
    pointers = (emissions.data_ptr(), transitions.data_ptr(), start.data_ptr(), end.data_ptr())
    matrices = 0 if edges is None else edges.data_ptr()
    if not (all(pointers) and (matrices or edges is None)):
        check_memory(arguments)
    return kind(layout, *pointers, emissions.shape[-1], matrices)


def check_memory(arguments: Arguments) -> None:
    """Refuse tensors whose memory somebody has freed; one without elements needs none."""
    for name, x in zip(("emissions", "transitions", "start", "end", "edges"), arguments, strict=True):
        if x is not None and x.numel() and not x.data_ptr():
            raise ShapeError(f"{name} have no memory any more: their storage was freed after they were given")


def _addresses(arguments: Arguments) -> tuple[int, ...]:
    """Where the tensors are, and how large: what the native side relies on."""
    e, a, s, z, d = arguments
    places = (e.data_ptr(), e.numel(), a.data_ptr(), a.numel(), s.data_ptr(), s.numel(), z.data_ptr(), z.numel())
    return places if d is None else (*places, d.data_ptr(), d.numel())


def layout_of_mask(
    shape: torch.Size, mask: Tensor | None, tags: Tensor | None, ignore_index: int, batch_first: bool
) -> _native.Layout:
    """The tokens of a padded batch: the true places of the mask whose tag is not ignored."""
    places = None if mask is None else _on_cpu(mask, torch.bool, torch.uint8)
    labels = None if tags is None else _on_cpu(tags, torch.int64)
    first, second, _ = shape
    return _native.layout_of_mask(
        0 if places is None else places.data_ptr(),
        0 if labels is None else labels.data_ptr(),
        ignore_index,
        *((first, second, second, 1) if batch_first else (second, first, 1, second)),
    )


def _on_cpu(x: Tensor, *dtypes: torch.dtype) -> Tensor:
    """A contiguous CPU tensor of the first dtype, or the tensor unchanged if it has one of the others."""
    if x.is_cpu and x.dtype in dtypes and x.is_contiguous() and not x.data_ptr() % 8:
        return x
    if x.dtype not in dtypes:
        x = x.to(dtypes[0])
    if x.device.type != "cpu":
        x = x.cpu()
    return plain_tensor(x)


def token_rows(layout: _native.Layout) -> Tensor:
    """The row of each token, int64[N]."""
    rows = layout.rows
    return torch.from_numpy(rows) if len(rows) else torch.arange(layout.tokens)


def layout_lengths(layout: _native.Layout) -> Tensor:
    """Length of each sequence, int64[B]."""
    return torch.from_numpy(np.diff(layout.offsets))


def ragged(layout: _native.Layout, arguments: Arguments) -> scan.Chain:
    """The input of ``scan``: the scores of tokens and pairs only, one after another."""
    emissions, transitions, start, end, edges = arguments
    L, device = emissions.shape[-1], emissions.device
    tokens = emissions.reshape(-1, L)[token_rows(layout).to(device)]
    if edges is not None:
        edges = edges.reshape(-1, L, L)[torch.from_numpy(layout.edge_rows).to(device)]
    return scan.Chain(tokens, layout_lengths(layout), transitions, start, end, edges)


def raise_report(report: tuple[int, int], layout: _native.Layout, arguments: Arguments, tags: Tensor | None) -> None:
    """Raise the error for what the native side reports, as `trellis.chain.ChainScores` does."""
    scores = arrays.ChainScores(*map(to_numpy, ragged(layout, arguments)))
    scores._check(report, None if tags is None else to_numpy(tags.reshape(-1))[token_rows(layout)])


def to_numpy(x: Any) -> Any:
    """Anything that NumPy accepts, unchanged, or a tensor's values."""
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x


class BatchLoss(torch.autograd.Function):
    """``log Z - score(tags)``, summed over the batch and times a scale, by the native kernels.

    Where a backward pass may follow, its gradient is computed together with the loss, in one pass over the batch. The
    caller says whether it may: a context does not know about `torch.no_grad`.
    """

    @staticmethod
    def forward(
        ctx: Any, keep: bool, layout: _native.Layout, tags: Tensor, scale: float, *arguments: Tensor | None
    ) -> Tensor:
        scores: Arguments = arguments  # type: ignore[assignment]
        inference = make_inference(layout, scores)
        if keep:
            # The native side keeps the tags it has checked: the caller may change theirs without autograd noticing.
            ctx.inference, ctx.layout, ctx.scale, ctx.has_tags = inference, layout, scale, True
            ctx.addresses = _addresses(scores)
            ctx.save_for_backward(*scores)
            loss, ctx.grads = loss_and_gradient(
                inference, layout, scores, tags, scale, edges_too=ctx.needs_input_grad[-1]
            )
            return loss
        out = torch.empty((), dtype=scores[0].dtype)
        report = inference.total_nll(tags.data_ptr(), scale, out.data_ptr())
        if report[0]:
            raise_report(report, layout, scores, tags)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores: Arguments = ctx.saved_tensors
        _unmoved(ctx, scores)
        if torch.is_grad_enabled():
            return (None, None, None, None, *_scan_gradient(ctx, grad, scores))
        grads, ctx.grads = ctx.grads, None  # whoever has them may change them
        if grads is None:  # a second backward pass
            again, plain, path = _moved(ctx, scores)
            grads = loss_and_gradient(again, ctx.layout, plain, path, ctx.scale, edges_too=ctx.needs_input_grad[-1])[1]
        outer = grad.item()
        if outer != 1.0:
            for x in grads:
                if x is not None:
                    x.mul_(outer)
        return (None, None, None, None, *grads)


def loss_and_gradient(
    inference: Inference,
    layout: _native.Layout,
    scores: Arguments,
    tags: Tensor,
    scale: float,
    *,
    edges_too: bool = False,
) -> tuple[Tensor, Gradients]:
    """The loss of the batch times the scale, and its gradient, in one pass."""
    grads, out = _like(scores, edges_too), torch.empty((), dtype=scores[0].dtype)
    report = inference.total_nll_gradient(tags.data_ptr(), scale, out.data_ptr(), *_pointers(grads))
    if report[0]:
        raise_report(report, layout, scores, tags)
    return out, grads


class ChainLoss(torch.autograd.Function):
    """``log Z``, or ``log Z - score(tags)``, of each sequence; the gradient is marginals minus indicators.

    With weights of tokens it is ``sum_t w[t] * -log P(y[t] | y[0..t-1])``. The caller says whether to keep what a
    backward pass needs, as for `BatchLoss`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        keep: bool,
        layout: _native.Layout,
        tags: Tensor | None,
        weights: Tensor | None,
        *arguments: Tensor | None,
    ) -> Tensor:
        scores: Arguments = arguments  # type: ignore[assignment]
        inference = make_inference(layout, scores)
        if keep:
            ctx.save_for_backward(weights, *scores)
            ctx.inference, ctx.layout, ctx.scale, ctx.has_tags = inference, layout, None, tags is not None
            ctx.addresses = _addresses(scores)
        return _values(inference, layout, scores, tags, weights, keep).to(scores[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, *rest = ctx.saved_tensors
        scores: Arguments = tuple(rest)
        inference, rows = _unmoved(ctx, scores), scores[0].shape[:-1].numel()
        if weights is not None and weights.numel() != rows:
            raise ChainError(f"{rows} weights of tokens in the forward pass are {weights.numel()} in the backward pass")
        if torch.is_grad_enabled():
            return (None, None, None, None, *_scan_gradient(ctx, grad, scores, weights))
        by_token = None if weights is None else plain_tensor(weights)
        if inference is None:
            inference, scores, path = _moved(ctx, scores)
            _values(inference, ctx.layout, scores, path if ctx.has_tags else None, by_token, True)
        edges_too = ctx.needs_input_grad[-1]
        if by_token is None:
            return (None, None, None, None, *native_gradient(inference, scores, grad, edges_too))
        grads, outer = _like(scores, edges_too), plain_tensor(grad, torch.float64)
        grads[0].zero_()
        inference.weighted_nll_gradient(by_token.data_ptr(), outer.data_ptr(), *_pointers(grads)[1:])
        return (None, None, None, None, *grads)


def _values(
    inference: Inference,
    layout: _native.Layout,
    scores: Arguments,
    tags: Tensor | None,
    weights: Tensor | None,
    keep: bool,
) -> Tensor:
    """Log Z, or the loss of the tags, weighted or not, of each sequence; `keep` what a gradient needs."""
    values = torch.empty(layout.sequences, dtype=torch.float64)
    if tags is None:
        report = inference.log_partition(values.data_ptr(), keep)
    elif weights is None:
        report = inference.nll(tags.data_ptr(), values.data_ptr(), keep)
    else:
        report = inference.weighted_nll(tags.data_ptr(), weights.data_ptr(), values.data_ptr())
    if report[0]:
        raise_report(report, layout, scores, tags)
    return values


def native_gradient(inference: Inference, arguments: Arguments, weights: Tensor, edges_too: bool) -> Gradients:
    """Marginals, minus the indicators of a loss's tags, times the weight of each sequence."""
    grads, by_sequence = _like(arguments, edges_too), plain_tensor(weights, torch.float64)
    inference.gradient(by_sequence.data_ptr(), *_pointers(grads))
    return grads


def _like(arguments: Arguments, edges_too: bool) -> Gradients:
    """Tensors for the gradient of these."""
    e, a, s, z = (torch.empty_like(x) for x in arguments[:4])
    return e, a, s, z, torch.empty_like(arguments[4]) if edges_too and arguments[4] is not None else None


def _pointers(grads: Gradients) -> tuple[int, ...]:
    """Where a gradient goes, as the native side is told: the last two are how many matrices of edges, and where."""
    e, a, s, z, edges = grads
    rows = e.numel() // e.shape[-1]
    matrices = (0, 0) if edges is None else (edges.shape[:-2].numel(), edges.data_ptr())
    return rows, e.data_ptr(), a.data_ptr(), s.data_ptr(), z.data_ptr(), *matrices


def _scan_gradient(ctx: Any, grad: Tensor, arguments: Arguments, weights: Tensor | None = None) -> list[Tensor | None]:
    """The gradient of a loss as a graph, for gradients of gradients."""
    chain = ragged(ctx.layout, arguments)
    if weights is not None:
        by_token = weights.to(chain.emissions.dtype).reshape(-1)[token_rows(ctx.layout)]
        value = scan.weighted_nll(chain, torch.from_numpy(ctx.inference.tags), by_token)
        return graph_gradient(value, arguments, grad)
    value = scan.log_partition(chain)
    if ctx.has_tags:
        value = value - scan.path_score(chain, torch.from_numpy(ctx.inference.tags))
    if ctx.scale is not None:
        value = value.sum() * ctx.scale
    return graph_gradient(value, arguments, grad)


def graph_gradient(value: Tensor, inputs: Sequence[Tensor | None], grad: Tensor) -> list[Tensor | None]:
    """The gradient of a value by its inputs, as a graph; None for those without one."""
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    gradients = iter(torch.autograd.grad(value, wanted, grad, create_graph=True, allow_unused=True))
    return [next(gradients) if x is not None and x.requires_grad else None for x in inputs]


def _unmoved(ctx: Any, scores: Arguments) -> Inference | None:
    """The native side of the forward pass, or None if the scores have moved in memory since, for it points to them.

    Hooks on saved tensors, assignment to ``.data`` and resized storages move them without autograd noticing.
    """
    now = _addresses(scores)
    if now == ctx.addresses:
        return ctx.inference  # type: ignore[no-any-return]
    if now[1::2] != ctx.addresses[1::2]:
        raise ChainError("the scores of a loss have other sizes in its backward pass than in its forward pass")
    check_memory(scores)
    return None


def _moved(ctx: Any, scores: Arguments) -> tuple[Inference, Arguments, Tensor]:
    """A native side of the scores where they are now, the scores as it expects them, and the tags in their layout."""
    plain: Arguments = tuple(None if x is None else plain_tensor(x) for x in scores)  # type: ignore[assignment]
    path = torch.zeros(scores[0].shape[:-1].numel(), dtype=torch.int64)
    if ctx.has_tags:
        path[token_rows(ctx.layout)] = torch.from_numpy(ctx.inference.tags)
    return make_inference(ctx.layout, plain), plain, path
