"""Labels over words: lattices, Viterbi, label bias, paths by their probability, and the graphs of three models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

from tools.pictures.svg import Canvas

_DX, _DY, _R = 130, 70, 22


def _x(t: int) -> float:
    return 90 + t * _DX


def _y(j: int) -> float:
    return 80 + j * _DY


def _edge(canvas: Canvas, t: int, i: int, j: int, kind: str = "", top: float = 0) -> None:
    """From label i at token t to label j at the next one, between the circles, in a frame that begins at `top`."""
    length = (_DX**2 + (_y(j) - _y(i)) ** 2) ** 0.5
    dx, dy = _R * _DX / length, _R * (_y(j) - _y(i)) / length
    canvas.line(_x(t) + dx, top + _y(i) + dy, _x(t + 1) - dx, top + _y(j) - dy, kind)


def _legend(canvas: Canvas, y: float, entries: list[tuple[str, str]]) -> None:
    for number, (kind, words) in enumerate(entries):
        canvas.line(_x(0), y + 24 * number, _x(0) + 40, y + 24 * number, kind)
        canvas.text(_x(0) + 52, y + 24 * number, words, "left small")


def bmes_lattice(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """All legal paths of the characters, the best of them, and what a softmax at each character takes."""
    legal, p, bmes, paths = names["legal"], names["p"], names["bmes"], names["paths"]
    T, L = p.shape
    canvas = Canvas(_x(T - 1) + 90, _y(L - 1) + 120)
    best, greedy = names["best"].tags.tolist(), p.argmax(axis=1).tolist()
    used = {(t, *step) for path in paths for t, step in enumerate(pairwise(path))}
    for t, i, j in sorted(used):
        _edge(canvas, t, i, j)
    for t, (i, j) in enumerate(pairwise(best)):
        _edge(canvas, t, i, j, "best")
    for t, (i, j) in enumerate(pairwise(greedy)):
        if not legal.transitions[i, j]:
            _edge(canvas, t, i, j, "bad")
    reached = {(t, j) for path in paths for t, j in enumerate(path)}
    for t, j in product(range(T), range(L)):
        kind = "on" if best[t] == j else "" if (t, j) in reached else "off"
        canvas.circle(_x(t), _y(j), _R, kind)
        canvas.text(_x(t), _y(j) - 6, bmes.decode([j])[0], "dim" if kind == "off" else "")
        number = "badtext" if greedy[t] == j != best[t] else "" if kind == "on" else "dim"
        canvas.text(_x(t), _y(j) + 9, f"{p[t, j]:.2f}", f"small {number}".strip())
    for t, character in enumerate(names["characters"]):
        canvas.text(_x(t), 32, character, "word")
    entries = [("", say["legal"]), ("best", say["best"]), ("bad", say["bad"])]
    _legend(canvas, _y(L - 1) + 50, entries)
    return canvas.to_svg(say["title"])


def softmax_bars(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """One softmax per character: the probabilities of its labels as bars, the largest marked."""
    p, bmes = names["p"], names["bmes"]
    T, L = p.shape
    canvas = Canvas(_x(T - 1) + 90, 60 + 24 * L + 40)
    for t, character in enumerate(names["characters"]):
        canvas.text(_x(t), 32, character, "word")
        for j in range(L):
            y, largest = 60 + 24 * j, p[t, j] == p[t].max()
            canvas.text(_x(t) - 50, y + 8, bmes.decode([j])[0], "small" if largest else "small dim")
            width = max(60 * float(p[t, j]), 1)
            canvas.box(_x(t) - 40 + width / 2, y + 8, width, 16, "on" if largest else "")
            canvas.text(_x(t) + 42, y + 8, f"{p[t, j]:.2f}", "small" if largest else "small dim")
    canvas.text(_x(0) - 54, 60 + 24 * L + 18, say["note"], "left small")
    return canvas.to_svg(say["title"])


def viterbi_frames(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """Viterbi step by step: one frame per word with the steps into it, those that won in bold, then the way back."""
    table, words = names["table"], names["words"]
    T, L = table.values.shape
    height = _y(L - 1) + 40
    canvas = Canvas(_x(T - 1) + 90, (T + 1) * height)
    for frame in range(T + 1):
        top = frame * height
        back = frame == T
        caption = say["back"] if back else say["frame" if frame else "first"].format(word=words[frame])
        canvas.text(_x(0) - 60, top + 14, caption, "left small")
        for t, j in product(range(1, min(frame, T - 1) + 1), range(L)):
            for i in range(L):
                won = int(table.back[t, j]) == i
                if won or (t == frame and not back):
                    bold = table.path[t - 1] == i and table.path[t] == j if back else t == frame
                    _edge(canvas, t - 1, i, j, "best" if won and bold else "", top)
        for t, j in product(range(T), range(L)):
            known = t <= frame
            on = table.path[t] == j if back else t == frame
            canvas.circle(_x(t), top + _y(j), _R, "on" if on else "" if known else "off")
            if known:
                canvas.text(_x(t), top + _y(j), f"{table.values[t, j]:g}")
        for t, word in enumerate(words):
            canvas.text(_x(t), top + 40, word, "word" if t <= frame else "word dim")
        for j, label in enumerate(table.labels):
            canvas.text(36, top + _y(j), label, "word")
    return canvas.to_svg(say["title"])


def viterbi(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """Delta in the circles, psi as lines, the best path bold."""
    table, words = names["table"], names["words"]
    T, L = table.values.shape
    canvas = Canvas(_x(T - 1) + 90, _y(L - 1) + 96)
    for t, j in product(range(1, T), range(L)):
        _edge(canvas, t - 1, int(table.back[t, j]), j)
    for t, (i, j) in enumerate(pairwise(table.path.tolist())):
        _edge(canvas, t, i, j, "best")
    for t, j in product(range(T), range(L)):
        canvas.circle(_x(t), _y(j), _R, "on" if table.path[t] == j else "")
        canvas.text(_x(t), _y(j), f"{table.values[t, j]:g}")
    for t, word in enumerate(words):
        canvas.text(_x(t), 32, word, "word")
    for j, label in enumerate(table.labels):
        canvas.text(36, _y(j), label, "word")
    _legend(canvas, _y(L - 1) + 50, [("", say["psi"]), ("best", say["best"])])
    return canvas.to_svg(say["title"])


def label_bias(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """Two chains of labels, with the probability that the MEMM gives each step for the letters of rob."""
    labels, memm = names["labels"], names["memm"]
    rows = [[labels.index(label) for label in own] for own in (names["y"][0], names["y"][-1])]
    canvas = Canvas(_x(3) + 70, _y(1) + 90)
    steps, start, _ = (scores.detach() for scores in memm.crf.chain_parameters())
    emissions = memm.emissions(names["x_ids"][-1]).detach()
    middle = (_y(0) + _y(1)) / 2
    canvas.circle(50, middle, 6)
    for row, path in enumerate(rows):
        first = float((start + emissions[0]).softmax(-1)[path[0]])
        canvas.line(56, middle, _x(1) - _R, _y(row))
        canvas.text(125, _y(row) + (-12 if row == 0 else 12), f"{first:.2f}", "small accenttext")
        for t, (i, j) in enumerate(pairwise(path), 1):
            p = float((steps[i] + emissions[t]).softmax(-1)[j])
            canvas.line(_x(t) + _R, _y(row), _x(t + 1) - _R, _y(row))
            canvas.text(_x(t) + _DX / 2, _y(row) - 12, f"{p:.2f}", "small accenttext")
        for t, label in enumerate(path, 1):
            canvas.circle(_x(t), _y(row), _R, "on" if row == 0 else "")
            canvas.text(_x(t), _y(row), labels[label])
    for t, letter in enumerate(names["X"][-1], 1):
        canvas.text(_x(t), 32, letter, "word")
    canvas.text(30, _y(1) + 62, say["note"], "left small dim")
    return canvas.to_svg(say["title"])


def paths(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """All paths with their probabilities, the best one marked."""
    score, Z, labels = names["score"], names["Z"], names["labels"]
    best = max(score, key=score.__getitem__)
    canvas = Canvas(560, 60 + 30 * len(score))
    for x, words in ((60, say["path"]), (130, say["score"])):
        canvas.text(x, 24, words, "small dim")
    canvas.text(170, 24, say["probability"], "left small dim")
    for row, (path, value) in enumerate(score.items()):
        y, p = 56 + 30 * row, math.exp(value) / Z
        canvas.text(60, y, " ".join(labels[label] for label in path), "word" if path == best else "")
        canvas.text(130, y, f"{value:g}")
        canvas.box(170 + 300 * p, y, 600 * p, 20, "on" if path == best else "")
        canvas.text(180 + 600 * p, y, f"{p:.4f}", "left small")
    return canvas.to_svg(say["title"])


def graphs(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """HMM, MEMM and CRF side by side: an arrow is a conditional probability, a plain line a score."""
    T = len(names["balls"])
    step, width = 70, 280
    canvas = Canvas(3 * width, 220)
    for number, (model, label) in enumerate((("hmm", "s"), ("memm", "y"), ("crf", "y"))):
        left = number * width
        canvas.text(left + width / 2, 24, model.upper(), "word")
        canvas.text(left + width / 2, 46, say[model], "small dim")
        connect = canvas.line if model == "crf" else canvas.arrow
        xs = [left + width / 2 + (t - (T - 1) / 2) * step for t in range(T)]
        for a, b in pairwise(xs):
            connect(a + _R, 96, b - _R, 96)
        for t, x in enumerate(xs):
            canvas.circle(x, 96, _R, "on")
            canvas.text(x, 96, f"{label}{t}")
            if model == "hmm":
                canvas.arrow(x, 96 + _R, x, 172 - _R)
                canvas.circle(x, 172, _R)
                canvas.text(x, 172, f"o{t}")
            else:
                connect(x, 159, x, 96 + _R)
        if model != "hmm":
            canvas.label(left + width / 2, 172, (T - 1) * step + 2 * _R, say["sentence"])
    return canvas.to_svg(say["title"])
