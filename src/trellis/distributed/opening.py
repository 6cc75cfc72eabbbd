"""Models in worker processes: each opens one once, and makes sure that it is the one that the run began with."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from trellis.errors import ModelError, StoreError
from trellis.models import Tagger, load
from trellis.models.folder import model_file

_MOST = 4
_models: OrderedDict[tuple[str, str], Tagger[Any]] = OrderedDict()
_opening = threading.Lock()


def fingerprint(path: str | Path) -> str:
    """The SHA-256 of a model's file."""
    return file_digest(model_file(path))


def file_digest(path: str | Path) -> str:
    """The SHA-256 of a file, as ``sha256sum`` prints it."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from None


def opened(path: str, expected: str) -> Tagger[Any]:
    """The model, opened when this process first asks for it; another file than expected is refused."""
    with _opening:
        if (path, expected) not in _models:
            _check(path, expected)
            _models[path, expected] = load(path)
            while len(_models) > _MOST:
                _models.popitem(last=False)
        _models.move_to_end((path, expected))
        return _models[path, expected]


def _check(path: str, expected: str) -> None:
    found = fingerprint(path)
    if found != expected:
        raise ModelError(
            f"{path} is not the model that this run began with: expected the SHA-256 {expected[:16]}..., found "
            f"{found[:16]}...; was it replaced, or is it another file on this machine?"
        )
