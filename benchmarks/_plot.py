"""Lines over logarithmic axes, in the look of the documentation's pictures."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.pictures.svg import Canvas

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 240, 180, 56, 40, 44
Lines = Mapping[str, Sequence[tuple[float, float]]]


class Panel:
    """One diagram: lines by name, over powers of ten of what they cost."""

    def __init__(self, canvas: Canvas, x: float, title: str, across: str, lines: Lines) -> None:
        self.canvas, self.x, self.lines = canvas, x, lines
        points = [point for own in lines.values() for point in own]
        self.least, self.most = min(p[0] for p in points), max(p[0] for p in points)
        self.low = math.floor(math.log10(min(p[1] for p in points)))
        self.high = math.ceil(math.log10(max(p[1] for p in points)))
        canvas.text(x + LEFT + WIDTH / 2, 16, title, "word")
        canvas.text(x + LEFT + WIDTH / 2, TOP + HEIGHT + 34, across, "small dim")

    def place(self, x: float, y: float) -> tuple[float, float]:
        along = math.log(x / self.least) / math.log(self.most / self.least)
        up = (math.log10(y) - self.low) / max(1, self.high - self.low)
        return self.x + LEFT + along * WIDTH, TOP + (1 - up) * HEIGHT

    def draw(self) -> None:
        for power in range(self.low, self.high + 1):
            _, y = self.place(self.least, 10.0**power)
            self.canvas.line(self.x + LEFT, y, self.x + LEFT + WIDTH, y)
            self.canvas.text(self.x + LEFT - 24, y, f"{10.0**power:g}", "small dim")
        for number, (name, points) in enumerate(self.lines.items()):
            places = [self.place(*point) for point in points]
            for a, b in pairwise(places):
                self.canvas.line(*a, *b, "best")
            for place, (x, _) in zip(places, points, strict=True):
                self.canvas.circle(*place, 4, "on")
                if number == 0:
                    self.canvas.text(place[0], TOP + HEIGHT + 16, f"{x:g}", "small dim")
            self.canvas.text(places[-1][0] + 8, places[-1][1], name, "left small")


def picture(title: str, panels: Sequence[tuple[str, str, Lines]]) -> str:
    """Diagrams side by side, as SVG."""
    step = LEFT + WIDTH + 96
    canvas = Canvas(step * len(panels), TOP + HEIGHT + BOTTOM)
    for i, (name, across, lines) in enumerate(panels):
        Panel(canvas, i * step, name, across, lines).draw()
    return canvas.to_svg(title)
