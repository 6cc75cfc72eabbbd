"""Which tensors the native kernels of layers accept; torch's own operations handle all others."""

from __future__ import annotations

import torch
from torch import Tensor


def supports(tensor: Tensor) -> bool:
    """Whether there are kernels for such tensors here."""
    known = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    return known and not torch.is_autocast_enabled("cpu")


def doubles(tensor: Tensor) -> bool:
    """How kernels are told the type."""
    return tensor.dtype == torch.float64
