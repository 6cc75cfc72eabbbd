"""The arguments of ``trellis tag --pipe``: models first, then files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trellis.errors import ConfigError


def models_and_files(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The models, which are folders or files that end in .safetensors, and the files to tag."""
    missing = next((path for path in arguments if path != "-" and not Path(path).exists()), None)
    if missing is not None:
        raise ConfigError(f"--pipe: {missing} does not exist; expected two or more models, then the files to tag")
    count = next((i for i, path in enumerate(arguments) if not _is_model(path)), len(arguments))
    late = next((path for path in arguments[count:] if _is_model(path)), None)
    if late is not None:
        raise ConfigError(f"--pipe: the model {late} comes after the file {arguments[count]}: give all models first")
    if count < 2:
        raise ConfigError(f"--pipe: expected two or more models, then the files to tag; found {count} model(s)")
    return list(arguments[:count]), list(arguments[count:])


def _is_model(path: str) -> bool:
    return path != "-" and (Path(path).is_dir() or path.endswith(".safetensors"))
