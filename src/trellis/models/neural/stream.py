"""Sentences that are read anew in each epoch, in windows of so many sentences: memory does not grow with the corpus.

    epoch e:   shards in an order drawn from (seed, e) -> sentences one after another -> windows of W -> batches

The first pass finds what follows from all labels, counts the sentences of each shard, and takes a fingerprint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np

from trellis.corpus import Shards
from trellis.errors import DataError, ModelError
from trellis.models.data import LabelFacts, Labelled
from trellis.models.folder import DataDigest
from trellis.text import Sentence

_SAMPLE = 5_000  # sentences from which the tokenizer is learned
_SHARDS = 0x5A  # sets the order of shards apart from that of batches, which come from the same seed and epoch


@dataclass(frozen=True)
class SentenceStream:
    """A corpus on disk that has been read from one end to the other."""

    shards: Shards
    counts: tuple[int, ...]
    """Sentences of each shard."""
    versions: tuple[tuple[int, int], ...]
    """Size and time of each file before the first pass."""
    tokens: int
    """Tokens of all sentences."""
    sample: Labelled
    """The first sentences, and those in which a label follows another one for the first time; facts are of all."""
    fingerprint: str

    @classmethod
    def of(cls, shards: Shards) -> SentenceStream:
        versions = tuple(map(shards.version, shards.paths))
        counts: list[int] = []
        tokens, digest = 0, DataDigest()
        pairs: dict[tuple[str, str], int] = {}
        sample: list[Sentence] = []
        for path in shards.paths:
            count = 0
            for sentence in _tagged(shards.sentences(path)):
                count += 1
                tokens += len(sentence)
                tags = sentence.tags or ()
                digest.add(sentence, tags)
                known = len(pairs)
                for pair in pairwise(("", *tags, "")):
                    pairs[pair] = pairs.get(pair, 0) + 1
                if len(pairs) > known or sum(counts) + count <= _SAMPLE:
                    sample.append(_light(sentence, (), with_text=True))
            counts.append(count)
            digest.separate(f"{count} ")
        labelled = replace(Labelled.of(sample), shared=LabelFacts(pairs, set(), partial=False))
        return cls(shards, tuple(counts), versions, tokens, labelled, f"{digest}, streamed from {len(counts)} shards")

    @property
    def size(self) -> tuple[int, int]:
        """The number of sentences and of tokens."""
        return sum(self.counts), self.tokens

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.shards)

    def windows(
        self, size: int, order: Sequence[int] | None = None, first: int = 0, columns: Collection[str] = ()
    ) -> Iterator[Labelled]:
        """Windows of so many sentences, from number `first` on, of the shards in this order (default: by name).

        The sentences have tokens, tags and these columns. Nothing here holds a window while the next one is read.
        """
        numbers = range(len(self.counts)) if order is None else order
        sentences = (_light(sentence, columns) for sentence in self._without_first(first * size, numbers))
        while (one := next(sentences, None)) is not None:
            # In one expression, so that no name holds a window.
            yield replace(Labelled.of([one, *islice(sentences, size - 1)]), shared=self.sample.shared)

    def order(self, seed: int, epoch: int) -> list[int]:
        """The numbers of the shards in the order of an epoch."""
        order: list[int] = np.random.default_rng([seed, epoch, 0, _SHARDS]).permutation(len(self.counts)).tolist()
        return order

    def _without_first(self, skip: int, numbers: Iterable[int]) -> Iterator[Sentence]:
        """The sentences of these shards, without the first ones; a shard of which none is left is not read."""
        for number in numbers:
            count = self.counts[number]
            if skip < count:
                yield from islice(self._checked(number), skip, None)
            skip = max(0, skip - count)

    def _checked(self, number: int) -> Iterator[Sentence]:
        """The sentences of a shard, which must be those that it had."""
        path, expected, count = self.shards.paths[number], self.counts[number], 0
        self._check_version(number)
        for count, sentence in enumerate(_tagged(self.shards.sentences(path)), start=1):
            if count > expected:
                break
            yield sentence
        if count != expected:
            raise DataError(
                f"{path}: the file changed while it was being learned from: it had {expected:,} sentences, now it has "
                f"{'more' if count > expected else f'{count:,}'}"
            )
        self._check_version(number)

    def _check_version(self, number: int) -> None:
        path = self.shards.paths[number]
        if self.shards.version(path) != self.versions[number]:
            raise DataError(f"{path}: the file changed while it was being learned from: it was written again")


def _light(sentence: Sentence, columns: Collection[str], *, with_text: bool = False) -> Sentence:
    """The sentence without what nobody needs: the other columns of a treebank take several times its memory."""
    used = {name: values for name, values in sentence.columns.items() if name in columns}
    text, offsets = (sentence.text, sentence.offsets) if with_text else (None, None)
    return Sentence(sentence.tokens, sentence.tags, text, offsets, used, sentence.path, sentence.lines)


def _tagged(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    for sentence in sentences:
        if sentence.tags is None:
            raise DataError(f"{sentence.where}: the sentence has no tags to learn from")
        yield sentence


def stream_of(
    given: Shards | SentenceStream, labels: object, sentence_weights: object, on_bad_tags: str
) -> SentenceStream:
    """The stream of a training after its first pass; what needs all sentences at once is refused."""
    if labels is not None or sentence_weights is not None:
        raise ModelError("shards hold their labels themselves, and their sentences have no weights: give X alone")
    if on_bad_tags != "error":
        raise ModelError(
            f"on_bad_tags={on_bad_tags!r} needs all sentences at once, which a stream never has: mend its shards one "
            "by one with trellis convert --on-bad-tags"
        )
    return given if isinstance(given, SentenceStream) else SentenceStream.of(given)
