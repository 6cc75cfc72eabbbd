"""From words to tags: the layers of a BiLSTM-CRF, word ids, and windows over a long sentence."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tools.pictures.svg import Canvas

_LEFT = 190


def bilstm_crf(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """The shorter sentence through all layers, with the shape of the batch after each."""
    words, labels, tags = names["sentences"][1], names["labels"], names["paths"][1]
    scores = names["model"].emissions(names["x"], names["lengths"])[1].detach()
    rows = {"words": 36, "vectors": 92, "right": 148, "left": 192, "emissions": 266, "tags": 356}
    shapes = [tuple(names[name].shape) for name in ("x", "vectors", "states", "emissions")]
    canvas = Canvas(_LEFT + 96 * len(words), 400)
    captions = zip(("words", "vectors", "right", "emissions"), shapes, strict=True)
    for name, shape in captions:
        canvas.text(12, rows[name] - 8, say[name], "left")
        canvas.text(12, rows[name] + 10, shape, "left small dim")
    canvas.text(12, rows["tags"], say["tags"], "left")
    xs = [_LEFT + 40 + 96 * t for t in range(len(words))]
    for a, b in pairwise(xs):
        canvas.line(a + 28, rows["right"], b - 28, rows["right"], "best")
        canvas.line(a + 28, rows["left"], b - 28, rows["left"], "best")
    for a, b in pairwise(xs):
        canvas.line(a + 18, rows["tags"], b - 18, rows["tags"], "best")
    for t, x in enumerate(xs):
        canvas.text(x, rows["words"], words[t], "word")
        for above, below in ((52, 79), (105, 134), (205, 232), (300, 336)):
            canvas.line(x, above, x, below)
        canvas.label(x, rows["vectors"], 56, 16)
        canvas.label(x, rows["right"], 56, "→ 16")
        canvas.label(x, rows["left"], 56, "← 16")
        _emissions(canvas, x, rows["emissions"], labels, int(scores[t].argmax()))
        canvas.circle(x, rows["tags"], 18, "on")
        canvas.text(x, rows["tags"], labels[tags[t]])
    return canvas.to_svg(say["title"])


def _emissions(canvas: Canvas, x: float, y: float, labels: list[str], best: int) -> None:
    for j, label in enumerate(labels):
        canvas.box(x, y + 22 * (j - 1), 56, 22, "on" if j == best else "")
        canvas.text(x, y + 22 * (j - 1), label, "small")


def word_ids(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """The words of a batch, their subwords, and the word of each subword."""
    encoded, sentences = names["encoded"], names["sentences"]
    count = len(encoded.tokens(0))
    canvas = Canvas(120 + 84 * count, 160 * len(sentences) + 10)
    for b, words in enumerate(sentences):
        top, ids = 34 + 160 * b, encoded.word_ids(b)
        for name, y in (("words", top), ("subwords", top + 56), ("ids", top + 96)):
            canvas.text(10, y, say[name], "left small dim")
        for t, word in enumerate(words):
            own = [s for s, found in enumerate(ids) if found == t]
            middle = sum(own) / len(own)
            canvas.label(_at(middle), top, 84 * len(own) - 10, word, "on")
            for s in own:
                canvas.line(_at(middle + (s - middle) * 0.8), top + 13, _at(s), top + 43)
        for s, (piece, word) in enumerate(zip(encoded.tokens(b), ids, strict=True)):
            canvas.label(_at(s), top + 56, 76, piece, "off" if word is None else "")
            canvas.text(_at(s), top + 96, "-" if word is None else word, "dim" if word is None else "")
    return canvas.to_svg(say["title"])


def _at(s: float) -> float:
    return 140 + 84 * s


def windows(names: Mapping[str, Any], say: Mapping[str, str]) -> str:
    """Which subwords each window reads, and which of them it gives."""
    from trellis.nn.subwords import windows_of

    encoder, subwords = names["encoder"], names["subwords"]
    found = windows_of(subwords.lengths, encoder.window, encoder.overlap)
    length = int(subwords.lengths[0])
    canvas = Canvas(110 + 26 * length, 130 + 36 * len(found.starts))
    for p in range(length):
        canvas.text(110 + 26 * p, 24, p, "small dim")
    ranges = zip(found.starts, found.lengths, found.first, found.stop, strict=True)
    for number, (start, size, first, stop) in enumerate(ranges):
        y = 56 + 36 * number
        canvas.text(10, y, f"{say['window']} {number}", "left small dim")
        for p in range(start, start + size):
            canvas.box(110 + 26 * p, y, 24, 24, "on" if first <= p < stop else "")
    for number, (kind, meaning) in enumerate((("on", say["gives"]), ("", say["reads"]))):
        y = 70 + 36 * len(found.starts) + 30 * number
        canvas.box(110, y, 24, 24, kind)
        canvas.text(132, y, meaning, "left small")
    return canvas.to_svg(say["title"])
