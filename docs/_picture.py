"""Draw the picture of the README, docs/images/demo.svg, by running the demo on a console that records.

python docs/_picture.py             HMM and CRF, as trellis demo --quick
python docs/_picture.py --neural    all four families, takes some minutes
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from trellis.cli import demo
from trellis.demo.comparison import TASKS

TARGET = Path(__file__).parent / "images" / "demo.svg"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def main(*, neural: bool) -> None:
    """Run the English half of the demo and export what it prints."""
    console = Console(record=True, width=100, file=io.StringIO(), highlight=False)
    demo._show(console, TASKS["ner"], neural=neural)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(without_web_fonts(console.export_svg(title="trellis demo", theme=MONOKAI)), encoding="utf-8")


def without_web_fonts(svg: str) -> str:
    """The picture with the reader's own fonts: rich would load one from the web."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", FONT)


if __name__ == "__main__":
    main(neural="--neural" in sys.argv)
