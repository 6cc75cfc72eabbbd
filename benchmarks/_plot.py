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

    def __init__(self, canvas: Canvas, x: float, y: float, title: str, across: str, lines: Lines) -> None:
        self.canvas, self.x, self.top, self.lines = canvas, x, y + TOP, lines
        points = [point for own in lines.values() for point in own]
        self.least, self.most = min(p[0] for p in points), max(p[0] for p in points)
        self.low = math.floor(math.log10(min(p[1] for p in points)))
        self.high = math.ceil(math.log10(max(p[1] for p in points)))
        canvas.text(x + LEFT + WIDTH / 2, y + 16, title, "word")
        canvas.text(x + LEFT + WIDTH / 2, self.top + HEIGHT + 34, across, "small dim")

    def place(self, x: float, y: float) -> tuple[float, float]:
        along = math.log(x / self.least) / math.log(self.most / self.least)
        up = (math.log10(y) - self.low) / max(1, self.high - self.low)
        return self.x + LEFT + along * WIDTH, self.top + (1 - up) * HEIGHT

    def draw(self) -> None:
        for power in range(self.low, self.high + 1):
            _, y = self.place(self.least, 10.0**power)
            self.canvas.line(self.x + LEFT, y, self.x + LEFT + WIDTH, y)
            self.canvas.text(self.x + LEFT - 24, y, f"{10.0**power:g}", "small dim")
        for number, points in enumerate(self.lines.values()):
            places = [self.place(*point) for point in points]
            for a, b in pairwise(places):
                self.canvas.line(*a, *b, "best")
            for place, (x, _) in zip(places, points, strict=True):
                self.canvas.circle(*place, 4, "on")
                if number == 0:
                    self.canvas.text(place[0], self.top + HEIGHT + 16, f"{x:g}", "small dim")
        self.draw_names()

    def draw_names(self) -> None:
        """The name of each line at its end, moved down where two lines end at nearly the same height."""
        below = -math.inf
        for end, name in sorted((self.place(*points[-1])[::-1], name) for name, points in self.lines.items()):
            below = max(end[0], below + 15)
            self.canvas.text(end[1] + 8, below, name, "left small")


def picture(title: str, panels: Sequence[tuple[str, str, Lines]]) -> str:
    """Diagrams as SVG, two in each row."""
    step, height = LEFT + WIDTH + 96, TOP + HEIGHT + BOTTOM
    canvas = Canvas(step * 2, height * math.ceil(len(panels) / 2))
    for i, (name, across, lines) in enumerate(panels):
        Panel(canvas, i % 2 * step, i // 2 * height, name, across, lines).draw()
    return canvas.to_svg(title)
