"""Tables of transitions as heat maps: in the terminal and as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trellis import files
from trellis.errors import ConfigError
from trellis.models import CRF, HMM, Tagger

Colour = tuple[int, int, int]
_WHITE, _GREY, _RED, _BLUE = (255, 255, 255), (215, 215, 215), (200, 40, 40), (40, 80, 200)


@dataclass(frozen=True)
class HeatMap:
    """``values[i][j]`` of label i before label j; minus infinity is forbidden."""

    title: str
    labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def largest(self) -> float:
        """The largest size of a number, which gets the full colour."""
        return max((abs(v) for row in self.values for v in row if math.isfinite(v)), default=0.0) or 1.0

    def colour(self, value: float) -> Colour:
        """Red for and blue against, the stronger the more; grey is forbidden."""
        if not math.isfinite(value):
            return _GREY
        end = _RED if value > 0 else _BLUE
        share = abs(value) / self.largest
        return tuple(round(a + (b - a) * share) for a, b in zip(_WHITE, end, strict=True))  # type: ignore[return-value]

    def to_rich(self, width: int) -> Table:
        """Coloured cells, with numbers if there is room for them; columns are in the order of rows."""
        longest = max(map(len, self.labels))
        numbered = longest + 1 + sum(max(len(label) + 2, 7) for label in self.labels) <= width
        table = Table(show_header=numbered, box=None, padding=0)
        table.add_column("", no_wrap=True)
        for label in self.labels:
            table.add_column(Text(f" {label} "), justify="center", no_wrap=True)
        for label, row in zip(self.labels, self.values, strict=True):
            table.add_row(Text(f"{label} "), *(self._cell(value, numbered) for value in row))
        return table

    def _cell(self, value: float, numbered: bool) -> Text:
        number = f"{value:.2f}" if math.isfinite(value) else "·"
        text = f"{number:^7}" if numbered else "· " if number == "·" else self._shade(value) * 2
        ink = "black" if sum(self.colour(value)) > 380 else "white"
        return Text(text, style=f"{ink} on rgb({','.join(map(str, self.colour(value)))})")

    def _shade(self, value: float) -> str:
        """What shows the size of a number if there are no colours."""
        return " ░▒▓█"[round(4 * abs(value) / self.largest)]


def transitions(tagger: Tagger[Any]) -> HeatMap | None:
    """The transitions of a tagger; None if the states of its chain are not its labels."""
    if isinstance(tagger, CRF):
        rows = [[0.0 if weight is None else weight for weight in row] for row in tagger.transitions().weights]
        title = "Transitions: weight of the column's label after the row's"
    elif isinstance(tagger, HMM):
        rows = tagger.transitions_.tolist()
        title = "Transitions: probability of the column's label after the row's"
    else:
        rows = tagger.chain_scores([]).transitions.tolist()
        title = "Transitions: score of the column's label after the row's"
    if len(rows) != len(tagger.labels_) or not isinstance(rows[0][0], float):
        return None
    return HeatMap(title, tuple(tagger.labels_), tuple(tuple(row) for row in rows))


def save(heat_map: HeatMap, path: str) -> None:
    """Write the picture as SVG."""
    if Path(path).suffix.lower() != ".svg":
        raise ConfigError(f"--plot {path}: expected a name that ends in .svg")
    files.write_text(path, svg(heat_map))


def svg(heat_map: HeatMap) -> str:
    """The heat map as an SVG picture."""
    size, count = 28, len(heat_map.labels)
    margin = 20 + 8 * max(map(len, heat_map.labels))
    side = margin + size * count + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side + 20}" width="{side}" height="{side + 20}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="10" y="{side + 10}">{escape(heat_map.title)}</text>'
    ]
    for i, label in enumerate(heat_map.labels):
        place = margin + size * i + size // 2
        name = escape(label)
        parts.append(f'<text x="{margin - 6}" y="{place + 4}" text-anchor="end">{name}</text>')
        parts.append(f'<text transform="translate({place + 4} {margin - 6}) rotate(-90)">{name}</text>')
    for i, row in enumerate(heat_map.values):
        for j, value in enumerate(row):
            r, g, b = heat_map.colour(value)
            said = f"{heat_map.labels[i]} to {heat_map.labels[j]}: {value:.3f}"
            parts.append(
                f'<rect x="{margin + size * j}" y="{margin + size * i}" width="{size - 1}" height="{size - 1}" '
                f'fill="rgb({r},{g},{b})"><title>{escape(said)}</title></rect>'
            )
    return "\n".join([*parts, "</svg>\n"])
