"""``trellis demo``: what the toolkit can do, in the terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trellis import chain

TOKENS = ("Ada", "Lovelace", "met", "Charles", "in", "London")
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
# Scores as a small encoder might give them: unsure about "Lovelace" and "Charles".
EMISSIONS = np.array(
    [
        [0.1, 2.0, 0.2, 0.9, 0.1],
        [0.9, 1.0, 1.2, 0.8, 0.6],
        [2.5, 0.1, 0.2, 0.1, 0.1],
        [0.4, 1.6, 0.9, 1.4, 0.2],
        [2.2, 0.1, 0.1, 0.3, 0.4],
        [0.2, 0.8, 0.3, 1.9, 0.7],
    ]
)


def demo() -> None:
    """Draw a small trellis: scores, best path, exact marginals and the k best paths with probabilities.

    Example: trellis demo
    """
    console = Console()
    scores = _scores()
    best = chain.viterbi(scores)
    console.print("\n[bold]A trellis[/bold]: six words, five labels, one score for each label of each word.")
    console.print("Illegal steps such as O -> I-PER are forbidden (minus infinity), not just discouraged.\n")
    console.print(_trellis_table(best.tags))
    console.print(_marginal_table(scores, best.tags))
    console.print(_path_table(scores))
    entropy = float(chain.entropy(scores)[0])
    console.print(
        f"Entropy of the {len(LABELS)}^{len(TOKENS)} = {len(LABELS) ** len(TOKENS):,} label sequences: "
        f"{entropy:.3f} nats, as uncertain as {np.exp(entropy):.1f} equally likely ones.\n"
    )


def _scores() -> chain.ChainScores:
    L = len(LABELS)
    transitions = np.zeros((L, L))
    start = np.zeros(L)
    for j, label in enumerate(LABELS):
        if label.startswith("I-"):
            start[j] = -np.inf
            for i, before in enumerate(LABELS):
                if before not in (f"B-{label[2:]}", label):
                    transitions[i, j] = -np.inf
    return chain.ChainScores(EMISSIONS, [len(TOKENS)], transitions, start)


def _grid(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("label")
    for token in TOKENS:
        table.add_column(token, justify="right")
    return table


def _trellis_table(path: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Table:
    table = _grid("Emission scores and the best path (Viterbi)")
    for j, label in enumerate(LABELS):
        cells = [
            Text(f"● {EMISSIONS[t, j]:.1f}", style="bold green") if path[t] == j else Text(f"{EMISSIONS[t, j]:.1f}")
            for t in range(len(TOKENS))
        ]
        table.add_row(label, *cells)
    return table


def _marginal_table(scores: chain.ChainScores, path: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Table:
    table = _grid("Marginals: the exact probability of each label (forward-backward)")
    probabilities = chain.marginals(scores).tokens
    for j, label in enumerate(LABELS):
        row = (float(p) for p in probabilities[:, j])
        styles = ("bold green" if path[t] == j else "" for t in range(len(TOKENS)))
        table.add_row(label, *(Text(_bar(p), style=style) for p, style in zip(row, styles, strict=True)))
    return table


def _bar(p: float) -> str:
    blocks = " ▁▂▃▄▅▆▇█"
    return f"{blocks[round(p * 8)]} {p:.3f}"


def _path_table(scores: chain.ChainScores, k: int = 5) -> Table:
    table = Table(title=f"The {k} best paths", title_justify="left", title_style="bold")
    for column in ("rank", "labels", "score", "probability"):
        table.add_column(column, justify="left" if column == "labels" else "right")
    log_partition = float(chain.log_partition(scores)[0])
    paths = chain.kbest(scores, k)
    for rank, (tags, score) in enumerate(zip(paths.tags[0], paths.scores[0], strict=True), start=1):
        labels = " ".join(LABELS[tag] for tag in tags)
        table.add_row(str(rank), labels, f"{score:.2f}", f"{np.exp(score - log_partition):.3f}")
    return table
