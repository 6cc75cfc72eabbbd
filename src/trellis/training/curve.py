"""The learning curve as an SVG picture: the loss, and next to it the score on held-out sentences, over iterations."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from trellis.training.history import History, Step

WIDTH, HEIGHT, MARGIN = 360, 260, (44, 16, 34, 52)  # of a panel; margins: top, right, bottom, left
_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_MOST_DOTS = 60
_LARGEST = Fraction(sys.float_info.max)
_Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: its name, its colour, and its points (iteration, value)."""

    name: str
    colour: str
    points: _Points


def draw_curve(history: History) -> str:
    """One panel for the loss, and one for the score if there is one; the iteration that was kept is marked."""
    steps = history.steps
    unit = "epoch" if any(step.batches is not None for step in steps) else "iteration"
    mark = steps[history.kept].iteration if history.kept >= 0 else None
    panels = [_panel("training loss", [_line("loss", "loss", "#2563eb", steps)], unit, mark)]
    named = (("precision", "precision", "#a3b8cc"), ("recall", "recall", "#d9b99b"), ("F1", "dev", "#c2410c"))
    scores = [_line(name, field, colour, steps, 100.0) for name, field, colour in named]
    if scores[-1].points:
        panels.append(_panel("dev score", [line for line in scores if line.points], unit, mark))
    width = WIDTH * len(panels)
    placed = "".join(f'<g transform="translate({WIDTH * i} 0)">{panel}</g>\n' for i, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="{_INK}">\n'
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>\n{placed}</svg>\n'
    )


def _line(name: str, field: str, colour: str, steps: Sequence[Step], factor: float = 1.0) -> Line:
    """The values of a quantity in the steps; a loss that overflowed is not drawn."""
    values = ((step.iteration, getattr(step, field)) for step in steps)
    return Line(name, colour, [(x, factor * y) for x, y in values if y is not None and math.isfinite(y)])


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers, about `count` of them, that reach from at most `low` to at least `high`.

    Computed in fractions, so that this works for all floats; an end beyond the range of floats is the largest one.
    """
    # A flat line is not magnified beyond a thousandth of its height.
    span = max(Fraction(high) - Fraction(low), Fraction(max(abs(low), abs(high), 1e-9)) / 1000)
    unit = Fraction(10) ** math.floor(math.log10(span.numerator) - math.log10(span.denominator * count))
    size = next(unit * k for k in (1, 2, 5, 10, 20) if span <= count * unit * k)
    first, last = math.floor(Fraction(low) / size), math.ceil(Fraction(high) / size)
    return [float(min(max(k * size, -_LARGEST), _LARGEST)) for k in range(first, max(last, first + 1) + 1)]


def _panel(title: str, lines: Sequence[Line], unit: str, kept: float | None) -> str:
    top, right, bottom, left = MARGIN
    points = [point for line in lines for point in line.points]
    columns = [x for x in ticks(0, max((x for x, _ in points), default=1.0)) if x == int(x)]
    rows = ticks(min((y for _, y in points), default=0.0), max((y for _, y in points), default=1.0))
    frame = _Frame((columns[0], columns[-1]), (rows[0], rows[-1]), (left, WIDTH - right), (HEIGHT - bottom, top))
    parts = [f'<text x="{left}" y="18" font-weight="bold">{escape(title)}</text>']
    parts += [_row(frame, y, rows[1] - rows[0]) for y in rows]
    parts += [_column(frame, x) for x in columns]
    parts.append(f'<text x="{WIDTH - right}" y="{HEIGHT - 4}" text-anchor="end" fill="{_FAINT}">{unit}</text>')
    if kept is not None:
        parts.append(_mark(frame, kept))
    parts += [_polyline(frame, line) for line in lines]
    parts += [_legend(i, line) for i, line in enumerate(reversed(lines))] if len(lines) > 1 else []
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Frame:
    """From values to places in the picture."""

    xs: tuple[float, float]
    ys: tuple[float, float]
    across: tuple[float, float]
    up: tuple[float, float]

    def x(self, value: float) -> float:
        return _between(value, self.xs, self.across)

    def y(self, value: float) -> float:
        return _between(value, self.ys, self.up)


def _between(value: float, own: tuple[float, float], place: tuple[float, float]) -> float:
    share = (value / 2 - own[0] / 2) / (own[1] / 2 - own[0] / 2)  # halves: otherwise large floats overflow
    return round(place[0] + share * (place[1] - place[0]), 1)


def _row(frame: _Frame, value: float, size: float) -> str:
    y, digits = frame.y(value), max(0, -math.floor(math.log10(size)))
    number = f"{value:,.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}"
    return (
        f'<line x1="{frame.across[0]}" y1="{y}" x2="{frame.across[1]}" y2="{y}" stroke="{_GRID}"/>'
        f'<text x="{frame.across[0] - 6}" y="{y + 4}" text-anchor="end" fill="{_FAINT}">{number}</text>'
    )


def _column(frame: _Frame, value: float) -> str:
    return f'<text x="{frame.x(value)}" y="{frame.up[0] + 16}" text-anchor="middle" fill="{_FAINT}">{value:.0f}</text>'


def _mark(frame: _Frame, place: float) -> str:
    x = frame.x(place)
    return (
        f'<line x1="{x}" y1="{frame.up[0]}" x2="{x}" y2="{frame.up[1]}" stroke="{_FAINT}" stroke-dasharray="3 3"/>'
        f'<text x="{x}" y="{frame.up[1] - 5}" text-anchor="middle" fill="{_FAINT}">kept</text>'
    )


def _polyline(frame: _Frame, line: Line) -> str:
    places = [(frame.x(x), frame.y(y)) for x, y in line.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    few = len(places) <= _MOST_DOTS
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2" fill="{line.colour}"/>' for x, y in places if few)
    return f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="1.8"/>{dots}'


def _legend(place: int, line: Line) -> str:
    x = MARGIN[3] + 90 + 72 * place
    return f'<circle cx="{x}" cy="14" r="4" fill="{line.colour}"/><text x="{x + 8}" y="18">{escape(line.name)}</text>'
