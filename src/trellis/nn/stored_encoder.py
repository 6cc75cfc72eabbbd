"""What a file says about a transformer, checked before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from trellis.arrays import Arrays
from trellis.errors import ModelError, StoreError
from trellis.store import Stored
from trellis.untrusted import Fields

if TYPE_CHECKING:
    from trellis.nn.transformer import TransformerEncoder


def untied(arrays: Arrays, fields: Fields) -> Arrays:
    """The arrays, with shared ones under each of their names."""
    tied = fields.table("tied")
    for name in tied.values:
        original = tied.text(name)
        if original not in arrays:
            raise StoreError(f"{tied.where}: {name!r} is said to be {original!r}, which is missing")
    return arrays | {name: arrays[original] for name, original in tied.values.items()}


def options_of(fields: Fields) -> dict[str, Any]:
    """The constructor's options in a file; the constructor checks their values."""
    mixed = fields.value("mix_layers", bool, list)
    sizes = {name: fields.integer(name, 0, 2**31) for name in ("window", "overlap")}
    return {
        "pooling": fields.text("pooling"),
        "mix_layers": mixed if isinstance(mixed, bool) else list(fields.integers("mix_layers", -(2**31), 2**31)),
        "freeze": fields.value("freeze", str, int),
        "checkpointing": fields.value("checkpointing", bool),
        **sizes,
    }


def try_out(encoder: TransformerEncoder, stored: Stored) -> None:
    """Run the encoder once, so that wrong settings that no shape reveals do not fail in the middle of tagging."""
    try:
        with torch.no_grad():
            features, _ = encoder.eval()(encoder.batch(encoder.encode([["a"], ["a", "b"]])))
        if features.shape != (2, 2, encoder.output_size):
            raise ModelError(f"it gives features of shape {tuple(features.shape)}")
    except Exception as error:
        raise StoreError(f"{stored.where}: the stored encoder does not run: {type(error).__name__}: {error}") from error
    encoder.train()
