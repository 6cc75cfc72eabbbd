"""The native side of tensors: where tokens and pairs are, and what it reports."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.chain._problems import BAD_CHAIN_SCORE, OneSequence, raise_bad_chain_score, raise_problem
from trellis.chain.torch import _scan
from trellis.errors import ShapeError

Inference = _native.InferenceFloat32 | _native.InferenceFloat64
Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]
"""Emissions, transitions, start, end, and edges or None, in the layout of the batch."""


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


def places_of(arguments: Arguments) -> tuple[int, ...]:
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


def ragged(layout: _native.Layout, arguments: Arguments) -> _scan.Chain:
    """The input of ``_scan``: the scores of tokens and pairs only, one after another."""
    emissions, transitions, start, end, edges = arguments
    L, device = emissions.shape[-1], emissions.device
    tokens = emissions.reshape(-1, L)[token_rows(layout).to(device)]
    if edges is not None:
        edges = edges.reshape(-1, L, L)[torch.from_numpy(layout.edge_rows).to(device)]
    return _scan.Chain(tokens, layout_lengths(layout), transitions, start, end, edges)


def raise_report(
    report: tuple[int, int], layout: _native.Layout, arguments: Arguments, tags: Tensor | None
) -> NoReturn:
    """Raise the error for what the native side reports."""
    status, sequence = report
    plain = _scan.Chain(*(None if x is None else x.detach().cpu() for x in ragged(layout, arguments)))  # type: ignore[arg-type]
    transitions, start, end = (x.numpy() for x in (plain.transitions, plain.start, plain.end))
    if status == BAD_CHAIN_SCORE:
        raise_bad_chain_score(transitions, start, end)
    begin, stop = layout.offsets[sequence : sequence + 2].tolist()
    first_pair = begin - np.count_nonzero(plain.lengths[:sequence])
    edges = None if plain.edges is None else plain.edges[first_pair : first_pair + stop - begin - 1].numpy()
    path = None if tags is None else tags.detach().cpu().reshape(-1)[token_rows(layout)][begin:stop].numpy()
    emissions = plain.emissions[begin:stop].numpy()
    raise_problem(status, OneSequence(sequence, emissions, transitions, start, end, edges, path))
