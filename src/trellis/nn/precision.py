"""Linear layers that compute in bfloat16 while their weights stay what they are: for tagging, never for training.

CPUs with AVX-512 BF16 or AMX multiply twice as many of these numbers at a time. Everything between the layers (norms,
activations, sums) stays in single precision, and so do the weights that are trained and saved.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Precision = Literal["float32", "bfloat16"]


def set_precision(module: nn.Module, precision: Precision) -> None:
    """Let all linear layers of the module compute in this precision; bfloat16 takes a copy of their weights."""
    for layer in module.modules():
        if type(layer) is nn.Linear:
            vars(layer).pop("forward", None)
            if precision == "bfloat16":
                layer.forward = _lowered(layer)  # type: ignore[method-assign]


def _lowered(layer: nn.Linear) -> partial[Tensor]:
    bias = None if layer.bias is None else layer.bias.detach().bfloat16()
    return partial(_linear, layer.weight.detach().bfloat16(), bias)


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    return F.linear(x.to(torch.bfloat16), weight, bias).to(x.dtype)
