"""Arrays and tensors at addresses that their numbers do not have in C++."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def misaligned(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """The same numbers one byte further on; bytes and booleans may lie there."""
    array = np.ascontiguousarray(values)
    own = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    own[...] = array
    assert own.itemsize == 1 or not own.size or not own.flags.aligned
    return own


def misaligned_tensor(values: torch.Tensor) -> torch.Tensor:
    """A leaf with the same numbers, that requires a gradient where the given tensor does."""
    own = torch.from_numpy(misaligned(values.detach().numpy()))
    assert own.element_size() == 1 or not own.numel() or own.data_ptr() % own.element_size()
    return own.requires_grad_(values.requires_grad)
