"""Arrays: their types, and how they reach native code: of one dtype, contiguous, at an aligned address.

A buffer or a file may hold numbers at any address. NumPy and torch read them there; C++ must not, and its kernels
assume that it never happens. Whatever comes from outside passes through here before its address is used; anything else
is refused by native/bind/python.h. Shapes are documented where the arrays are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trellis.errors import ShapeError, shown

if TYPE_CHECKING:
    from torch import Tensor, dtype

AnyArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

Arrays = dict[str, AnyArray]
"""Arrays by name, as they are stored in files."""


def any_array(values: npt.ArrayLike) -> AnyArray:
    """Values as an array, of whatever type and shape they have."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:  # lists of unequal lengths
        raise ShapeError(f"expected an array of numbers, got {shown(values)}: {error}") from None


def plain_array(values: npt.ArrayLike, kind: npt.DTypeLike | None = None) -> AnyArray:
    """The array itself if it can be used unchanged, otherwise a copy."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "c":
        raise ShapeError(f"expected an array of real numbers, got one of {values.dtype}")
    try:
        array: AnyArray = np.ascontiguousarray(values, dtype=kind)
    except (ValueError, TypeError, OverflowError) as error:  # text, or lists of unequal lengths
        raise ShapeError(f"expected an array of numbers, got {shown(values)}: {error}") from None
    return array if array.flags.aligned else array.copy()


def plain_tensor(tensor: Tensor, kind: dtype | None = None) -> Tensor:
    """The tensor itself if it can be used unchanged, otherwise a copy, through which gradients pass."""
    if kind is not None and tensor.dtype != kind:
        tensor = tensor.to(kind)
    try:
        tensor = tensor.contiguous()
        address = tensor.data_ptr()
    except RuntimeError:  # sparse, quantized, nested
        if not (tensor.is_sparse or tensor.is_quantized or tensor.is_nested):
            raise
        raise ShapeError(
            f"expected a dense tensor, got one of layout {tensor.layout} and dtype {tensor.dtype}"
        ) from None
    if not address and tensor.numel():
        raise ShapeError(f"expected a tensor with memory, got one of shape {tuple(tensor.shape)} on {tensor.device}")
    return tensor.clone() if address % 8 and address % tensor.element_size() else tensor
