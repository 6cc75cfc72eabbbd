"""Pictures of results: each is described once, and drawn as SVG for notebooks and files, or by matplotlib.

history.plot(), tagger.transitions().plot(), tagger.evaluate(dev).confusion.plot(), calibration.plot()
svg(history.pictures())                     without matplotlib, as notebooks show it
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any, NamedTuple

from trellis.errors import required

WIDTH, HEIGHT, MARGIN = 360, 260, (44, 16, 34, 52)  # of a chart; margins: top, right, bottom, left
_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_MOST_DOTS, _MOST_NUMBERS = 60, 12
_CELL = 28
_LONGEST_NUMBER = 5  # characters that fit into a cell
_WHITE, _GREY, _RED, _BLUE = (255, 255, 255), (215, 215, 215), (200, 40, 40), (40, 80, 200)


class Picture(ABC):
    """One chart or table of colours."""

    title: str

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Width and height in SVG."""

    @abstractmethod
    def elements(self) -> str:
        """The SVG elements, in a space of that size."""

    @abstractmethod
    def draw(self, axes: Any) -> None:
        """Draw on axes of matplotlib."""


class Pictured:
    """A result that has pictures."""

    def pictures(self) -> list[Picture]:
        """The pictures that `plot` draws side by side."""
        raise NotImplementedError

    def plot(self) -> list[Any]:
        """Draw with matplotlib; returns the axes, whose ``figure`` can be saved."""
        with required("plot", "trellis-crf[plot]", instead="notebooks show a picture without it"):
            from matplotlib import pyplot
        pictures = self.pictures()
        width, height = sum(one.size[0] for one in pictures) / 72, max(one.size[1] for one in pictures) / 72
        ratios = [one.size[0] for one in pictures]
        _, grid = pyplot.subplots(
            1, len(pictures), squeeze=False, figsize=(width, height), width_ratios=ratios, layout="constrained"
        )
        for axes, picture in zip(grid[0], pictures, strict=True):
            axes.set_title(picture.title, fontsize=10)
            picture.draw(axes)
        return list(grid[0])


def svg(pictures: Sequence[Picture]) -> str:
    """The pictures side by side as SVG."""
    lefts = list(accumulate((one.size[0] for one in pictures), initial=0))
    width, height = lefts[-1], max((one.size[1] for one in pictures), default=0)
    groups = "".join(
        f'<g transform="translate({left} 0)">{one.elements()}</g>\n' for left, one in zip(lefts, pictures, strict=False)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="{_INK}">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{groups}</svg>\n'
    )


class Curve(NamedTuple):
    name: str
    colour: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Chart(Picture):
    """Curves over one axis, `unit` of which is its name; `marked` is a place on it with a word."""

    title: str
    curves: Sequence[Curve]
    unit: str
    marked: tuple[float, str] | None = None
    whole: bool = True
    """Whether only whole numbers are written below."""

    @property
    def size(self) -> tuple[int, int]:
        return WIDTH, HEIGHT

    def draw(self, axes: Any) -> None:
        for name, colour, points in self.curves:
            marker = "o" if len(points) <= _MOST_DOTS else None
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=3, label=name)
        if self.marked is not None:
            axes.axvline(self.marked[0], color=_FAINT, linestyle=":", label=self.marked[1])
        axes.set_xlabel(self.unit)
        axes.grid(color=_GRID)
        if len(self.curves) > 1:
            axes.legend()

    def elements(self) -> str:
        top, right, bottom, left = MARGIN
        width, height = WIDTH - right, HEIGHT - bottom
        points = [point for curve in self.curves for point in curve.points]
        columns = [x for x in ticks(0, max((x for x, _ in points), default=1.0)) if not self.whole or x == int(x)]
        rows = ticks(min((y for _, y in points), default=0.0), max((y for _, y in points), default=1.0))

        def scaled(value: float, axis: list[float], begin: float, end: float) -> float:
            share = (value / 2 - axis[0] / 2) / (axis[-1] / 2 - axis[0] / 2)  # halves: otherwise large floats overflow
            return round(begin + share * (end - begin), 1)

        parts = [f'<text x="{left}" y="18" font-weight="bold">{self.title}</text>']
        digits = max(0, -math.floor(math.log10(rows[1] - rows[0])))
        for value in rows:
            y = scaled(value, rows, height, top)
            number = f"{value:,.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}"
            parts.append(
                f'<line x1="{left}" y1="{y}" x2="{width}" y2="{y}" stroke="{_GRID}"/>'
                f'<text x="{left - 6}" y="{y + 4}" text-anchor="end" fill="{_FAINT}">{number}</text>'
            )
        for value in columns:
            x = scaled(value, columns, left, width)
            parts.append(f'<text x="{x}" y="{height + 16}" text-anchor="middle" fill="{_FAINT}">{value:g}</text>')
        parts.append(f'<text x="{width}" y="{HEIGHT - 4}" text-anchor="end" fill="{_FAINT}">{self.unit}</text>')
        if self.marked is not None:
            x = scaled(self.marked[0], columns, left, width)
            parts.append(
                f'<line x1="{x}" y1="{height}" x2="{x}" y2="{top}" stroke="{_FAINT}" stroke-dasharray="3 3"/>'
                f'<text x="{x}" y="{top - 5}" text-anchor="middle" fill="{_FAINT}">{self.marked[1]}</text>'
            )
        for _, colour, line in self.curves:
            drawn = [(scaled(x, columns, left, width), scaled(y, rows, height, top)) for x, y in line]
            path = " ".join(f"{x},{y}" for x, y in drawn)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
            if len(drawn) <= _MOST_DOTS:
                parts += [f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}"/>' for x, y in drawn]
        for i, curve in enumerate(reversed(self.curves)) if len(self.curves) > 1 else ():  # the legend
            x = left + max(90, 20 + 7 * len(self.title)) + 72 * i
            parts.append(
                f'<circle cx="{x}" cy="14" r="4" fill="{curve.colour}"/><text x="{x + 8}" y="18">{curve.name}</text>'
            )
        return "\n".join(parts)


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers that reach from at most `low` to at least `high`.

    Computed in fractions, so that this works for all floats; an end beyond the range of floats is the largest one.
    """
    from fractions import Fraction  # not needed to tag

    largest = Fraction(sys.float_info.max)
    # A flat line is not magnified beyond a thousandth of its height.
    span = max(Fraction(high) - Fraction(low), Fraction(max(abs(low), abs(high), 1e-9)) / 1000)
    unit = Fraction(10) ** math.floor(math.log10(span.numerator) - math.log10(span.denominator * 5))
    size = next(unit * k for k in (1, 2, 5, 10, 20) if span <= 5 * unit * k)
    first, last = math.floor(Fraction(low) / size), math.ceil(Fraction(high) / size)
    return [float(min(max(k * size, -largest), largest)) for k in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class HeatMap(Picture):
    """``values[i][j]`` of row i and column j: red above zero, blue below; minus infinity, grey, is forbidden."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    decimals: int = 2
    framed: frozenset[tuple[int, int]] = frozenset()
    """Cells with a frame."""

    @property
    def largest(self) -> float:
        """The largest size of a number, which gets the full colour."""
        return max((abs(v) for row in self.values for v in row if math.isfinite(v)), default=0.0) or 1.0

    def colour(self, value: float) -> tuple[int, int, int]:
        """Red for and blue against, the stronger the more; grey is forbidden."""
        if not math.isfinite(value):
            return _GREY
        end, share = _RED if value > 0 else _BLUE, abs(value) / self.largest
        red, green, blue = (round(a + (b - a) * share) for a, b in zip(_WHITE, end, strict=True))
        return red, green, blue

    def is_dark(self, value: float) -> bool:
        """Whether text on the colour of this value must be white."""
        return sum(self.colour(value)) <= 380

    @property
    def _margins(self) -> tuple[int, int]:
        """Space at the left and at the top, for names; below the title."""
        left, top = (20 + 7 * max(map(len, names), default=0) for names in (self.rows, self.columns))
        return left, top + 20

    @property
    def size(self) -> tuple[int, int]:
        left, top = self._margins
        return max(left + _CELL * len(self.columns) + 10, 20 + 6 * len(self.title)), top + _CELL * len(self.rows) + 10

    def elements(self) -> str:
        left, top = self._margins
        parts = [f'<text x="10" y="18" font-weight="bold">{escape(self.title)}</text>']
        for i, name in enumerate(self.rows):
            parts.append(f'<text x="{left - 6}" y="{top + _CELL * i + 18}" text-anchor="end">{escape(name)}</text>')
        for j, name in enumerate(self.columns):
            place = f"translate({left + _CELL * j + 18} {top - 6}) rotate(-90)"
            parts.append(f'<text transform="{place}">{escape(name)}</text>')
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                number = f"{value:.{self.decimals}f}" if math.isfinite(value) else "forbidden"
                about = f"<title>{escape(f'{self.rows[i]}, {self.columns[j]}: {number}')}</title>"
                frame = ' stroke="#2a2" stroke-width="2"' if (i, j) in self.framed else ""
                x, y = left + _CELL * j, top + _CELL * i
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" '
                    f'fill="rgb({",".join(map(str, self.colour(value)))})"{frame}>{about}</rect>'
                )
                if len(self.columns) <= _MOST_NUMBERS and len(number) <= _LONGEST_NUMBER:
                    ink = "white" if self.is_dark(value) else _INK
                    parts.append(
                        f'<text x="{x + 13}" y="{y + 17}" font-size="10" text-anchor="middle" fill="{ink}">'
                        f"{number}{about}</text>"
                    )
        return "\n".join(parts)

    def draw(self, axes: Any) -> None:
        pixels = [[[part / 255 for part in self.colour(value)] for value in row] for row in self.values]
        axes.imshow(pixels, aspect="auto")
        axes.set_xticks(range(len(self.columns)), self.columns, rotation=90)
        axes.set_yticks(range(len(self.rows)), self.rows)
        numbered = len(self.columns) <= _MOST_NUMBERS
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                weight = "bold" if (i, j) in self.framed else "normal"
                if math.isfinite(value) and (numbered or weight == "bold"):
                    ink = "white" if self.is_dark(value) else "black"
                    axes.text(j, i, f"{value:.{self.decimals}f}", ha="center", va="center", color=ink, weight=weight)
