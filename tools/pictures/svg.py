"""A canvas for line drawings: one look for all pictures, by day and by night."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

# As an image a picture follows the system's colours; on the site, where it is part of the page, those of the reader.
_LIGHT = "--ink:#1f2937;--dim:#6b7280;--line:#8593a3;--accent:#00796b;--fill:#d5efec;--bad:#c2410c"
_DARK = "--ink:#e5e7eb;--dim:#9ca3af;--line:#6b7b95;--accent:#4db6ac;--fill:#12514b;--bad:#fb923c"
_STYLE = f"""
.picture{{{_LIGHT};max-width:100%;height:auto;font-family:system-ui,"Noto Sans","Noto Sans CJK SC",sans-serif}}
@media (prefers-color-scheme:dark){{.picture{{{_DARK}}}}}
[data-md-color-scheme=default] .picture{{{_LIGHT}}}
[data-md-color-scheme=slate] .picture{{{_DARK}}}
.picture text{{fill:var(--ink);text-anchor:middle;dominant-baseline:central;font-size:14px}}
.picture .left{{text-anchor:start}}
.picture .small{{font-size:12px}}
.picture .dim{{fill:var(--dim)}}
.picture .word{{font-size:16px;font-weight:600}}
.picture .badtext{{fill:var(--bad)}}
.picture .accenttext{{fill:var(--accent)}}
.picture circle,.picture rect{{fill:none;stroke:var(--line);stroke-width:1.5}}
.picture .on{{fill:var(--fill);stroke:var(--accent);stroke-width:2}}
.picture .off{{stroke-dasharray:3 3}}
.picture line{{stroke:var(--line);stroke-width:1.5}}
.picture line.best{{stroke:var(--accent);stroke-width:3.5}}
.picture line.bad{{stroke:var(--bad);stroke-width:2.5;stroke-dasharray:6 4}}
"""


class Canvas:
    """Shapes in the order they are drawn."""

    def __init__(self, width: float, height: float) -> None:
        self._size = f"{width:g} {height:g}"
        self._width = width
        self._shapes: list[str] = []

    def text(self, x: float, y: float, words: object, kind: str = "") -> None:
        """Words with their middle at a point; with the kind "left" they begin there."""
        self._shapes.append(f'<text x="{x:g}" y="{y:g}"{_class(kind)}>{escape(str(words))}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "") -> None:
        """A line; "best" and "bad" stand out."""
        self._shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"{_class(kind)}/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """A line with a head at its second end."""
        self.line(x1, y1, x2, y2)
        angle = math.atan2(y1 - y2, x1 - x2)
        for side in (angle - 0.45, angle + 0.45):
            self.line(x2, y2, x2 + 9 * math.cos(side), y2 + 9 * math.sin(side))

    def circle(self, x: float, y: float, radius: float, kind: str = "") -> None:
        """A circle; "on" is filled, "off" is dashed."""
        self._shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}"{_class(kind)}/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "") -> None:
        """A rectangle by its middle."""
        corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}"'
        self._shapes.append(f'<rect {corner} rx="4"{_class(kind)}/>')

    def label(self, x: float, y: float, width: float, words: object, kind: str = "") -> None:
        """A box with words in it."""
        self.box(x, y, width, 26, kind)
        self.text(x, y, words, "dim" if kind == "off" else "")

    def to_svg(self, title: str) -> str:
        """The picture as a file, for which `title` is read out."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" width="{self._width:g}"'
        parts = (f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", *self._shapes)
        return f'{head} viewBox="0 0 {self._size}">\n' + "\n".join(parts) + "\n</svg>\n"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def write(path: Path, svg: str) -> None:
    """Write a picture, and the folder around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg, encoding="utf-8")
