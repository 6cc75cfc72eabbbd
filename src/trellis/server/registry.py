"""The models of a server by name, and how a changed file takes the place of the model that was opened from it.

A model is replaced as a whole: requests that were read before keep the old one. A file that cannot be opened changes
nothing but what `/readyz` says.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from trellis.errors import ConfigError, StoreError, TrellisError, did_you_mean
from trellis.models import Tagger, load
from trellis.models.folder import model_file
from trellis.server.problems import RequestError
from trellis.server.schemas import ModelAnswer
from trellis.text import hue

Signature = tuple[int, int, int]
"""The inode, time and size of a file; it has changed if they differ."""
_SETTLED = 2_000_000_000
"""A file that cannot be opened is tried again until it is this old, in nanoseconds: within a tick of the file system's
clock it may change without another signature."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model as it was opened; another one takes its place when its file changes."""

    name: str
    tagger: Tagger[Any]
    signature: Signature
    version: str
    """A digest of the file: the same for the same content, wherever and whenever it was opened."""

    @property
    def kinds(self) -> list[str]:
        """The labels of spans."""
        return sorted({kind for _, kind in self.tagger.tagset_.parsed if kind})

    def about(self) -> ModelAnswer:
        """What clients may know."""
        tagger, tags = self.tagger, self.tagger.tagset_
        return ModelAnswer(
            name=self.name,
            version=self.version,
            kind=tagger.kind,
            labels=list(tags.labels),
            kinds=self.kinds,
            scheme=tags.scheme.value,
            tokenizer=str(tagger.tokenizer_),
            hues=[hue(kind) for kind in self.kinds or [""]],
        )


class ModelRegistry:
    """The models that are served; the first is the one that is meant if a request names none."""

    def __init__(self, paths: Mapping[str, str | Path]) -> None:
        """Open all of them; an error names the file, as it is for the person who starts the server."""
        if not paths:
            raise ConfigError("a server needs at least one model, got none")
        self._paths = {name: Path(path) for name, path in paths.items()}
        self._models = {name: _opened(name, path) for name, path in self._paths.items()}
        self._first = next(iter(self._paths))
        self._broken: dict[str, Signature] = {}
        self._problems: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the files itself."""
        return ModelRegistry, (self._paths,)

    def __iter__(self) -> Iterator[ServedModel]:
        """The models, the first one first."""
        return iter(tuple(self._models.values()))

    def get(self, name: str | UnsetType = UNSET) -> ServedModel:
        """A model by name; without one, the first."""
        name = self._first if name is UNSET else name
        if name not in self._models:
            raise RequestError("not_found", f"there is no model {name[:80]!r}{did_you_mean(name, self._models)}")
        return self._models[name]

    def path(self, name: str) -> Path:
        """The file or folder of a model."""
        return self._paths[name]

    @property
    def problems(self) -> dict[str, str]:
        """Why the file of a model is not what is served, by name."""
        return dict(self._problems)

    def refresh(self) -> list[str]:
        """Open what has changed since the last look; the names of the models that were replaced. It may take long."""
        return [name for name in self._paths if self._refresh(name)]

    def _refresh(self, name: str) -> bool:
        path, old, signature = self._paths[name], self._models[name], None
        try:
            signature = _signature(path)
            if signature == self._broken.get(name):
                return False
            if signature != old.signature:
                self._models[name] = _opened(name, path, old)
        except Exception as error:  # whatever is wrong with a file, the old model goes on
            reason = str(error) if isinstance(error, TrellisError) else f"it cannot be opened: {type(error).__name__}"
            self._problems[name] = _without_path(reason, path, name)
            if signature is not None and time.time_ns() - signature[1] > _SETTLED:
                self._broken[name] = signature
            return False
        self._problems.pop(name, None)
        return self._models[name].tagger is not old.tagger


def _opened(name: str, path: Path, old: ServedModel | None = None) -> ServedModel:
    """The model of a file; it is not loaded if it has the content of the old one."""
    signature = _signature(path)  # before it is read: if it changes meanwhile, it is opened again
    try:
        with open(model_file(path), "rb") as file:
            version = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None
    if old is not None and version == old.version:
        return replace(old, signature=signature)
    return ServedModel(name, load(path), signature, version)


def _signature(path: Path) -> Signature:
    try:
        status = os.stat(model_file(path))
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):  # of a device or a pipe, reading may never end
        raise StoreError(f"{path} cannot be opened: it is not a file")
    return status.st_ino, status.st_mtime_ns, status.st_size


def _without_path(message: str, path: Path, name: str) -> str:
    """The message as clients may see it: they know the model by its name only."""
    files = ("", "model.safetensors", "training.json", "checkpoints")
    paths = {str(folder / file) for folder in (path, path.absolute(), path.resolve()) for file in files}
    for longest_first in sorted(paths, key=len, reverse=True):
        message = message.replace(longest_first, name)
    return message
