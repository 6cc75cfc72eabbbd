"""What the CRF layer is given, checked: padded tensors, masks or lengths, constraints, reductions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from trellis.chain.torch import ChainScores
from trellis.errors import ChainError, ConfigError, ShapeError
from trellis.ragged import check_lengths

Constraints = Tensor | tuple[Tensor, Tensor, Tensor]


def forbidden(constraints: Constraints | None, L: int) -> Iterator[Tensor | None]:
    """What the constraints of transitions, start and end forbid; None if they forbid nothing."""
    given = constraints if isinstance(constraints, tuple) else (constraints, None, None)
    for name, allowed, shape in zip(("transitions", "start", "end"), given, ((L, L), (L,), (L,)), strict=True):
        if allowed is None:
            yield None
            continue
        mask = torch.as_tensor(allowed)
        if mask.shape != shape or mask.dtype != torch.bool:
            raise ShapeError(
                f"constraints of {name} must be bool {shape} for num_tags = {L}, got {mask.dtype} {tuple(mask.shape)}"
            )
        yield ~mask


def check_padded(emissions: Tensor, tags: Tensor | None, mask: Tensor | None, L: int) -> None:
    """The checks of pytorch-crf, with its messages; one-hot tags of a wrong width have one of their own."""
    shape = emissions.shape
    if len(shape) != 3:
        raise ShapeError(f"emissions must have dimension of 3, got {len(shape)}")
    if shape[2] != L:
        raise ShapeError(f"expected last dimension of emissions is {L}, got {shape[2]}")
    places = shape[:2]
    if tags is not None and tags.ndim == 3 and tags.shape[:2] == places and tags.shape[2] > 1:
        raise ShapeError(
            f"the last dimension of one-hot tags must be num_tags = {L}, got {tags.shape[2]} in {tuple(tags.shape)}; "
            f"tags may also be numbers of labels, {tuple(places)}"
        )
    for name, other in (("tags", tags), ("mask", mask)):
        if other is not None and other.shape != places:
            raise ShapeError(
                f"the first two dimensions of emissions and {name} must match, "
                f"got {tuple(places)} and {tuple(other.shape)}"
            )


def places(emissions: Tensor, mask: Tensor | None, lengths: Tensor | None, *, batch_first: bool) -> Tensor | None:
    """The places that hold a token, as a mask: the one given, or that of lengths; None if all do."""
    if lengths is None:
        return mask
    if mask is not None:
        raise ChainError("give either a mask or lengths, got both")
    B, T = emissions.shape[:2] if batch_first else (emissions.shape[1], emissions.shape[0])
    given = lengths if isinstance(lengths, Tensor) else torch.from_numpy(check_lengths(lengths))
    kind = given.dtype
    if given.shape != (B,) or kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise ShapeError(f"lengths must be integers (B,) = ({B},), got {kind} {tuple(given.shape)}")
    counts = given.to(emissions.device, torch.int64)
    in_range = torch.compiler.is_compiling() or bool(((counts >= 0) & (counts <= T)).all())
    if not in_range:
        raise ShapeError(f"lengths must be in 0..{T}, the size of the time axis, got {given.tolist()}")
    found = torch.arange(T, device=emissions.device) < counts[:, None]
    return found if batch_first else found.T


def known(reduction: str) -> str:
    """The name of a reduction, if there is one of that name."""
    if reduction not in ("none", "sum", "mean", "token_mean"):
        raise ConfigError(f"invalid reduction: {reduction}")
    return reduction


def scale(scores: ChainScores, reduction: str) -> float | None:
    """What the sum over sequences is multiplied by; None for no reduction."""
    if known(reduction) == "none":
        return None
    if reduction == "sum":
        return 1.0
    count = scores.layout.sequences if reduction == "mean" else scores.layout.tokens
    return 1.0 / max(count, 1)  # a batch without tokens has no loss; 0 / 0 would spoil the parameters for ever
