"""The layer's loss and decoding as registered torch operators, for ``torch.compile``.

A compiled graph can look neither into the native code nor into the objects that connect forward and backward. These
operators accept and return only tensors; the compiler sees opaque nodes of known shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trellis.chain.scores import Decoded
from trellis.chain.torch.scores import ChainScores
from trellis.errors import ChainError

# Written out, since torch 2.4 cannot read them from annotations that are strings.
_CHAIN = "Tensor transitions, Tensor start, Tensor end, Tensor? edges, bool batch_first"
_LOSS = f"Tensor emissions, Tensor tags, Tensor? mask, {_CHAIN}, int ignore_index"


def _scores(emissions: Tensor, mask: Tensor | None, chain: Sequence[Any], **options: Any) -> ChainScores:
    *parameters, batch_first = chain
    return ChainScores.padded(emissions, mask, *parameters, batch_first=batch_first, **options)


@torch.library.custom_op("trellis::nll", mutates_args=(), schema=f"({_LOSS}) -> Tensor")
def _nll(emissions: Tensor, tags: Tensor, mask: Tensor | None, *rest: Any) -> Tensor:
    *chain, ignore_index = rest
    return _scores(emissions, mask, chain, tags=tags, ignore_index=ignore_index).nll(tags)


@torch.library.custom_op("trellis::nll_backward", mutates_args=(), schema=f"(Tensor grad, {_LOSS}) -> Tensor[]")
def _nll_backward(grad: Tensor, emissions: Tensor, tags: Tensor, mask: Tensor | None, *rest: Any) -> list[Tensor]:
    *chain, ignore_index = rest
    scores = _scores(emissions, mask, chain, tags=tags, ignore_index=ignore_index)
    grads = zip(scores.nll_gradient(tags, grad), _present(emissions, *chain[:4]), strict=True)
    return [gradient.reshape(x.shape).to(x.dtype) for gradient, x in grads]


@torch.library.custom_op(
    "trellis::viterbi", mutates_args=(), schema=f"(Tensor emissions, Tensor? mask, {_CHAIN}) -> (Tensor, Tensor)"
)
def _viterbi(emissions: Tensor, mask: Tensor | None, *chain: Any) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        decoded = _scores(emissions, mask, chain).viterbi()
    return decoded.tags, decoded.scores


def is_traced() -> bool:
    """Whether `torch.jit.trace` is at work."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def is_exported() -> bool:
    """Whether `torch.export` is at work; torch before 2.7 does not say."""
    asked = getattr(torch.compiler, "is_exporting", None)
    return asked is not None and bool(asked())


def refuse_exporters() -> None:
    """An error for exporters, which would write down the answers of their example, or a node that nobody knows."""
    if is_traced() or torch.onnx.is_in_onnx_export():
        raise ChainError(
            "trellis.nn.CRF runs native code, which torch.jit.trace and torch.onnx.export cannot see: call what "
            "trellis.nn.CRF.decoder_for_export() gives in its place"
        )


def refuse_export_of_scores() -> None:
    """An error for `torch.export`, which knows the registered operators only."""
    if is_exported():
        raise ChainError(
            "torch.export keeps viterbi and nll of trellis.nn.CRF only: call what trellis.nn.CRF.decoder_for_export() "
            "gives for marginals and the probability of the best path"
        )


def _present(*tensors: Tensor | None) -> list[Tensor]:
    return [x for x in tensors if x is not None]


def _loss_dtype(emissions: Tensor) -> torch.dtype:
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


@_nll.register_fake
def _(emissions: Tensor, *rest: Any) -> Tensor:
    refuse_exporters()  # they call this as well, and torch.compile cannot tell
    batch = emissions.shape[0] if rest[6] else emissions.shape[1]
    return emissions.new_empty((batch,), dtype=_loss_dtype(emissions))


@_nll_backward.register_fake
def _(grad: Tensor, emissions: Tensor, tags: Tensor, mask: Tensor | None, *rest: Any) -> list[Tensor]:
    contiguous = torch.contiguous_format
    return [torch.empty_like(x, memory_format=contiguous) for x in _present(emissions, *rest[:4])]


@_viterbi.register_fake
def _(emissions: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    refuse_exporters()
    batch = emissions.shape[0] if rest[5] else emissions.shape[1]
    scores = emissions.new_empty((batch,), dtype=_loss_dtype(emissions))
    return emissions.new_empty(emissions.shape[:2], dtype=torch.int64), scores


def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:7])
    ctx.options = inputs[7:]


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    d_emissions, d_transitions, d_start, d_end, *d_edges = _nll_backward(
        grad.contiguous(), *ctx.saved_tensors, *ctx.options
    )
    return d_emissions, None, None, d_transitions, d_start, d_end, d_edges[0] if d_edges else None, None, None


_nll.register_autograd(_differentiate, setup_context=_keep_inputs)


def nll(emissions: Tensor, tags: Tensor, mask: Tensor | None, *rest: Any) -> Tensor:
    """Negative log-likelihood of a padded batch as one operator, reduced by the last argument, the reduction.

    The others are those of the operator: see `_LOSS`.
    """
    *chain, ignore_index, reduction = rest
    losses: Tensor = _nll(emissions, tags, mask, *chain, ignore_index)
    if reduction == "none":
        return losses
    if reduction == "token_mean":
        counted: Tensor = tags != ignore_index
        return losses.sum() / (counted if mask is None else counted & mask.bool()).sum().clamp_min(1)
    return losses.sum() if reduction == "sum" else losses.sum() / max(len(losses), 1)


def viterbi(emissions: Tensor, mask: Tensor | None, *chain: Any) -> Decoded[Tensor, Tensor]:
    """The best labels of a padded batch and their scores, as one operator; see `_CHAIN`."""
    return Decoded(*_viterbi(emissions, mask, *chain))
