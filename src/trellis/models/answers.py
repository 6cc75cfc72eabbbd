"""The answers of a tagger about texts: tags, spans by character, and how sure it is of each.

A block of texts is answered as arrays (`Answers`); each text is a view of them (`Tagged`), whose lists and spans are
made when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trellis import _native
from trellis.arrays import FloatArray, IntArray
from trellis.corpus import words_of_spans
from trellis.lazy import cached
from trellis.plots import HeatMap, Picture, Pictured, svg
from trellis.ragged import offsets_of
from trellis.results import Grid, Report, data_frame
from trellis.tags import Span, SpanTable
from trellis.tags.spans import ScoredSpan
from trellis.text import Sentence, hue, sentence_in, split_sentences

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_BARS = " ▁▂▃▄▅▆▇█"
_BEST, _NEXT = "●", "○"
_MARK = (
    '<mark style="background:hsl({hue},70%,85%);color:#111;padding:.1em .3em;border-radius:.3em" '
    'title="{label} {probability:.3f}">{text}'
    '<sub style="font-size:.7em;opacity:.75"> {label} {probability:.2f}</sub></mark>'
)


@dataclass(frozen=True, slots=True)
class Labelling:
    """One way to label a sentence, with its exact probability."""

    tags: list[str]
    probability: float


class TextSpan(NamedTuple):
    """Characters ``start`` to ``end - 1`` of a text, their label, and the exact probability of that span."""

    start: int
    end: int
    label: str
    text: str
    probability: float


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a tagger for a block of sentences: labels and probabilities by token, and the spans."""

    inputs: Sequence[Any]
    """Sentences or token lists."""
    texts: Sequence[str | None]
    """The raw text of each input that is only a token list; None for others."""
    separator: str
    """What stands between tokens if there is no text."""
    labels: tuple[str, ...]
    ids: IntArray  # [N]
    probabilities: FloatArray  # [N]
    spans: SpanTable
    span_probabilities: FloatArray  # [S]
    token_offsets: IntArray  # [B + 1]
    span_offsets: IntArray  # [B + 1]

    @classmethod
    def joined(cls, blocks: Sequence[Answers]) -> Answers:
        """The answers of several blocks of one tagger as those of one; at least one block."""
        if len(blocks) == 1:
            return blocks[0]
        tables, head = [block.spans for block in blocks], blocks[0]
        assert all(table.kinds == head.spans.kinds for table in tables), "blocks of different taggers"
        firsts = offsets_of(np.array([len(block.inputs) for block in blocks]))[:-1].tolist()
        sequence = np.concatenate([table.sequence + first for table, first in zip(tables, firsts, strict=True)])
        begin, end, kind = (np.concatenate([table[column] for table in tables]) for column in (1, 2, 3))
        return cls(
            [item for block in blocks for item in block.inputs],
            [text for block in blocks for text in block.texts],
            head.separator,
            head.labels,
            np.concatenate([block.ids for block in blocks]),
            np.concatenate([block.probabilities for block in blocks]),
            SpanTable(sequence, begin, end, kind, head.spans.kinds),
            np.concatenate([block.span_probabilities for block in blocks]),
            offsets_of(np.concatenate([np.diff(block.token_offsets) for block in blocks])),
            offsets_of(np.concatenate([np.diff(block.span_offsets) for block in blocks])),
        )

    def part(self, index: int) -> Answers:
        """The answers for one sentence, by themselves."""
        tokens, spans = self.tokens_of(index), self.spans_of(index)
        begin, end, kind = (column[spans].copy() for column in (self.spans.begin, self.spans.end, self.spans.kind))
        return replace(
            self,
            inputs=(self.inputs[index],),
            texts=(self.texts[index],),
            ids=self.ids[tokens].copy(),
            probabilities=self.probabilities[tokens].copy(),
            spans=SpanTable(np.zeros_like(begin), begin, end, kind, self.spans.kinds),
            span_probabilities=self.span_probabilities[spans].copy(),
            token_offsets=np.array([0, tokens.stop - tokens.start]),
            span_offsets=np.array([0, spans.stop - spans.start]),
        )

    @cached
    def _in_texts(self) -> _native.TextSpans:
        """The spans as tuples, for texts that were split into the inputs."""
        table = self.spans
        return _native.TextSpans(TextSpan, table.begin, table.end, table.kind, table.kinds, self.span_probabilities)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def sentence(self, index: int) -> Sentence:
        """A sentence with text and offsets."""
        item, text = self.inputs[index], self.texts[index]
        if text is not None:
            return sentence_in(text, item)
        return (item if isinstance(item, Sentence) else Sentence(item)).with_text(self.separator)

    def tokens_of(self, index: int) -> slice:
        """The rows of a sentence's tokens."""
        return slice(int(self.token_offsets[index]), int(self.token_offsets[index + 1]))

    def spans_of(self, index: int) -> slice:
        """The rows of a sentence's spans."""
        return slice(int(self.span_offsets[index]), int(self.span_offsets[index + 1]))


class Tagged:
    """A tagged text; iterating over it gives its spans, and notebooks show them in colour."""

    def __init__(self, answers: Answers, index: int) -> None:
        self._answers, self._index = answers, index

    @property
    def answers(self) -> Answers:
        """The arrays behind this text alone."""
        return self._answers.part(self._index)

    @cached
    def sentence(self) -> Sentence:
        """Tokens with tags, text and offsets."""
        return self._untagged.with_tags(self.tags)

    @cached
    def _untagged(self) -> Sentence:
        return self._answers.sentence(self._index)

    @cached
    def probabilities(self) -> tuple[float, ...]:
        """The exact probability of each token's tag."""
        return tuple(self._answers.probabilities[self._answers.tokens_of(self._index)].tolist())

    @cached
    def spans(self) -> tuple[TextSpan, ...]:
        """The spans by position; where each tag stands alone (parts of speech), each token is one."""
        answers, index = self._answers, self._index
        rows, table, text = answers.spans_of(index), answers.spans, answers.texts[index]
        if rows.start == rows.stop:
            return ()
        if text is not None:
            return answers._in_texts.between(text, answers.inputs[index], rows.start, rows.stop)
        p = answers.span_probabilities
        begin, end, kind = (column[rows].tolist() for column in (table.begin, table.end, table.kind))
        offsets = self._untagged.offsets or ()
        places = [(offsets[b][0], offsets[e - 1][1]) for b, e in zip(begin, end, strict=True)]
        fields = zip(places, kind, p[rows].tolist(), strict=True)
        return tuple(TextSpan(x, y, table.kinds[k], self.text[x:y], q) for (x, y), k, q in fields)

    @cached
    def token_spans(self) -> tuple[ScoredSpan, ...]:
        """The spans by the places of their tokens instead of characters."""
        rows, table = self._answers.spans_of(self._index), self._answers.spans
        columns = (column[rows].tolist() for column in (table.begin, table.end, table.kind))
        spans = (Span(begin, end, table.kinds[kind]) for begin, end, kind in zip(*columns, strict=True))
        return tuple(map(ScoredSpan, spans, self._answers.span_probabilities[rows].tolist()))

    def __eq__(self, other: object) -> bool:
        """Same text, same tags, same spans, same probabilities."""
        if not isinstance(other, Tagged):
            return NotImplemented
        pairs = ((one.sentence, one.probabilities, one.spans) for one in (self, other))
        return next(pairs) == next(pairs)

    def __hash__(self) -> int:
        return hash((self.text, self.spans))

    def __repr__(self) -> str:
        """The spans, since they are what was asked for."""
        return f"Tagged({self.text!r}, spans={self.spans!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy contains only its own part of a block."""
        return Tagged, (self._answers.part(self._index), 0)

    @property
    def text(self) -> str:
        """The text that offsets point into."""
        return self._untagged.text or ""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens."""
        return tuple(self._untagged.tokens)

    @property
    def tags(self) -> tuple[str, ...]:
        """One tag per token."""
        ids = self._answers.ids[self._answers.tokens_of(self._index)].tolist()
        return tuple([self._answers.labels[i] for i in ids])

    @property
    def words(self) -> list[str]:
        """The texts of the spans, and each token outside them: the words of a segmented text."""
        return [text for _, text in self._pieces()]

    def to_words(self) -> Sentence:
        """The words with their offsets, and with their tags where spans have types: a segmented text to go on with."""
        return words_of_spans(self._untagged, [span for span, _ in self.token_spans])

    def __iter__(self) -> Iterator[TextSpan]:
        return iter(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "text": self.text,
            "tokens": list(self._untagged.tokens),
            "offsets": list(map(list, self._untagged.offsets or ())),
            "tags": list(self.tags),
            "probabilities": list(self.probabilities),
            "spans": self.to_records(),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per span: start, end, label, text, probability."""
        return [span._asdict() for span in self.spans]

    def to_pandas(self) -> Any:
        """One row per span, as a `pandas.DataFrame`."""
        return data_frame(self.to_records(), TextSpan._fields)

    def _pieces(self) -> Iterator[tuple[TextSpan | None, str]]:
        """Spans, and the tokens that lie outside all of them, in order."""
        starts = {span.start: span for span in self.spans}
        end = 0
        for token, (start, stop) in zip(self.tokens, self._untagged.offsets or (), strict=True):
            if start in starts:
                end = starts[start].end
                yield starts[start], starts[start].text
            elif stop > end:
                yield None, token

    def _repr_html_(self) -> str:
        """The text with its spans marked."""
        parts, end = [], 0
        for span in self.spans:
            label, text = escape(span.label, quote=True), escape(span.text)
            mark = _MARK.format(hue=hue(span.label), label=label, probability=span.probability, text=text)
            parts += [escape(self.text[end : span.start]), mark]
            end = span.end
        parts.append(escape(self.text[end:]))
        return f'<div style="line-height:2;white-space:pre-wrap">{"".join(parts)}</div>'


def documents(given: Sequence[Any], annotate: Callable[[Sequence[Any]], list[Tagged]]) -> list[Tagged]:
    """The answers about whole texts, each put together from those about its sentences."""
    parts = list(parts_of(given))
    tagged: list[list[tuple[int, Tagged]]] = [[] for _ in given]
    for (number, start, _), one in zip(parts, annotate([part for _, _, part in parts]), strict=True):
        tagged[number].append((start, one))
    return [
        joined(item, sentences) if isinstance(item, str) else sentences[0][1]
        for item, sentences in zip(given, tagged, strict=True)
    ]


def parts_of(given: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """The sentences of all texts, a blank text as one: number of the text, where the sentence begins, what it is."""
    for number, item in enumerate(given):
        if not isinstance(item, str):
            yield number, 0, item
            continue
        for start, end in split_sentences(item) or [(0, len(item))]:
            yield number, start, item[start:end]


def joined(text: str, parts: Sequence[tuple[int, Tagged]]) -> Tagged:
    """A document from its tagged sentences and the places where they begin."""
    whole = Answers.joined([one.answers for _, one in parts])
    sentences = [(start, one.sentence) for start, one in parts]
    tokens = tuple(token for _, sentence in sentences for token in sentence.tokens)
    offsets = tuple((start + a, start + b) for start, sentence in sentences for a, b in sentence.offsets or ())
    spans = whole.spans
    shift = whole.token_offsets[spans.sequence]
    one = replace(
        whole,
        inputs=(Sentence(tokens, text=text, offsets=offsets),),
        texts=(None,),
        spans=spans._replace(sequence=np.zeros_like(spans.sequence), begin=spans.begin + shift, end=spans.end + shift),
        token_offsets=whole.token_offsets[[0, -1]],
        span_offsets=whole.span_offsets[[0, -1]],
    )
    return Tagged(one, 0)


@dataclass(frozen=True)
class TransitionTable(Pictured, Report):
    """``weights[i][j]`` of label i before label j; None has no weight, minus infinity is forbidden."""

    labels: tuple[str, ...]
    weights: tuple[tuple[float | None, ...], ...]
    what: str = "score"
    """What the numbers are: weight, probability or score."""

    def grid(self) -> Grid:
        """Rows from, columns to; a step that is forbidden is a dot."""
        cells = [["" if w is None else f"{w:+.3f}" if w > -np.inf else "·" for w in row] for row in self.weights]
        rows = tuple((label, *row) for label, row in zip(self.labels, cells, strict=True))
        return Grid("Transitions from row to column", ("from", *self.labels), rows)

    def heat_map(self) -> HeatMap:
        """The table in colours; what has no weight is 0."""
        values = tuple(tuple(0.0 if w is None else w for w in row) for row in self.weights)
        title = f"Transitions: {self.what} of the column's label after the row's"
        return HeatMap(title, self.labels, self.labels, values)

    def pictures(self) -> list[Picture]:
        return [self.heat_map()]

    def _repr_html_(self) -> str:
        """The table in colours, for notebooks."""
        return svg(self.pictures())


@dataclass(frozen=True)
class LatticeView(Pictured, Report):
    """Probabilities of labels (``probabilities[t][j]``) and the most probable paths, best first."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]
    paths: tuple[Labelling, ...]

    def shown(self, least: float = 0.01) -> list[int]:
        """The labels that lie on a path, or that some token has with at least this probability."""
        used = {tag for path in self.paths for tag in path.tags}
        highest = np.array(self.probabilities).reshape(-1, len(self.labels)).max(axis=0, initial=0.0)
        return [j for j, label in enumerate(self.labels) if label in used or highest[j] >= least]

    def mark(self, token: int, label: int) -> str:
        """● if the best path has this label at this token, ○ if the second does, else a blank."""
        for path, sign in zip(self.paths, (_BEST, _NEXT), strict=False):
            if path.tags[token] == self.labels[label]:
                return sign
        return " "

    def grid(self) -> Grid:
        """Labels down, tokens across; ● is the best path and ○ the second."""
        rows = [
            (self.labels[j], *(f"{self.mark(t, j)} {row[j]:.3f}" for t, row in enumerate(self.probabilities)))
            for j in self.shown()
        ]
        return Grid("Probabilities of labels; ● best path, ○ second", ("label", *self.tokens), tuple(rows))

    def pictures(self) -> list[Picture]:
        used = self.shown()
        cells = {(i, t) for i, j in enumerate(used) for t in range(len(self.tokens)) if self.mark(t, j) == _BEST}
        rows = tuple(tuple(row[j] for row in self.probabilities) for j in used)
        names = tuple(self.labels[j] for j in used)
        return [
            HeatMap("Probabilities of labels; the best path is marked", names, self.tokens, rows, 2, frozenset(cells))
        ]

    def draw(self, width: int = 80) -> RenderableType:
        """The trellis, in parts below each other if it is too wide, and the paths, for a console of rich."""
        from rich.cells import cell_len
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        room = width - max((len(self.labels[j]) for j in self.shown()), default=5) - 5
        firsts, used = [0], 0
        for t, token in enumerate(self.tokens):
            needed = max(cell_len(token), 8) + 3
            if t > firsts[-1] and used + needed > room:
                firsts.append(t)
                used = 0
            used += needed
        parts = [self._table(first, last) for first, last in pairwise([*firsts, len(self.tokens)])]
        paths = Table(title="The most probable paths", title_justify="left", pad_edge=False)
        for name in ("", "probability", "labels; below the best only where they differ"):
            paths.add_column(name, justify="right" if name == "probability" else "left")
        for rank, path in enumerate(self.paths):
            both = zip(self.tokens, self.paths[0].tags, path.tags, strict=True)
            labels = [f"{token}/{tag}" for token, best, tag in both if tag != best] if rank else path.tags
            mark = (_BEST, _NEXT)[rank] if rank < 2 else " "
            paths.add_row(mark, f"{path.probability:.4f}", Text(" ".join(labels)))
        return Group(*parts, paths)

    def _table(self, first: int, last: int) -> RenderableType:
        """The tokens `first` to ``last - 1``."""
        from rich.table import Table
        from rich.text import Text

        def cell(token: int, label: int) -> Text:
            p, mark = self.probabilities[token][label], self.mark(token, label)
            style = {_BEST: "bold green", _NEXT: "yellow"}.get(mark, "" if p >= 0.01 else "dim")
            return Text(f"{mark} {_BARS[round(p * 8)]} {p:.2f}" if p >= 0.005 else f"{mark}   ·  ", style=style)

        table = Table(pad_edge=False)
        table.add_column("label", no_wrap=True)
        for token in self.tokens[first:last]:
            table.add_column(Text(token), justify="right", no_wrap=True)
        for j in self.shown():
            table.add_row(Text(self.labels[j]), *(cell(t, j) for t in range(first, last)))
        return table

    def _repr_html_(self) -> str:
        """The probabilities as a heat map and as a table, and the most probable paths."""
        paths = "".join(f"<li>{path.probability:.4f} {escape(' '.join(path.tags))}</li>" for path in self.paths)
        return f"{svg(self.pictures())}{super()._repr_html_()}<ol>{paths}</ol>"
