"""Sentences with labels that are read once, block by block, each for one of the processes that train together.

    files:  run of files r -> process r % processes       a process opens its own files, and no others
    others: block b        -> process b % processes       every process reads all, and forgets the blocks of others

Files are dealt out if there are enough of them. No block reaches from one run of files into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat, zip_longest
from math import inf
from typing import Any, NamedTuple

import numpy as np

from trellis.arrays import FloatArray, plain_array
from trellis.corpus import Shards
from trellis.errors import DataError, ModelError
from trellis.models.data import Label, Labelled, check_sized
from trellis.text import Sentence
from trellis.training.process_group import ProcessGroup

BLOCK = 1 << 16
"""A block ends with the sentence that has this token."""
RUN = 1 << 20
"""Small files are taken together until they have this many bytes."""
_NOTHING = object()
_FAR = 1 << 40  # more sentences than a run of files has


class StreamBlock(NamedTuple):
    """Some sentences in a row."""

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

    def blocks(self, group: ProcessGroup) -> Iterator[StreamBlock]:
        """The blocks of this process, in the order of the corpus."""
        runs: list[Iterable[tuple[Any, Any]]] = [self._pairs()]
        if self._files is not None:
            runs = [self._sentences(self._files, paths) for paths in self._files.runs(RUN)]
        by_file = self._files is not None and len(runs) >= group.count
        count = number = 0
        for run, pairs in enumerate(runs):
            if by_file and run % group.count != group.rank:
                continue
            for first, items, labels in self._cut(pairs):
                count, place = first + len(items), run * _FAR + first
                if not self.sample:
                    self.sample, self._sampled = items, place
                if by_file or number % group.count == group.rank:
                    weights = None if self._weights is None else self._weights[first:count]
                    data = Labelled.of(items, None if self._labels is None else labels, first=first)
                    yield StreamBlock(place, data, weights)
                number += 1
        self._check_weights(count)

    @staticmethod
    def _sentences(files: Shards, paths: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        return zip(chain.from_iterable(map(files.sentences, paths)), repeat(None), strict=False)

    def agree(self, group: ProcessGroup) -> None:
        """Refuse to begin if the processes do not see the same files: some would be read twice, others never."""
        own = [] if self._files is None else self._files.sizes()
        for rank, sizes in enumerate(group.gather(own)):
            if sizes != own:
                raise DataError(
                    f"the processes of this training must find the same files: process {group.rank} has {len(own)} of "
                    f"them with {sum(own):,} bytes, process {rank} has {len(sizes)} with {sum(sizes):,} bytes"
                )

    def share_sample(self, group: ProcessGroup) -> None:
        """All processes get the sample of the one that has the first block."""
        places = group.gather(self._sampled)
        holder = places.index(min(places))
        if len(set(places)) > 1:
            self.sample = group.gather(self.sample if group.rank == holder else ())[holder]

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
