"""The tagger of a component: opened from where the settings say, or from where spaCy stored it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from trellis.errors import ModelError
from trellis.models import Tagger, load
from trellis.models.folder import prepare, save_model


class Opened:
    """Holds a tagger, and stores it as spaCy asks.

    Settings may name a folder of another machine: spaCy makes a component before it reads what was stored. So a folder
    that does not exist is an error only when the tagger is needed.
    """

    def __init__(self, name: str, model: str | None) -> None:
        self.name, self.model = name, model
        self._tagger = load(model) if model is not None and Path(model).exists() else None

    @property
    def tagger(self) -> Tagger[Any]:
        """The tagger; an error if there is none."""
        if self._tagger is None:
            where = "names no model" if self.model is None else f"names {self.model!r}, which does not exist"
            raise ModelError(f"{self.name} has no model: its setting `model` {where}")
        return self._tagger

    @tagger.setter
    def tagger(self, tagger: Tagger[Any]) -> None:
        self._tagger = tagger

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tagger as a folder of Trellis."""
        save_model(prepare(path), self.tagger)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Open what `to_disk` wrote."""
        self._tagger = load(path)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The tagger as the bytes of its file."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            self.tagger.save(file)
            return file.read_bytes()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Open what `to_bytes` gave."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            file.write_bytes(data)
            self._tagger = load(file)
        return self
