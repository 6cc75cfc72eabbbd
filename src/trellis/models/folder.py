"""Model folders: what `trellis train` leaves behind.

    model.safetensors    the model, as `Tagger.save` writes it; the only file that tagging needs
    config.toml          all settings it was trained with, explained
    history.json         the steps of its training
    training.json        the record: command, data, formats, scheme, figures

Each file appears under its name only once it is whole.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from trellis import config
from trellis.errors import StoreError
from trellis.models.base import Tagger
from trellis.training import History

MODEL, CONFIG, HISTORY, RECORD = "model.safetensors", "config.toml", "history.json", "training.json"


def model_file(path: str | Path) -> Path:
    """The file that holds the model: the path itself, or the one in the folder."""
    given = Path(path)
    if not given.is_dir():
        return given
    if not (given / MODEL).is_file():
        raise StoreError(f"the folder {path} holds no model: expected {MODEL} in it")
    return given / MODEL


def prepare(folder: str | Path) -> Path:
    """The folder, made where it does not exist, and known to take files: training is too long to fail after it."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target).close()
    except OSError as error:
        raise _unwritable(target, error) from None
    return target


def save_model(folder: Path, tagger: Tagger[Any]) -> None:
    """Write model, settings and history."""
    try:
        tagger.save(folder / MODEL)
    except (OSError, SafetensorError) as error:
        raise _unwritable(folder / MODEL, error) from None
    _write(folder / CONFIG, config.to_toml(tagger.config))
    if tagger.history_ is not None:
        _write(folder / HISTORY, _json(tagger.history_.to_dict()))


def save_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record of the training."""
    _write(folder / RECORD, _json(record))


def read_record(path: str | Path) -> dict[str, Any]:
    """The record of a model folder; empty for a model file without one."""
    values: dict[str, Any] = _read_json(Path(path) / RECORD) or {}
    return values


def read_history(path: str | Path) -> History | None:
    """The training history of a model folder, if there is one."""
    values = _read_json(Path(path) / HISTORY)
    try:
        return None if values is None else History.from_dict(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{Path(path) / HISTORY} is no training history: {error}") from None


def _read_json(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from None


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="surrogateescape")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: Exception) -> StoreError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StoreError(f"{path} cannot be written: {reason}")
