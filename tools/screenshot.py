"""The pictures of the page: ``python -m tools.screenshot`` draws docs/images/page.png, and the one in docs/zh.

It starts ``trellis serve --demo`` and needs chromium, whose path may be in TRELLIS_CHROMIUM.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = {"en-GB": DOCS / "images" / "page.png", "zh-CN": DOCS / "zh" / "images" / "page.png"}


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


def main() -> None:
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


if __name__ == "__main__":
    main()
