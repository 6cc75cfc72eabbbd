"""Run the pages that have pictures, and draw these."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import torch

from tools.pages import run, snippets
from tools.pictures.catalogue import PICTURES, drawn
from tools.pictures.svg import write

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Draw all pictures again."""
    torch.set_num_threads(1)  # networks this small would wait for their threads most of the time
    for page in PICTURES:
        names: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for snippet in snippets(ROOT / page, "python"):
                run(snippet, page, names)
        for file, svg in drawn(page, names).items():
            write(ROOT / file, svg)


if __name__ == "__main__":
    main()
