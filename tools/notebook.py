"""Lessons as notebooks: ``python -m tools.notebook`` writes them from the pages, with the outputs shown there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.pages import FENCE

ROOT = Path(__file__).parents[1]
PAGES = ("docs/how-it-works/write-crf.md", "docs/zh/how-it-works/write-crf.md")
_OUTPUTS = ("output", "输出")


def path_of(page: str) -> Path:
    """Where the notebook of a page is: beside it."""
    return (ROOT / page).with_suffix(".ipynb")


def notebook(page: str) -> str:
    """The notebook of a page as JSON: Python blocks are cells of code with their outputs, everything else is text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    cells: list[dict[str, Any]] = []
    end = 0
    for block in FENCE.finditer(text):
        if block["language"] == "text" and block["file"] in _OUTPUTS:
            _add_prose(cells, text[end : block.start()])
            output = {"name": "stdout", "output_type": "stream", "text": block["text"].splitlines(keepends=True)}
            next(cell for cell in reversed(cells) if cell["cell_type"] == "code")["outputs"].append(output)
        elif block["language"] == "python":
            _add_prose(cells, text[end : block.start()])
            source = block["text"].rstrip("\n").splitlines(keepends=True)
            code: dict[str, Any] = {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": source,
            }
            cells.append(code | {"id": f"cell-{len(cells)}"})
        else:
            continue  # blocks of other languages stay part of the text
        end = block.end()
    _add_prose(cells, text[end:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _add_prose(cells: list[dict[str, Any]], text: str) -> None:
    # Links to other pages lead nowhere from a notebook that was downloaded: the names of the pages stay.
    bare = re.sub(r"\[([^\]]+)\]\((?!http)[^)]+\)", r"\1", text).strip("\n")
    if bare.strip():
        source = bare.splitlines(keepends=True)
        cells.append({"cell_type": "markdown", "metadata": {}, "source": source, "id": f"cell-{len(cells)}"})


def main() -> None:
    """Write the notebooks of all pages that have one."""
    for page in PAGES:
        path_of(page).write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main()
