"""What `trellis demo` shows: the comparison and tagged texts. Renderables only; the command prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from trellis.demo.comparison import Result
from trellis.demo.tasks import DemoTask
from trellis.models import Tagger
from trellis.tags import Span
from trellis.text import Sentence
from trellis.training import Step

_COLOURS = {"PER": "green", "LOC": "cyan", "ORG": "magenta", "DATE": "yellow"}
_SURE = 0.9


class Board:
    """The comparison as it grows: a row for each family: waiting, then training, then its figures."""

    def __init__(self, names: Sequence[str]) -> None:
        self._rows: dict[str, list[Result] | str] = dict.fromkeys(names, "waiting")

    def training(self, name: str, step: Step | None = None) -> None:
        """The family is being trained and has come to this step."""
        self._rows[name] = "training" if step is None else _described(step)

    def done(self, name: str, results: list[Result]) -> None:
        """The family's figures are there."""
        self._rows[name] = results

    def __rich__(self) -> Table:
        """The table in its present state."""
        table = Table()
        table.add_column("model", no_wrap=True)
        for heading in ("F1", "illegal", "training", "tokens/s"):
            table.add_column(heading, justify="right", no_wrap=True)
        best = max((row.f1 for rows in self._rows.values() if not isinstance(rows, str) for row in rows), default=0.0)
        for name, rows in self._rows.items():
            if isinstance(rows, str):
                table.add_row(name, "", "", rows, "", style="dim" if rows == "waiting" else "yellow")
            else:
                for row in rows:
                    table.add_row(*_cells(row, best))
        return table


def _described(step: Step) -> str:
    """Where training is, in a few words; within an epoch the last score on the dev sentences stays."""
    place = f"iteration {step.iteration}" if step.batches is None else f"epoch {step.iteration} of {step.iterations}"
    dev = step.best if step.dev is None else step.dev
    score = "" if dev is None else f", dev {100 * dev:.1f}"
    return f"{place}{score}, {step.seconds:.0f} s"


def _cells(row: Result, best: float) -> list[Text]:
    return [
        Text(row.name),
        Text(f"{100 * row.f1:.2f}", style="bold green" if row.f1 == best else ""),
        Text(f"{row.illegal:,}", style="bold red" if row.illegal else ""),
        Text("" if row.seconds is None else f"{row.seconds:.1f} s"),
        Text("" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"),
    ]


def tagged(tagger: Tagger[Any], sentences: Sequence[Sentence], task: DemoTask) -> list[Text]:
    """The sentences with their spans marked: by colour if there is colour, always by brackets or slashes."""
    show = _segmented if task.name == "seg" else _entities
    pairs = zip(sentences, tagger.span_probabilities(sentences), strict=True)
    return [show(sentence, [(own.span, own.probability) for own in spans]) for sentence, spans in pairs]


def _entities(sentence: Sentence, spans: list[tuple[Span, float]]) -> Text:
    text, end = Text(), 0
    assert sentence.text is not None
    for span, probability in spans:
        start, stop = _characters(sentence, span)
        text.append(sentence.text[end:start])
        colour = _COLOURS.get(span.label, "blue")
        text.append(f"[{sentence.text[start:stop]}", style=f"bold {colour}")
        text.append(f" {span.label} {probability:.2f}]", style=colour)
        end = stop
    return text.append(sentence.text[end:])


def _segmented(sentence: Sentence, spans: list[tuple[Span, float]]) -> Text:
    """Words with slashes between them; the probability of those that are in doubt."""
    words = []
    assert sentence.text is not None
    for span, probability in spans:
        start, stop = _characters(sentence, span)
        word = Text(sentence.text[start:stop], style="bold green" if probability >= _SURE else "bold yellow")
        words.append(word if probability >= _SURE else word.append(f" {probability:.2f}", style="not bold yellow"))
    return Text(" / ", style="dim").join(words)


def _characters(sentence: Sentence, span: Span) -> tuple[int, int]:
    assert sentence.offsets is not None
    return sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
