"""What a training of any family leaves next to its model: history.json, and learning-curve.svg, a picture of it.

This is the one place that names these files, writes them and reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trellis import files
from trellis.errors import ConfigError, StoreError
from trellis.training.history import History
from trellis.untrusted import JSONSyntaxError, parse_json

HISTORY, CURVE = "history.json", "learning-curve.svg"


def write_history(folder: Path, history: History) -> None:
    """Write the history, and its picture if there is a curve to draw."""
    texts = history_texts(history)
    files.write_together({folder / name: text for name, text in texts.items()})
    if CURVE not in texts:
        (folder / CURVE).unlink(missing_ok=True)  # of an earlier training


def history_texts(history: History) -> dict[str, str]:
    """The files of a history by name: itself, and its picture unless it is a single step, as from counting."""
    texts = {HISTORY: _json(history.to_dict())}
    if len(history.steps) > 1:
        from trellis.training.curve import draw_curve  # fractions are not needed to tag

        texts[CURVE] = draw_curve(history)
    return texts


def read_history(folder: str | Path) -> History | None:
    """The history of the training in this folder, if there is one."""
    path = Path(folder) / HISTORY
    values = read_json(path)
    try:
        return None if values is None else History.from_dict(values)
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise StoreError(f"{path} is not a training history: {error}") from None


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values, all or nothing."""
    files.write_text(path, _json(values))


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def read_json(path: Path) -> Any:
    """The content of a JSON file; None if there is none."""
    try:
        return parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, JSONSyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"expected JSON: {error}"
        raise StoreError(f"{path} cannot be read: {reason}") from None
