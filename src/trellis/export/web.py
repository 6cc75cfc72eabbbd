"""A tagger as a folder of static files: a page that tags in the browser, without a server that computes anything."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Any

from trellis.errors import ModelError, StoreError
from trellis.export.onnx import to_onnx
from trellis.files import replacing, write_bytes
from trellis.models.tagger import Tagger

RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
"""What the page needs of onnxruntime-web."""
_INPUTS = {"mask", "word", "vector", "characters", "pairs"}
"""What the page computes of a text."""


def to_web(tagger: Tagger[Any], folder: str | Path, *, runtime: str | Path | None = None) -> Path:
    """Write page, model and description to `folder`; gives the path of the page.

    `runtime` is the folder ``dist`` of the npm package onnxruntime-web, whose files are copied too. Without it they
    have to be put there before the page works. Any server of files will do, such as ``python -m http.server``.
    """
    place = Path(folder)
    sources = [] if runtime is None else [_found(Path(runtime) / name) for name in RUNTIME]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror or error}") from None
    to_onnx(tagger, place / "model.onnx", inputs=_INPUTS)
    for source in sources:
        with replacing(place / source.name) as partial:
            shutil.copyfile(source, partial)
    for name in ("page.js", "index.html"):
        write_bytes(place / name, resources.files("trellis.export").joinpath("page", name).read_bytes())
    return place / "index.html"


def _found(file: Path) -> Path:
    if not file.is_file():
        raise ModelError(
            f"{file} is missing: runtime is the folder dist of onnxruntime-web (npm install onnxruntime-web)"
        )
    return file
