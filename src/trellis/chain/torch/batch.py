"""The tensors of a batch, and where its tokens are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy.typing as npt
import torch
from torch import Tensor

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.chain.torch import _scan
from trellis.chain.torch.inference import (
    Arguments,
    Inference,
    layout_lengths,
    layout_of_mask,
    make_inference,
    ragged,
    raise_report,
    token_rows,
)
from trellis.errors import ShapeError
from trellis.ragged import check_lengths

Backend = Literal["auto", "scan"]


class Batch:
    """What ``ChainScores`` is made of; see there."""

    __slots__ = ("edges", "emissions", "end", "layout", "native", "shape", "start", "transitions")

    def __init__(
        self,
        emissions: Tensor,
        lengths: Tensor | Sequence[int] | npt.NDArray[Any],
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        edges: Tensor | None = None,
        *,
        backend: Backend = "auto",
    ) -> None:
        if emissions.dim() != 2 or emissions.shape[1] < 1:
            raise ShapeError(f"emissions must be (N, L) with L >= 1, got {tuple(emissions.shape)}")
        checked = check_lengths(to_numpy(lengths), len(emissions))
        self.layout = _native.layout_of_lengths(checked, len(checked), len(emissions))
        self._set(emissions, transitions, start, end, backend)
        if edges is not None:
            self._set_edges(edges, "(P, L, L)", self.layout.pairs)

    @classmethod
    def padded(
        cls,
        emissions: Tensor,
        mask: Tensor | None,
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        edges: Tensor | None = None,
        *,
        batch_first: bool = True,
        tags: Tensor | None = None,
        ignore_index: int = -100,
        backend: Backend = "auto",
    ) -> Self:
        """The scores of a padded batch ``(B, T, L)``, or ``(T, B, L)`` with ``batch_first=False``.

        The tokens of a sequence are the true places of its row of ``mask`` (B, T) (or column of (T, B)), in order:
        holes, padding on the left and empty rows are all fine. Without a mask every place is a token. With ``tags``,
        places whose tag is ``ignore_index`` are skipped too.

        ``edges`` are ``(B, T - 1, L, L)``, or ``(T - 1, B, L, L)``: those of place t - 1 are added to the scores of
        transitions into the token at place t, from the token before it, which is at t - 1 or, if the mask has holes,
        further left. Those into places without a token, and into the first token of a sequence, are ignored.
        """
        shape = emissions.shape
        if len(shape) != 3 or shape[2] < 1:
            raise ShapeError(f"emissions must be (B, T, L) with L >= 1, got {tuple(shape)}")
        first, second, _ = shape
        for name, places in (("mask", mask), ("tags", tags)):
            if places is not None and places.shape != (first, second):
                raise ShapeError(
                    f"{name} must be {(first, second)} to match emissions {tuple(shape)}, got {tuple(places.shape)}"
                )
        self = cls.__new__(cls)
        self.layout = layout_of_mask(shape, mask, tags, ignore_index, batch_first)
        self._set(emissions, transitions, start, end, backend)
        if edges is not None:
            if batch_first:
                self._set_edges(edges, "(B, T - 1, L, L)", first, max(second - 1, 0))
            else:
                self._set_edges(edges, "(T - 1, B, L, L)", max(first - 1, 0), second)
        return self

    def _set(
        self, emissions: Tensor, transitions: Tensor, start: Tensor | None, end: Tensor | None, backend: Backend
    ) -> None:
        L = emissions.shape[-1]
        dtype = emissions.dtype if emissions.dtype == torch.float64 else torch.float32
        self.shape = emissions.shape
        self.native = backend == "auto" and emissions.is_cpu
        # In its own shape: a view would add a node to the graph.
        self.emissions = self._plain(emissions, dtype)
        self.transitions = self._matching("transitions", transitions, "(L, L)", (L, L))
        self.start = self._zeros() if start is None else self._matching("start", start, "(L,)", (L,))
        self.end = self._zeros() if end is None else self._matching("end", end, "(L,)", (L,))
        self.edges: Tensor | None = None

    def _set_edges(self, edges: Tensor, letters: str, *places: int) -> None:
        self.edges = self._matching("edges", edges, letters, (*places, self.num_labels, self.num_labels))

    def _matching(self, name: str, x: Tensor, letters: str, shape: tuple[int, ...]) -> Tensor:
        if not isinstance(x, Tensor):
            raise ShapeError(f"{name} must be a tensor {letters} = {shape}, got {type(x).__name__}")
        if x.shape != shape:
            raise ShapeError(
                f"{name} must be {letters} = {shape} to match emissions {tuple(self.shape)}, got {tuple(x.shape)}"
            )
        if self.native and not x.is_cpu:
            raise ShapeError(f"{name} must be on the cpu to match emissions, got {x.device}")
        return self._plain(x, self.emissions.dtype)

    def _plain(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return plain_tensor(x, dtype) if self.native else x.to(dtype).contiguous()  # it may have no address

    def _zeros(self) -> Tensor:
        return self.emissions.new_zeros(self.num_labels)

    @property
    def num_labels(self) -> int:
        """L."""
        return int(self.shape[-1])

    @property
    def num_rows(self) -> int:
        """Places in the layout of the emissions, including those without a token."""
        return self.shape[:-1].numel()

    @property
    def matrix(self) -> Tensor:
        """The emissions by row, (rows, L)."""
        return self.emissions.reshape(-1, self.num_labels)

    @property
    def arguments(self) -> Arguments:
        """Emissions, transitions, start, end, edges."""
        return self.emissions, self.transitions, self.start, self.end, self.edges

    def restricted(self, allowed: Tensor | None) -> Self:
        """The same scores with every label outside ``allowed`` (shaped like the emissions) forbidden."""
        if allowed is None:
            return self
        if allowed.shape != self.shape or allowed.dtype != torch.bool:
            raise ShapeError(
                f"allowed must be bool {tuple(self.shape)} to match emissions, "
                f"got {allowed.dtype} {tuple(allowed.shape)}"
            )
        other = type(self).__new__(type(self))
        for name in Batch.__slots__:
            setattr(other, name, getattr(self, name))
        other.emissions = self.emissions.masked_fill(~allowed, -torch.inf)
        return other

    def requires_grad(self) -> bool:
        """Whether an answer computed from these scores becomes part of a graph."""
        e, a, s, z, edges = self.arguments
        wanted = e.requires_grad or a.requires_grad or s.requires_grad or z.requires_grad
        return torch.is_grad_enabled() and (wanted or (edges is not None and edges.requires_grad))

    def inference(self) -> Inference:
        """The native side; it points into these tensors, which must be kept alive."""
        return make_inference(self.layout, self.arguments)

    def rows(self) -> Tensor:
        """The row of each token, int64[N]."""
        return token_rows(self.layout).to(self.emissions.device)

    def lengths(self) -> Tensor:
        """Length of each sequence, int64[B], on the CPU."""
        return layout_lengths(self.layout)

    def ragged(self) -> _scan.Chain:
        """The input of ``_scan``."""
        return ragged(self.layout, self.arguments)

    def by_token(self, values: Tensor, fill: float = 0) -> Tensor:
        """Put values of tokens ``(N, ...)`` back into the layout of the emissions."""
        rest = values.shape[1:]
        if len(self.shape) == 2:
            return values
        out = values.new_full((self.num_rows, *rest), fill)
        return out.index_copy(0, self.rows(), values).reshape(*self.shape[:-1], *rest)

    def check(self, report: tuple[int, int], tags: Tensor | None = None) -> None:
        """Raise the error for what the native side reports."""
        if report[0]:
            raise_report(report, self.layout, self.arguments, tags)

    def check_tags(self, tags: Tensor) -> Tensor:
        """Tags as the native side expects them; it checks that each is a label."""
        if tags.shape != self.shape[:-1] or tags.dtype.is_floating_point or tags.dtype.is_complex:
            raise ShapeError(
                f"tags must be integers {tuple(self.shape[:-1])} to match emissions {tuple(self.shape)}, "
                f"got {tags.dtype} {tuple(tags.shape)}"
            )
        if self.native and not tags.is_cpu:
            raise ShapeError(f"tags must be on the cpu to match emissions, got {tags.device}")
        return plain_tensor(tags, torch.int64) if self.native else tags.to(torch.int64).contiguous()

    def by_sequence(self) -> Tensor:
        """Where the native side writes a value for each sequence."""
        return torch.empty(self.layout.sequences, dtype=torch.float64)


def to_numpy(x: Any) -> Any:
    """Anything that NumPy accepts, unchanged, or a tensor's values."""
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x
