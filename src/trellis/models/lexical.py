"""Where entries of lexicons occur in the inputs of a tagger, and the bonuses of those that are preferred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.chain import ChainScores
from trellis.errors import ModelError, warn
from trellis.lexicon import Entry, Lexicon
from trellis.lexicon.entries import FEATURE_CODE, MUST_CODE
from trellis.lexicon.tracks import NO_GAPS, Bonuses, Gaps
from trellis.models.data import name_of
from trellis.ragged import offsets_of
from trellis.tags import Role, TagSet

ANY = -1
"""The type of an entry without a label."""


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Where entries of lexicons occur in a batch, those of learned features left out."""

    lexicons: Sequence[Lexicon]
    sequence: IntArray  # [M]
    begin: IntArray  # [M]
    end: IntArray  # [M]
    lexicon: IntArray  # [M] which of the lexicons
    entry: IntArray  # [M] which of its entries
    kind: IntArray  # [M] the type of its spans, an index into `SpanStates.kinds`; -1 is any
    must: BoolArray  # [M]
    lost: BoolArray  # [M] musts that gave way to others

    def __len__(self) -> int:
        """How many."""
        return len(self.sequence)

    def which(self, row: int) -> Entry:
        """The entry that occurs."""
        return self.lexicons[int(self.lexicon[row])][int(self.entry[row])]

    def joined(self, lengths: IntArray) -> IntArray:
        """The tokens, numbered through the batch, that go on with a word or name which the token before is part of."""
        first = offsets_of(lengths)[self.sequence]
        pairs = zip((first + self.begin).tolist(), (first + self.end).tolist(), strict=True)
        return np.array(sorted({t for begin, end in pairs for t in range(begin + 1, end)}), dtype=np.int64)

    def taken(self, rows: IntArray | BoolArray) -> Occurrences:
        """Some of them."""
        columns = {name: value[rows] for name, value in vars(self).items() if name != "lexicons"}
        return replace(self, **columns)


class ScoredInputs(NamedTuple):
    """The chain of a model for some inputs."""

    scores: ChainScores
    tags: TagSet
    state_labels: IntArray | None
    inputs: Sequence[Any]
    first: int
    known: BoolArray | None
    """``(N, L)``: the labels that known labels allow."""
    gaps: Gaps = NO_GAPS
    """White space that words of lexicons run across; no others may."""

    def name(self, sequence: int) -> str:
        """How messages call an input."""
        return name_of(self.first + sequence, self.inputs[sequence])


def find(inputs: Sequence[Any], lexicons: Sequence[Lexicon], tags: TagSet) -> Occurrences:
    """Where entries that prefer or must occur; those with labels that the model does not have are left out."""
    kinds = span_types(tags)
    columns: list[list[Any]] = []
    for number, lexicon in enumerate(lexicons):
        if not lexicon.has_spans:
            continue
        of_label = check_labels(lexicon, kinds)
        match = lexicon.matches(inputs)
        code, kind = lexicon.columns.codes[match.entry], of_label[lexicon.columns.labels[match.entry]]
        kept = (code != FEATURE_CODE) & (kind >= ANY)
        which = np.full(int(kept.sum()), number)
        columns.append([*(x[kept] for x in match[:3]), which, match.entry[kept], kind[kept], code[kept] == MUST_CODE])
    empty = [np.empty(0, dtype=np.int64)] * 6 + [np.empty(0, dtype=np.bool_)]
    *joined, must = (np.concatenate(own) for own in zip(empty, *columns, strict=True))
    sequence, begin, end, which, entry, kind = joined
    return Occurrences(lexicons, sequence, begin, end, which, entry, kind, must, np.zeros_like(must))


def check_labels(lexicon: Lexicon, kinds: tuple[str, ...]) -> IntArray:
    """``(names + 1,)``: the type that each label of a lexicon stands for, -2 for none, and last -1, any, for no label.

    A model without types, such as a segmenter, takes every label as no label. If a model has no label of a lexicon
    whose entries all have one, that is an error; if it lacks some, a warning.
    """
    names = lexicon.labels
    if kinds == ("",):
        return np.full(len(names) + 1, ANY)
    numbers = {kind: number for number, kind in enumerate(kinds)}
    found = [numbers.get(name, ANY - 1) for name in names]
    if names and max(found) < 0 and (lexicon.columns.labels >= 0).all():
        raise ModelError(
            f"no entry of the lexicon has a label of this model: the lexicon has {_listed(names)}, "
            f"the model {_listed(kinds)}"
        )
    _warn_of_unknown(lexicon, [number for number, kind in enumerate(found) if kind < ANY], kinds)
    return np.array([*found, ANY], dtype=np.int64)


def _warn_of_unknown(lexicon: Lexicon, unknown: Sequence[int], kinds: tuple[str, ...]) -> None:
    """Say how many entries have these labels, which the model lacks; those of learned features are no answers of it."""
    if not unknown:
        return
    own = lexicon.columns.labels[lexicon.columns.codes != FEATURE_CODE]
    counts = np.bincount(own[own >= 0], minlength=len(lexicon.labels))[list(unknown)]
    names = [lexicon.labels[number] for number, count in zip(unknown, counts.tolist(), strict=True) if count]
    if names:
        warn(
            f"entries of the lexicon with labels that the model lacks, which are ignored: {counts.sum():,}, with "
            f"{_listed(names)}; the model has {_listed(kinds)}"
        )


def span_types(tags: TagSet) -> tuple[str, ...]:
    """The types of spans; one empty type if they have none."""
    return tuple(dict.fromkeys(kind for role, kind in tags.parsed if role is not Role.O))


def bonuses_of(found: Occurrences, kinds: int) -> Bonuses:
    """Bonuses by type; an entry without a label gives its bonus to every type."""
    own = found.taken(~found.must)
    bonus = np.zeros(len(own))
    for number, lexicon in enumerate(own.lexicons):
        mine = own.lexicon == number
        bonus[mine] = lexicon.columns.bonus[own.entry[mine]]
    repeats = np.where(own.kind == ANY, kinds, 1)
    rows = np.repeat(np.arange(len(own)), repeats)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    kind = np.where(own.kind[rows] == ANY, within, own.kind[rows])
    return Bonuses(own.sequence[rows], own.begin[rows], own.end[rows], kind, bonus[rows])


def of_sequences(bonuses: Bonuses, sequences: IntArray) -> Bonuses:
    """The bonuses of some sequences, in ascending order, numbered anew."""
    place = np.searchsorted(sequences, bonuses.sequence)
    kept = (place < len(sequences)) & (sequences[np.minimum(place, len(sequences) - 1)] == bonuses.sequence)
    return Bonuses(place[kept], *(column[kept] for column in bonuses[1:]))


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
