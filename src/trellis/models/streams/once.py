"""Sentences with labels that are read once, block by block, each for a leaf of a sum (`trellis.training.leaves`).

    files:  run of files r -> leaf r % leaves       a process opens the files of its own leaves, and no others
    others: block b        -> leaf b % leaves       every process reads all, and forgets the blocks of others

Files are dealt out if there are enough of them. Neither rule asks how many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, repeat, zip_longest
from math import inf
from typing import Any, NamedTuple

import numpy as np

from trellis.arrays import FloatArray, plain_array
from trellis.corpus import Shards
from trellis.errors import DataError, ModelError
from trellis.models.data import Label, Labelled, check_sized
from trellis.text import Sentence
from trellis.training.processes import Team

BLOCK = 1 << 16
"""A block ends with the sentence that has this token."""
RUN = 1 << 20
"""Small files are taken together until they have this many bytes."""
_NOTHING = object()
_FAR = 1 << 40  # more sentences than a run of files has


class StreamBlock(NamedTuple):
    """Some sentences in a row."""

    leaf: int
    first: int
    """The place of its first sentence: a later sentence of the corpus has a higher one."""
    data: Labelled
    weights: FloatArray | None
    """How much each of them counts."""


class LabelledStream:
    """What `fit` is given, as it is read; `prepare` turns sentences into what the model sees."""

    def __init__(
        self, X: Iterable[Any], y: Iterable[Sequence[Label]] | None, sentence_weights: Sequence[float] | None
    ) -> None:
        if isinstance(X, str | bytes | Sentence) or not isinstance(X, Iterable):
            raise DataError(f"expected sentences, one after another, got one {type(X).__name__}")
        self._inputs, self._labels = X, y
        alone = y is None and sentence_weights is None  # nothing counts on through all files
        self._files = X if isinstance(X, Shards) and alone else None
        self._weights = None if sentence_weights is None else plain_array(sentence_weights, np.float64)
        self.sample: Sequence[Any] = ()
        """The inputs of the first block."""
        self._sampled = inf
        self.prepare: Callable[[Labelled], Labelled] = lambda data: data

    def blocks(self, leaves: int, own: Collection[int]) -> Iterator[StreamBlock]:
        """The blocks of some of the leaves, in the order of the corpus."""
        runs = [] if self._files is None else self._files.runs(RUN)
        if self._files is None or len(runs) < leaves:
            yield from self._all_read(leaves, own)
            return
        for number, paths in enumerate(runs):
            if number % leaves in own:
                sentences = chain.from_iterable(map(self._files.sentences, paths))
                for first, items, _ in self._cut(zip(sentences, repeat(None), strict=False)):
                    self._note(number * _FAR + first, items)
                    yield StreamBlock(number % leaves, number * _FAR + first, Labelled.of(items, first=first), None)

    def agree(self, team: Team) -> None:
        """Refuse to begin if the processes do not see the same files: some would be read twice, others never."""
        own = [] if self._files is None else self._files.sizes()
        for rank, sizes in enumerate(team.gather(own)):
            if sizes != own:
                raise DataError(
                    f"the processes of this training must find the same files: process {team.rank} has {len(own)} of "
                    f"them with {sum(own):,} bytes, process {rank} has {len(sizes)} with {sum(sizes):,} bytes"
                )

    def share_sample(self, team: Team) -> None:
        """All processes get the sample of the one that has the first block."""
        places = team.gather(self._sampled)
        holder = places.index(min(places))
        if len(set(places)) > 1:
            self.sample = team.gather(self.sample if team.rank == holder else ())[holder]

    def _note(self, first: float, items: list[Any]) -> None:
        if not self.sample:
            self.sample, self._sampled = items, first

    def _all_read(self, leaves: int, own: Collection[int]) -> Iterator[StreamBlock]:
        """The same where all is read."""
        count = 0
        for number, (first, items, labels) in enumerate(self._cut(self._pairs())):
            count = first + len(items)
            self._note(first, items)
            if number % leaves in own:
                weights = None if self._weights is None else self._weights[first:count]
                data = Labelled.of(items, None if self._labels is None else labels, first=first)
                yield StreamBlock(number % leaves, first, data, weights)
        self._check_weights(count)

    def _cut(self, pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[int, list[Any], list[Any]]]:
        """Blocks: the number of the first sentence, sentences, labels."""
        items: list[Any] = []
        labels: list[Any] = []
        first = tokens = 0
        for number, (item, own) in enumerate(pairs):
            check_sized(number, item)
            items.append(item)
            labels.append(own)
            tokens += len(item)
            if tokens >= BLOCK:
                yield first, items, labels
                first, items, labels, tokens = number + 1, [], [], 0
        if items:
            yield first, items, labels

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        if self._labels is None:
            yield from zip(self._inputs, repeat(None), strict=False)
            return
        for i, (item, own) in enumerate(zip_longest(self._inputs, self._labels, fillvalue=_NOTHING)):
            if item is _NOTHING or own is _NOTHING:
                more, fewer = ("labels", "sentences") if item is _NOTHING else ("sentences", "labels")
                raise DataError(f"there are more {more} than {fewer}, of which there are {i}: expected as many")
            yield item, own

    def _check_weights(self, count: int) -> None:
        w = self._weights
        if w is not None and (w.shape != (count,) or not np.isfinite(w).all() or (w < 0).any()):
            raise ModelError(f"sentence_weights must be {count} finite numbers >= 0, one per sentence, got {w.shape}")
