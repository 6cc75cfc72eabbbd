"""The scores of a batch as tensors, and where its tokens lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trellis import _native
from trellis.aligned import plain_tensor
from trellis.arrays import AnyArray
from trellis.chain._problems import raise_problem
from trellis.errors import ShapeError
from trellis.ragged import check_lengths

Backend = Literal["auto", "scan"]
Inference = _native.InferenceFloat32 | _native.InferenceFloat64


class ChainScores:
    """The scores of a batch as tensors; see ``trellis.chain.ChainScores`` for what they mean.

    Args:
        emissions: ``(N, L)`` with ``lengths``, or padded with ``ChainScores.padded``. Half and bfloat16 are computed
            in float32.
        lengths: ``(B,)``, adding up to N.
        transitions: ``(L, L)``, from row to column.
        start: ``(L,)``, zeros where left out.
        end: ``(L,)``, zeros where left out.
        backend: "auto", or "scan" to use the torch implementation on the CPU too.

    """

    __slots__ = ("emissions", "end", "layout", "native", "shape", "start", "transitions")

    def __init__(
        self,
        emissions: Tensor,
        lengths: Tensor | Sequence[int],
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        *,
        backend: Backend = "auto",
    ) -> None:
        if emissions.dim() != 2 or emissions.shape[1] < 1:
            raise ShapeError(f"emissions must be (N, L) with L >= 1, got {tuple(emissions.shape)}")
        checked = check_lengths(to_numpy(lengths), len(emissions))
        self._set(emissions, transitions, start, end, backend)
        self.layout = _native.layout_of_lengths(checked, len(checked), len(emissions))

    @classmethod
    def padded(
        cls,
        emissions: Tensor,
        mask: Tensor | None,
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        *,
        batch_first: bool = True,
        tags: Tensor | None = None,
        ignore_index: int = -100,
        backend: Backend = "auto",
    ) -> ChainScores:
        """Scores of a padded batch ``(B, T, L)``, or ``(T, B, L)`` with ``batch_first=False``.

        The tokens of a sequence are the true places of its row of ``mask`` (B, T) (or column of (T, B)), in order:
        holes, padding on the left and empty rows are all fine. Without a mask every place is a token. With ``tags``,
        places whose tag is ``ignore_index`` are left out too.
        """
        if emissions.dim() != 3 or emissions.shape[2] < 1:
            raise ShapeError(f"emissions must be (B, T, L) with L >= 1, got {tuple(emissions.shape)}")
        for name, places in (("mask", mask), ("tags", tags)):
            if places is not None and places.shape != emissions.shape[:2]:
                raise ShapeError(
                    f"{name} must be {tuple(emissions.shape[:2])} to match emissions {tuple(emissions.shape)}, "
                    f"got {tuple(places.shape)}"
                )
        self = cls.__new__(cls)
        self._set(emissions, transitions, start, end, backend)
        self.layout = _layout_of_mask(emissions.shape, mask, tags, ignore_index, batch_first)
        return self

    def _set(
        self,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor | None,
        end: Tensor | None,
        backend: Backend,
    ) -> None:
        L = emissions.shape[-1]
        dtype = emissions.dtype if emissions.dtype == torch.float64 else torch.float32
        self.shape = emissions.shape
        self.native = backend == "auto" and emissions.device.type == "cpu"
        # In its own shape: a view would cost a node of the graph.
        self.emissions = _plain(emissions, dtype, self.native)
        self.transitions = _matching("transitions", transitions, (L, L), self)
        self.start = _zeros(self) if start is None else _matching("start", start, (L,), self)
        self.end = _zeros(self) if end is None else _matching("end", end, (L,), self)

    @property
    def num_labels(self) -> int:
        """L."""
        return int(self.shape[-1])

    @property
    def num_rows(self) -> int:
        """Places in the layout of the emissions, those of no token included."""
        return self.shape[:-1].numel()

    @property
    def matrix(self) -> Tensor:
        """The emissions by row, (rows, L)."""
        return self.emissions.reshape(-1, self.num_labels)

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Emissions, transitions, start, end."""
        return self.emissions, self.transitions, self.start, self.end

    def restricted(self, allowed: Tensor | None) -> ChainScores:
        """The same scores with every label outside ``allowed`` (shaped like the emissions) forbidden."""
        if allowed is None:
            return self
        if allowed.shape != self.shape or allowed.dtype != torch.bool:
            raise ShapeError(
                f"allowed must be bool {tuple(self.shape)} to match emissions, "
                f"got {allowed.dtype} {tuple(allowed.shape)}"
            )
        other = type(self).__new__(type(self))
        for name in ("end", "layout", "native", "shape", "start", "transitions"):
            setattr(other, name, getattr(self, name))
        other.emissions = self.emissions.masked_fill(~allowed, -torch.inf)
        return other

    def requires_grad(self) -> bool:
        """Whether an answer computed from these scores takes part in a graph."""
        return torch.is_grad_enabled() and any(x.requires_grad for x in self.arguments)

    def inference(self) -> Inference:
        """The native side; it points into these tensors, which must be kept alive."""
        return make_inference(self.layout, *self.arguments)

    def rows(self) -> Tensor:
        """The row of each token, int64[N]."""
        return token_rows(self.layout).to(self.emissions.device)

    def lengths(self) -> Tensor:
        """Length of each sequence, int64[B], on the CPU."""
        return layout_lengths(self.layout)

    def ragged(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What ``_scan`` takes: emissions[N, L], lengths, transitions, start, end."""
        return self.matrix[self.rows()], self.lengths(), self.transitions, self.start, self.end

    def by_token(self, values: Tensor, fill: float = 0) -> Tensor:
        """Put values of tokens ``(..., N, *rest)`` back into the layout of the emissions; the token axis is 0."""
        rest = values.shape[1:]
        if len(self.shape) == 2:
            return values
        out = values.new_full((self.num_rows, *rest), fill)
        return out.index_copy(0, self.rows(), values).reshape(*self.shape[:-1], *rest)

    def check(self, report: tuple[int, int], tags: Tensor | None = None) -> None:
        """Raise the error for what the native side reports."""
        if report[0]:
            raise_report(report, self.layout, self.arguments, tags)


def _layout_of_mask(
    shape: torch.Size, mask: Tensor | None, tags: Tensor | None, ignore_index: int, batch_first: bool
) -> _native.Layout:
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
    """A contiguous CPU tensor of the first dtype, or as it is where it has one of the others."""
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


def _plain(x: Tensor, dtype: torch.dtype, native: bool) -> Tensor:
    return plain_tensor(x, dtype) if native else x.to(dtype).contiguous()  # which may have no address


def _matching(name: str, x: Tensor, shape: tuple[int, ...], scores: ChainScores) -> Tensor:
    if x.shape != shape:
        letters = "(L, L)" if len(shape) == 2 else "(L,)"
        raise ShapeError(
            f"{name} must be {letters} = {shape} to match emissions {tuple(scores.shape)}, got {tuple(x.shape)}"
        )
    return _plain(x, scores.emissions.dtype, scores.native)


def _zeros(scores: ChainScores) -> Tensor:
    return scores.emissions.new_zeros(scores.num_labels)


def to_numpy(x: Tensor | Sequence[int]) -> npt.ArrayLike:
    """What NumPy takes as it is, or a tensor's values."""
    if isinstance(x, Tensor):
        array: AnyArray = x.detach().cpu().numpy()
        return array
    return x


def make_inference(
    layout: _native.Layout, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Inference:
    """The native side of these tensors; it points into them, so they must be kept alive."""
    kind = _native.InferenceFloat64 if emissions.dtype == torch.float64 else _native.InferenceFloat32
    pointers = (emissions.data_ptr(), transitions.data_ptr(), start.data_ptr(), end.data_ptr())
    return kind(layout, *pointers, emissions.shape[-1])


def raise_report(
    report: tuple[int, int], layout: _native.Layout, arguments: tuple[Tensor, ...], tags: Tensor | None
) -> NoReturn:
    """Raise the error for what the native side reports."""
    status, sequence = report
    offsets, all_rows = layout.offsets, layout.rows
    rows = np.arange(offsets[sequence], offsets[sequence + 1])
    if len(all_rows):
        rows = all_rows[rows]
    emissions, transitions, start, end = (x.detach().cpu().numpy() for x in arguments)
    path = None if tags is None else tags.detach().cpu().reshape(-1).numpy()
    matrix = emissions.reshape(-1, emissions.shape[-1])
    raise_problem(status, sequence, rows, matrix, transitions, start, end, path)
