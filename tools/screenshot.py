"""The pictures of the README: ``python -m tools.screenshot demo page`` draws both, or the one that is named.

demo: docs/images/demo.svg, what ``trellis demo`` prints about its first task; it takes a minute.
page: docs/images/page.png, the page of ``trellis serve --demo``, and the Chinese one in docs/zh. It needs chromium,
whose path may be in TRELLIS_CHROMIUM.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI

from trellis.cli import demo

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = {"en-GB": DOCS / "images" / "page.png", "zh-CN": DOCS / "zh" / "images" / "page.png"}


def demo_picture() -> str:
    """The first task of the demo as a terminal shows it; with the reader's fonts, since rich's come from the web."""
    console = Console(record=True, width=100, file=io.StringIO(), highlight=False)
    demo.show(console, demo.TASKS["ner"], neural=True)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="trellis demo", theme=MONOKAI), flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace")


def draw(url: str, locale: str, image: Path) -> None:
    """The page with its example, one span of which is explained."""
    browser = os.environ.get("TRELLIS_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = found.new_page(viewport={"width": 1000, "height": 1000}, locale=locale, color_scheme="light")
        page.goto(url)
        page.wait_for_selector("html[data-ready]:not([data-busy])")
        page.locator("#result").focus()
        with page.expect_response("**/v1/explain"):
            page.keyboard.press("w")
        page.wait_for_selector("html:not([data-busy])")
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=image, full_page=True)
        found.close()


def draw_pages() -> None:
    """Start a server, draw, and stop it."""
    command = [sys.executable, "-m", "trellis", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            urls = (re.search(r"http://\S+", line) for line in server.stdout)
            url = next(url for url in urls if url)[0]
            for locale, image in IMAGES.items():
                draw(url, locale, image)
        finally:
            server.terminate()


def main() -> None:
    """Draw the pictures that are named."""
    if "demo" in sys.argv[1:]:
        (DOCS / "images" / "demo.svg").write_text(demo_picture(), encoding="utf-8")
    if "page" in sys.argv[1:]:
        draw_pages()


if __name__ == "__main__":
    main()
