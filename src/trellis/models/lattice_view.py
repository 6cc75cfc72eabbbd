"""The trellis of one sentence, for the eye: every label of every token with its probability, and the best paths.

    print(tagger.trellis("Ada met Charles").to_markdown())      or in a notebook, as the last line of a cell

The data are made by `Posterior.trellis`; the terminal and notebooks are two ways to draw them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from trellis.metrics import Grid, Report
from trellis.models.tagged import Labelling

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_BARS = " ▁▂▃▄▅▆▇█"
_BEST, _NEXT = "●", "○"


@dataclass(frozen=True)
class LatticeView(Report):
    """Probabilities of labels (``probabilities[t][j]``) and the most probable paths, best first."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]
    paths: tuple[Labelling, ...]

    def shown(self, least: float = 0.01) -> list[int]:
        """The labels that lie on a path, or that some token has with at least this probability."""
        used = {tag for path in self.paths for tag in path.tags}
        return [
            j
            for j, label in enumerate(self.labels)
            if label in used or any(row[j] >= least for row in self.probabilities)
        ]

    def mark(self, token: int, label: int) -> str:
        """What stands at a label of a token: the best path goes through it, the next best does, or neither."""
        for path, sign in zip(self.paths, (_BEST, _NEXT), strict=False):
            if path.tags[token] == self.labels[label]:
                return sign
        return " "

    def runner_up(self, token: int) -> tuple[str, float]:
        """The most probable label of a token apart from that of the best path, and its probability."""
        chosen = self.paths[0].tags[token]
        rest = [(p, label) for p, label in zip(self.probabilities[token], self.labels, strict=True) if label != chosen]
        p, label = max(rest, default=(0.0, ""))
        return label, p

    def probability(self, token: int, label: str) -> float:
        """The probability of a label at a token."""
        return self.probabilities[token][self.labels.index(label)]

    def grid(self) -> Grid:
        """Labels down, tokens across; ● is the best path and ○ the second."""
        rows = [
            (self.labels[j], *(f"{self.mark(t, j)} {row[j]:.3f}" for t, row in enumerate(self.probabilities)))
            for j in self.shown()
        ]
        return Grid("Probabilities of labels; ● best path, ○ second", ("label", *self.tokens), tuple(rows))

    def draw(self, width: int = 80) -> RenderableType:
        """For a rich console of this width: the trellis, in parts below each other if it is long, and the paths."""
        from rich.console import Group

        parts = [self._table(first, last) for first, last in self._stretches(width)]
        return Group(*parts, self._path_table())

    def _stretches(self, width: int) -> Iterator[tuple[int, int]]:
        """How many tokens fit next to each other."""
        room = width - max((len(self.labels[j]) for j in self.shown()), default=5) - 5
        first, used = 0, 0
        for t, token in enumerate(self.tokens):
            needed = max(_cells(token), 8) + 3
            if t > first and used + needed > room:
                yield first, t
                first, used = t, 0
            used += needed
        yield first, len(self.tokens)

    def _table(self, first: int, last: int) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table(pad_edge=False)
        table.add_column("label", no_wrap=True)
        for token in self.tokens[first:last]:
            table.add_column(Text(token), justify="right", no_wrap=True)
        for j in self.shown():
            table.add_row(Text(self.labels[j]), *(self._cell(t, j) for t in range(first, last)))
        return table

    def _cell(self, token: int, label: int) -> Text:
        from rich.text import Text

        p, mark = self.probabilities[token][label], self.mark(token, label)
        style = {_BEST: "bold green", _NEXT: "yellow"}.get(mark, "" if p >= 0.01 else "dim")
        return Text(f"{mark} {_BARS[round(p * 8)]} {p:.2f}" if p >= 0.005 else f"{mark}   ·  ", style=style)

    def _path_table(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table(title="The most probable paths", title_justify="left", pad_edge=False)
        for name in ("", "probability", "labels; below the best only where they differ"):
            table.add_column(name, justify="right" if name == "probability" else "left")
        for rank, path in enumerate(self.paths):
            labels = path.tags if rank == 0 else self._differences(path.tags)
            mark = (_BEST, _NEXT)[rank] if rank < 2 else " "
            table.add_row(mark, f"{path.probability:.4f}", Text(" ".join(labels)))
        return table

    def _differences(self, tags: Sequence[str]) -> list[str]:
        pairs = zip(self.tokens, self.paths[0].tags, tags, strict=True)
        return [f"{token}/{tag}" for token, best, tag in pairs if tag != best]

    def _repr_html_(self) -> str:
        """A table with darker cells for more probable labels, and the best path framed."""
        head = "".join(f"<th>{escape(token)}</th>" for token in self.tokens)
        rows = "".join(self._html_row(j) for j in self.shown())
        paths = "".join(f"<li>{path.probability:.4f} {escape(' '.join(path.tags))}</li>" for path in self.paths)
        return f"<table><tr><th></th>{head}</tr>{rows}</table><ol>{paths}</ol>"

    def _html_row(self, label: int) -> str:
        cells = "".join(self._html_cell(t, label) for t in range(len(self.tokens)))
        return f"<tr><th>{escape(self.labels[label])}</th>{cells}</tr>"

    def _html_cell(self, token: int, label: int) -> str:
        p, mark = self.probabilities[token][label], self.mark(token, label)
        frame = {_BEST: "2px solid #2a2", _NEXT: "2px dashed #c80"}.get(mark, "1px solid transparent")
        style = f"background:rgba(70,130,220,{p:.2f});border:{frame}"
        return f'<td style="{style}">{p:.3f}</td>'


def _cells(text: str) -> int:
    """Columns of a terminal that a text takes."""
    from rich.cells import cell_len

    return cell_len(text)
