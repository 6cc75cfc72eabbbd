"""Sentences as numbers: each observation becomes the id of its symbol, each tag the id of its state."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain as concatenated
from typing import Any, NoReturn

import numpy as np

from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import DataError, ModelError, shown
from trellis.models.data import Labelled, check_sized, name_of, tokens_of
from trellis.ragged import check_lengths
from trellis.tags import TagSet
from trellis.training.process_group import SINGLE, ProcessGroup

Symbol = Hashable


@dataclass(frozen=True, eq=False)
class Observations:
    """Sentences as numbers: symbols (N,), known tags (N,), -1 if unknown, and the allowed tags if some are unknown."""

    symbols: IntArray
    lengths: IntArray
    states: IntArray
    allowed: BoolArray | None
    weights: FloatArray | None
    numbers: IntArray

    def select(self, sentences: BoolArray) -> Observations:
        """Some of the sentences."""
        tokens = np.repeat(sentences, self.lengths)
        allowed = None if self.allowed is None else self.allowed[tokens]
        weights = None if self.weights is None else self.weights[sentences]
        return Observations(
            self.symbols[tokens],
            self.lengths[sentences],
            self.states[tokens],
            allowed,
            weights,
            self.numbers[sentences],
        )


def index_symbols(
    inputs: Sequence[Any], before: dict[Symbol, int] | None = None, group: ProcessGroup = SINGLE
) -> dict[Symbol, int]:
    """Ids of all symbols that occur, in the order of their first occurrence, after those known before.

    Sentence i of process r counts as sentence ``i * processes + r``.
    """
    check_symbols(inputs)
    index = {} if before is None else dict(before)
    try:
        found = dict.fromkeys(concatenated.from_iterable(map(tokens_of, inputs)))
    except TypeError:
        _raise_no_symbols(inputs)
    for symbol in found if group.count == 1 else _by_first_use(inputs, group):
        index.setdefault(symbol, len(index))
    return index


def _by_first_use(inputs: Sequence[Any], group: ProcessGroup) -> list[Symbol]:
    """The symbols of all processes, those of each in the order of their first use."""
    first: dict[Symbol, int] = {}
    for sentence, item in enumerate(inputs):
        for symbol in tokens_of(item):
            first.setdefault(symbol, sentence)
    parts = group.gather(list(first.items()))
    ordered = sorted((use, rank, i) for rank, part in enumerate(parts) for i, (_, use) in enumerate(part))
    return [parts[rank][i][0] for _, rank, i in ordered]


def encode(inputs: Sequence[Any], index: dict[Symbol, int]) -> tuple[IntArray, IntArray]:
    """Symbols (N,), -1 if unknown, and lengths."""
    try:
        check_symbols(inputs)
        lengths = check_lengths(np.fromiter(map(len, inputs), dtype=np.int64, count=len(inputs)))
        flat = (index.get(symbol, -1) for symbol in concatenated.from_iterable(map(tokens_of, inputs)))
        return np.fromiter(flat, dtype=np.int64, count=int(lengths.sum())), lengths
    except TypeError:
        _raise_no_symbols(inputs)


def check_symbols(inputs: Sequence[Any]) -> None:
    """Refuse floats: they are measurements, of which an equal one may never come again, and 1.0 would pass for 1."""
    floats = {kind for kind in set(map(type, concatenated.from_iterable(map(tokens_of, inputs)))) if _is_float(kind)}
    if not floats:
        return
    for number, item in enumerate(inputs):
        for position, symbol in enumerate(tokens_of(item)):
            if type(symbol) in floats:
                raise DataError(
                    f"{name_of(number, item)}, position {position}: an observation must be a string or an integer, "
                    f"got the float {shown(symbol)}; put measurements into classes first"
                )


def given_symbols(symbols: Sequence[Symbol]) -> Sequence[Symbol]:
    """The symbols of a model with given probabilities, checked."""
    try:
        check_symbols([list(symbols)])
    except DataError as error:
        raise ModelError(str(error).replace("sentence 0, position", "symbols, position")) from None
    return symbols


def _is_float(kind: type) -> bool:
    return issubclass(kind, float | complex | np.floating | np.complexfloating)


def _raise_no_symbols(inputs: Sequence[Any]) -> NoReturn:
    """Name the input that is no sequence, or the symbol that has no hash."""
    for number, item in enumerate(inputs):
        check_sized(number, item)
        for position, symbol in enumerate(tokens_of(item)):
            try:
                hash(symbol)
            except TypeError:
                place = f"{name_of(number, item)}, position {position}"
                raise DataError(
                    f"{place}: an observation must be a string or an integer, got {shown(symbol)}"
                ) from None
    raise AssertionError("inputs that cannot be encoded, but nothing is wrong with them")


def number(data: Labelled, tags: TagSet, index: dict[Symbol, int], weights: FloatArray | None) -> Observations:
    """All sentences of the data; a token with one possible tag has that tag."""
    symbols, lengths = encode(data.inputs, index)
    if not data.partial:
        return Observations(symbols, lengths, data.encode(tags), None, weights, np.arange(len(lengths)))
    allowed = data.allowed(tags)
    states = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
    mask = None if allowed.all() else allowed
    return Observations(symbols, lengths, states, mask, weights, np.arange(len(lengths)))
