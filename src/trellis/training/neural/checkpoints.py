"""Checkpoints on disk: everything that a training needs to continue, and the weights it would keep if it ended now.

    checkpoint-00000120.safetensors    after step 120: weights, optimizer, averages, and the rest as JSON
    kept-00000080.safetensors          the weights kept so far; a checkpoint says which such file belongs to it

A file appears under its name only once it is whole and on the disk, checksums reveal a damaged one, and a checkpoint is
written after the kept weights it names: whenever the process is killed, the newest undamaged checkpoint is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis import store
from trellis.arrays import AnyArray
from trellis.errors import NewerFormatError, StoreError, shown, warn
from trellis.training.folder import CHECKPOINTS, KEPT
from trellis.untrusted import Fields

_CHECKPOINT, _KEPT = "training checkpoint", "kept weights"  # kinds of files
# Types that the store does not have are stored as whole numbers of the same width.
_AS_BITS = dict.fromkeys((torch.bfloat16, torch.float16, torch.int16), torch.uint16)
_AS_BITS |= dict.fromkeys((torch.bool, torch.int8), torch.uint8)
_PLAIN = (torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8)
_BY_NAME = {str(kind): kind for kind in (*_PLAIN, *_AS_BITS)}


class CheckpointWarning(UserWarning):
    """A checkpoint was damaged: an earlier one is used instead, or training starts from the beginning."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was saved: plain values, and tensors by part (weights, optimizer, average) and name."""

    step: int
    values: dict[str, Any]
    parts: dict[str, dict[str, Tensor]]
    kept: dict[str, Tensor] | None


class Checkpoints:
    """The checkpoints of one training in one folder; the newest `keep` of them stay."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self._keep = folder, keep

    def steps(self) -> list[int]:
        """The steps of the existing checkpoints, the newest first."""
        found = (path.stem.rpartition("-")[2] for path in self.folder.glob(CHECKPOINTS))
        return sorted((int(step) for step in found if step.isdigit()), reverse=True)

    def save_kept(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights to keep, which a later `save` will name."""
        self._write(self._kept(step), _KEPT, {}, {"weights": weights})

    def save(
        self, step: int, values: Mapping[str, Any], parts: Mapping[str, Mapping[str, Tensor]], kept: int | None
    ) -> None:
        """Write a checkpoint, then remove those that are no longer needed."""
        self._write(self._checkpoint(step), _CHECKPOINT, {"values": dict(values), "kept": kept}, parts)
        self._prune(step)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, with a warning for each that is not."""
        steps = self.steps()
        for step in steps:
            try:
                return self._read(step)
            except NewerFormatError:  # it is whole, and a training that began again would remove it
                raise
            except StoreError as error:
                if step == steps[-1]:
                    message = (
                        f"no checkpoint can be used, training starts from the beginning; that of step {step}: {error}"
                    )
                else:
                    message = f"checkpoint of step {step} cannot be used, going back to the one before it: {error}"
                warn(message, CheckpointWarning)
        return None

    def _checkpoint(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step:08d}.safetensors"

    def _kept(self, step: int) -> Path:
        return self.folder / f"kept-{step:08d}.safetensors"

    def _read(self, step: int) -> Checkpoint:
        stored = store.load(self._checkpoint(step), _CHECKPOINT)
        values, kept = stored.manifest.value("values", dict), _kept_step(stored.manifest)
        weights = None if kept is None else _parts(store.load(self._kept(kept), _KEPT)).get("weights", {})
        return Checkpoint(step, values, _parts(stored), weights)

    def _write(
        self, path: Path, kind: str, manifest: dict[str, Any], parts: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        arrays, shapes = {}, {}
        for part, tensors in parts.items():
            for name, tensor in tensors.items():
                key = f"{part}:{name}"
                arrays[key], shapes[key] = _to_array(tensor), [str(tensor.dtype), list(tensor.shape)]
        store.save(path, kind, {**manifest, "tensors": shapes, "parts": list(parts)}, arrays)

    def _prune(self, last: int) -> None:
        """Only the newest checkpoints stay, and the kept weights that they name; newer ones than `last` are damaged."""
        written = [step for step in self.steps() if step <= last]
        for step in set(self.steps()) - set(written[: self._keep]):
            self._checkpoint(step).unlink()
        named = {self._kept_of(step) for step in written[: self._keep]}
        for path in self.folder.glob(KEPT):
            if path not in named:
                path.unlink()

    def _kept_of(self, step: int) -> Path | None:
        """The file of kept weights that a checkpoint names, if it can be read."""
        try:
            kept = _kept_step(store.read_manifest(self._checkpoint(step), _CHECKPOINT))
        except StoreError:
            return None
        return None if kept is None else self._kept(kept)


def _kept_step(manifest: Fields) -> int | None:
    """The step of the kept weights that a checkpoint names."""
    nothing = manifest.value("kept", int, type(None)) is None
    return None if nothing else manifest.integer("kept", 0, 10**18)


def _parts(stored: store.Stored) -> dict[str, dict[str, Tensor]]:
    """The tensors by part and name, as the manifest describes them."""
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in stored.manifest.texts("parts")}
    described = stored.manifest.table("tensors")
    for key in described.values:
        part, _, name = key.partition(":")
        if part not in parts:
            raise StoreError(f"{stored.where}: the tensor {key!r} belongs to no part")
        parts[part][name] = _to_tensor(stored, key, described.items(key, str, list))
    return parts


def _to_array(tensor: Tensor) -> AnyArray:
    plain = tensor.detach().cpu().contiguous()
    bits = _AS_BITS.get(plain.dtype)
    return (plain if bits is None else plain.view(bits)).numpy()


def _to_tensor(stored: store.Stored, key: str, description: list[Any]) -> Tensor:
    """The tensor of the described type and shape, which the array must match."""
    match description:
        case [str(name), list(shape)] if name in _BY_NAME and all(type(size) is int for size in shape):
            dtype = _BY_NAME[name]
        case _:
            raise StoreError(f"{stored.where}: the tensor {key!r} is described by {shown(description)}")
    bits = np.dtype(str(_AS_BITS.get(dtype, dtype)).removeprefix("torch."))
    limits = (-np.inf, np.inf) if bits.kind == "f" else ()
    array = stored.array(key, bits, tuple(shape), *limits)
    return torch.from_numpy(np.array(array)).view(dtype)
