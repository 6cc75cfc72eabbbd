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
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from trellis.arrays import BoolArray
from trellis.lexicon.lexicon import FEATURE_CODE, Key, Lexicon
from trellis.lexicon.match import Matches
from trellis.ragged import offsets_of, ranges
from trellis.text import Sentence

Labels = Sequence[str | None]
_LONGEST = 4
_NEARLY_ALL, _DROPPED = 0.9, 0.5


def name_of_column(label: str | None) -> str:
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
    offsets = offsets_of(np.fromiter(map(len, inputs), np.int64, len(inputs)))
    longest = np.zeros((len(labels), 4, offsets[-1]), dtype=np.int8)  # the longest match in each role: B, I, E, S
    for lexicon in lexicons:
        if not lexicon.has_features:
            continue
        match = lexicon.matches(inputs)
        counts = lexicon.columns.codes[match.entry] == FEATURE_CODE
        if gold is not None:
            counts &= ~_left_out(lexicon, match, gold)
        label_of_match = lexicon.columns.labels[match.entry]
        for label, roles in zip(labels, longest, strict=True):
            number = -1 if label is None else lexicon.labels.index(label) if label in lexicon.labels else -2
            sequence, begin, end, _ = (column[counts & (label_of_match == number)] for column in match)
            first, sizes = offsets[sequence] + begin, end - begin
            length, several, inner = np.minimum(sizes, _LONGEST).astype(np.int8), sizes > 1, np.maximum(sizes - 2, 0)
            np.maximum.at(roles[0], first[several], length[several])
            np.maximum.at(roles[1], ranges(first + 1, inner), np.repeat(length, inner))
            np.maximum.at(roles[2], (first + sizes - 1)[several], length[several])
            np.maximum.at(roles[3], first[~several], 1)
    columns: dict[str, Any] = {}
    for label, roles in zip(labels, longest, strict=True):
        values = columns[name_of_column(label)] = np.full(offsets[-1], "-", dtype=object)
        touched = np.flatnonzero(roles.any(axis=0))
        values[touched] = [_value(*lengths) for lengths in roles.T[touched].tolist()]
    sentences = []
    for item, (a, b) in zip(seen, pairwise(offsets.tolist()), strict=True):
        added: dict[str, Sequence[str]] = {name: tuple(values[a:b]) for name, values in columns.items()}
        if isinstance(item, Sentence):
            added = {**item.columns, **added}
            sentences.append(Sentence(item.tokens, columns=added, path=item.path, lines=item.lines))
        else:
            sentences.append(Sentence(tuple(item), columns=added))
    return sentences


@cache
def _value(begins: int, goes_on: int, ends: int, alone: int) -> str:
    """The value of a token from the lengths of its longest matches in each role (0: none); `alone` is 0 or 1."""
    parts = [f"{role}{length}" for role, length in (("B", begins), ("I", goes_on), ("E", ends)) if length]
    return "".join([*parts, "S" * alone])


def _left_out(lexicon: Lexicon, match: Matches, gold: Sequence[Sequence[Key]]) -> BoolArray:
    """Matches that do not count in training, if the lexicon has nearly all spans that are learned."""
    columns, folding = lexicon.columns, lexicon.folding
    names: list[str | None] = [*columns.names, None]  # the last is that of label -1
    keys = [(folding(s), names[label]) for s, label in zip(columns.surfaces, columns.labels.tolist(), strict=True)]
    known = set(keys)
    spans = [[(folding(surface), label) for surface, label in keys_of_sentence] for keys_of_sentence in gold]
    covered = sum(
        (surface, label) in known or (surface, None) in known for surface, label in chain.from_iterable(spans)
    )
    if covered < _NEARLY_ALL * sum(map(len, spans)):
        return np.zeros(len(match.entry), dtype=np.bool_)
    with_any = [{*here, *((surface, None) for surface, _ in here)} for here in spans]  # spans match any label, too
    sentences = Counter(chain.from_iterable(with_any))  # in how many it is a span
    rows = zip(match.sequence.tolist(), match.entry.tolist(), strict=True)
    only_here = [keys[entry] in with_any[b] and sentences[keys[entry]] == 1 for b, entry in rows]
    dropped: BoolArray = np.random.default_rng(0).random(len(only_here)) < _DROPPED
    return np.array(only_here, dtype=np.bool_) | dropped
