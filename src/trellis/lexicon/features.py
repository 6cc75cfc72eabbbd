"""Matches as columns of sentences, from which models learn: one column per label, one value per token.

    tokens       He   lives  in   New   York   State
    lexicon LOC  -    -      -    B3    I3E2   E3       New York State and New York are entries with the label LOC

B, I and E say that the token is the first, an inner or the last one of a match, S that it is one by itself; the digit
is the length of the longest such match, at most 4. A name that was taken from the training sentences would always match
there, and a model would learn to trust nothing else. So where a lexicon has nearly all names of the training data, an
entry does not count in a sentence if it is a span there and in no other (leave one out), and of the other matches half
are left out at random, so that names without a match are learned as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.lexicon.lexicon import FEATURE_CODE, Key, Lexicon
from trellis.lexicon.match import Matches
from trellis.ragged import offsets_of, ranges
from trellis.text import Sentence

Labels = Sequence[str | None]
_LONGEST = 4
_NEARLY_ALL, _DROPPED = 0.9, 0.5


def name_of_column(label: str | None) -> str:
    """The name of the column of a label."""
    return f"lexicon {'*' if label is None else label}"


def with_columns(
    seen: Sequence[Any],
    inputs: Sequence[Any],
    lexicons: Sequence[Lexicon],
    labels: Labels,
    gold: Sequence[Sequence[Key]] | None = None,
) -> list[Sentence]:
    """The inputs as a model sees them, with a column of matches for each of these labels.

    `gold` are the spans of each input, if they are what is being learned.
    """
    lengths = np.fromiter(map(len, inputs), np.int64, len(inputs))
    flat = [np.full(int(lengths.sum()), "-", dtype=object) for _ in labels]
    found: list[list[Matches]] = [[] for _ in labels]
    for lexicon in lexicons:
        if not lexicon.has_features:
            continue
        match = lexicon.matches(inputs)
        kept = lexicon.columns.codes[match.entry] == FEATURE_CODE
        if gold is not None:
            kept &= ~_left_out(lexicon, match, gold)
        own = lexicon.columns.labels[match.entry]
        for number, label in enumerate(labels):
            code = -1 if label is None else lexicon.labels.index(label) if label in lexicon.labels else -2
            found[number].append(Matches(*(column[kept & (own == code)] for column in match)))
    for values, matches in zip(flat, found, strict=True):
        _fill(values, matches, offsets_of(lengths))
    names = list(map(name_of_column, labels))
    offsets = offsets_of(lengths).tolist()
    return [
        _joined(item, {name: tuple(values[a:b]) for name, values in zip(names, flat, strict=True)})
        for item, a, b in zip(seen, offsets, offsets[1:], strict=False)
    ]


def _joined(item: Any, columns: dict[str, tuple[str, ...]]) -> Sentence:
    if isinstance(item, Sentence):
        return Sentence(item.tokens, columns={**item.columns, **columns}, path=item.path, lines=item.lines)
    return Sentence(tuple(item), columns=columns)


def _fill(values: Any, matches: list[Matches], offsets: IntArray) -> None:
    """The value of each token, from the longest matches that begin, go on and end there."""
    if not sum(len(own.entry) for own in matches):
        return  # nothing matches, or there is no lexicon
    sequence, begin, end, _ = (np.concatenate(column) for column in zip(*matches, strict=True))
    first, sizes = offsets[sequence] + begin, end - begin
    length = np.minimum(sizes, _LONGEST)
    lengths = np.zeros((4, len(values)), dtype=np.int64)  # of the longest match in each role: B, I, E, S
    several = sizes > 1
    np.maximum.at(lengths[0], first[several], length[several])
    np.maximum.at(lengths[2], (first + sizes - 1)[several], length[several])
    np.maximum.at(lengths[3], first[~several], 1)
    inner = np.maximum(sizes - 2, 0)
    np.maximum.at(lengths[1], ranges(first + 1, inner), np.repeat(length, inner))
    touched = np.flatnonzero(lengths.any(axis=0))
    names: dict[tuple[int, ...], str] = {}
    for place, roles in zip(touched.tolist(), lengths.T[touched].tolist(), strict=True):
        key = tuple(roles)
        values[place] = names.get(key) or names.setdefault(key, _value(key))


def _value(lengths: tuple[int, ...]) -> str:
    begins, goes_on, ends, alone = lengths
    parts = [f"{role}{n}" for role, n in (("B", begins), ("I", goes_on), ("E", ends)) if n]
    return "".join([*parts, *(["S"] if alone else [])])


def _left_out(lexicon: Lexicon, match: Matches, gold: Sequence[Sequence[Key]]) -> BoolArray:
    """Matches that do not count in training, if the lexicon has nearly all spans that are learned."""
    columns, folding = lexicon.columns, lexicon.folding
    spans = [[(folding(surface), label) for surface, label in own] for own in gold]
    known = {
        (folding(surface), None if label < 0 else columns.names[label])
        for surface, label in zip(columns.surfaces, columns.labels.tolist(), strict=True)
    }
    every: Counter[Key] = Counter()
    for own in spans:
        every.update({*own, *((surface, None) for surface, _ in own)})  # sentences that have it, with any label too
    total = sum(map(len, spans))
    covered = sum((surface, label) in known or (surface, None) in known for own in spans for surface, label in own)
    result = np.zeros(len(match.entry), dtype=np.bool_)
    if covered < _NEARLY_ALL * total:
        return result
    own_spans = [{*own, *((surface, None) for surface, _ in own)} for own in spans]
    for row, (b, entry) in enumerate(zip(match.sequence.tolist(), match.entry.tolist(), strict=True)):
        label = int(columns.labels[entry])
        key = (folding(columns.surfaces[entry]), None if label < 0 else columns.names[label])
        result[row] = key in own_spans[b] and every[key] == 1
    dropped: BoolArray = np.random.default_rng(0).random(len(result)) < _DROPPED
    return result | dropped
