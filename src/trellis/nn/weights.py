"""Weights as plain arrays: for storage, where shared tensors are kept once, and for checking whether they changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.arrays import AnyArray, Arrays


def arrays_of(state: Mapping[str, Tensor]) -> tuple[Arrays, dict[str, str]]:
    """Arrays of a state dict, numbers as float32, each shared tensor once, and its other names."""
    arrays: Arrays = {}
    tied: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, tensor in state.items():
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and place in seen:
            tied[name] = seen[place]
            continue
        seen[place] = name
        arrays[name] = (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().numpy().copy()
    return arrays, tied


def state_of(arrays: Mapping[str, AnyArray], tied: Mapping[str, str]) -> dict[str, Tensor]:
    """The state dict that `arrays_of` took apart."""
    state = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    return state | {name: state[original] for name, original in tied.items()}


def hash_of(texts: Iterable[str], state: Mapping[str, Tensor]) -> str:
    """SHA-256 of texts and of names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(f"{len(content)} ".encode() + content)
    for name, tensor in sorted(state.items()):
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
