"""The state of networks in files: weights as plain arrays, checked before any memory is allocated for them.

A file may claim a million layers or a width of ten million. What it claims is built on torch's meta device, where a
weight has a shape and no memory, by `blueprint`, which stops at absurd numbers of weights; `check_state` compares the
shapes with the arrays that the file does hold.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from trellis.arrays import AnyArray, Arrays
from trellis.errors import StoreError, TrellisError
from trellis.store import Stored

M = TypeVar("M", bound=nn.Module)
_SLACK = 64  # weights that are created and not kept, in addition to those that are kept: poolers, decoders


def blueprint(make: Callable[[], M], arrays: int, where: str) -> M:
    """The network that `make` builds on the meta device; it stops at far more weights than there are arrays."""
    try:
        with _at_most(4 * arrays + _SLACK, where):
            return make()
    except TrellisError:
        raise
    except Exception as error:  # torch and transformers raise errors of many kinds for impossible sizes
        raise StoreError(f"{where}: the saved settings describe no network: {type(error).__name__}: {error}") from error


def check_state(
    state: Mapping[str, Tensor], stored: Stored, prefix: str, *, finite: bool = True, left_out: str | None = None
) -> None:
    """The arrays under the prefix must be exactly those of the state, each of its type and shape.

    Args:
        state: names and shapes that are expected.
        stored: the file.
        prefix: of the arrays' names.
        finite: whether infinities are refused; NaN always is.
        left_out: names of the state with this prefix are not expected in the file.

    """
    wanted = {name: tensor for name, tensor in state.items() if not (left_out and name.startswith(left_out))}
    stored.refuse_others(prefix, wanted)
    for name, tensor in wanted.items():
        limits = () if finite or not tensor.is_floating_point() else (-torch.inf, torch.inf)
        stored.array(f"{prefix}{name}", str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), *limits)


@contextmanager
def _at_most(count: int, where: str) -> Iterator[None]:
    """Stop this thread at the first weight beyond this many."""
    owner, seen = threading.get_ident(), 0

    def count_one(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal seen
        seen += threading.get_ident() == owner
        if seen > count:
            raise StoreError(f"{where}: the saved settings describe more than {count} weights, which the file lacks")

    hook = register_module_parameter_registration_hook(count_one)
    try:
        yield
    finally:
        hook.remove()


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
