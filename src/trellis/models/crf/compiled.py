"""The corpus of a feature CRF on disk: compiled features and labels of the blocks of a stream, for one process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import Arrays, IntArray
from trellis.errors import ModelError
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.models import fingerprint
from trellis.models.crf.choosing import Seen
from trellis.models.crf.parts import Supervision
from trellis.models.crf.scratch import Scratch, Section
from trellis.models.crf.sharing import FirstUses, joined_index
from trellis.models.data import Label, LabelFacts, Labelled, check_tokens
from trellis.models.streams.once import LabelledStream, StreamBlock
from trellis.tags import TagStates
from trellis.text import Sentence
from trellis.training.leaves import leaves_of
from trellis.training.processes import Team
from trellis.untrusted import parse_json

ByteArray = npt.NDArray[np.uint8]
_FEATURES = ("offsets", "token_bundles", "bundle_ends", "attributes", "values", "families")


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """Where a block is, the leaf that it belongs to, and the number of its first sentence."""

    leaf: int
    first: int
    section: Section


class CompiledCorpus:
    """The blocks of this process; each belongs to a leaf."""

    def __init__(
        self,
        extractor: Extractor,
        index: AttributeIndex,
        folder: str | Path,
        team: Team,
        leaves: int,
        *,
        fingerprinted: bool,
    ) -> None:
        self._extractor, self.index, self._known = extractor, index, len(index)
        self._team, self.leaves, self._fingerprinted = team, leaves, fingerprinted
        self._scratch = Scratch(folder)
        self._blocks: list[StoredBlock] = []
        self._uses = FirstUses(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._codes: dict[Any, int] = {}
        self._numbers = np.empty(0, dtype=np.int32)
        self.facts = LabelFacts({}, set(), False)
        self.sentences = fingerprint.Sentences()

    def read(self, stream: LabelledStream) -> None:
        """Compile the stream; then the features of all processes have their numbers."""
        stream.agree(self._team)
        self._team.succeed(lambda: self._add_all(stream))
        stream.share_sample(self._team)
        self.facts = LabelFacts.merged(self._team.gather(self.facts))
        self.sentences = sum(self._team.gather(self.sentences), fingerprint.Sentences())
        if not self.sentences.sentences:
            raise ModelError("there is nothing to learn from: the corpus has no sentence")
        self.index, numbers = joined_index(self._team, self.index, self._uses, self._known)
        self._numbers = np.concatenate([np.arange(self._known), numbers]).astype(np.int32)

    def _add_all(self, stream: LabelledStream) -> None:
        own = set(leaves_of(self._team.rank, self._team.count, self.leaves))
        for block in stream.blocks(self.leaves, own):
            self._add(block, stream.prepare(block.data).inputs)

    def _add(self, block: StreamBlock, inputs: Sequence[Any]) -> None:
        compiled = self._extractor.compile(inputs, self.index, grow=True)
        check_tokens(compiled.offsets, block.data)
        self._note_uses(compiled, block.first)
        self.facts = LabelFacts.merged([self.facts, block.data.facts()])
        self.sentences += fingerprint.Sentences.of(block.data, hashed=self._fingerprinted)
        arrays: Arrays = dict(zip(_FEATURES, compiled.arrays(), strict=True))
        arrays |= {"codes": self._encode(block.data), "places": _places(block.data.inputs)}
        if block.weights is not None:
            arrays["sentence_weights"] = block.weights
        self._blocks.append(StoredBlock(block.leaf, block.data.first, self._scratch.append(arrays)))

    def _note_uses(self, compiled: Compiled, first: int) -> None:
        """An attribute that is known already may have an earlier use: in a group of templates that comes first."""
        groups, sentences = (array[self._known :] for array in compiled.first_uses(len(self.index)))
        old = len(self._uses.groups)
        earlier = np.flatnonzero((groups[:old] >= 0) & (groups[:old] < self._uses.groups))
        for uses, found in zip(self._uses, (groups, sentences + first), strict=True):
            uses[earlier] = found[earlier]
        self._uses = FirstUses(
            np.concatenate([self._uses.groups, groups[old:]]),
            np.concatenate([self._uses.sentences, sentences[old:] + first]),
        )

    def _encode(self, data: Labelled) -> IntArray:
        """``(N,)`` labels as numbers, in the order in which they came."""
        labels: Any = chain.from_iterable(data.labels)
        keys = list(labels) if not data.partial else [_key(label) for label in labels]
        for key in set(keys) - self._codes.keys():
            self._codes[key] = len(self._codes)
        return np.fromiter(map(self._codes.__getitem__, keys), dtype=np.int64, count=len(keys))

    @property
    def tokens(self) -> int:
        """How many there are, in all processes."""
        return self.sentences.tokens

    def labels(self) -> Labelled:
        """What all labels say, without sentences."""
        return Labelled([], [], self.facts.partial, self.facts)

    def labelled(self) -> Iterator[Labelled]:
        """The labels of the blocks, with sentences that know where they came from, but not their tokens."""
        values = list(self._codes)
        for block in self._blocks:
            arrays = self._scratch.read(block.section)
            labels = np.split(arrays["codes"], arrays["offsets"][1:-1])
            tags: list[list[Label]] = [[values[code] for code in own.tolist()] for own in labels]
            yield Labelled(sentences_at(arrays["places"]), tags, self.facts.partial, self.facts, block.first)

    def blocks(self, states: TagStates, label_weights: Any) -> Iterator[CompiledBlock]:
        """The blocks with the numbers of attributes and states."""
        values = list(self._codes)
        every = Labelled([values], [values], self.facts.partial)  # each label once, as if it were a sentence
        masks = every.allowed(states.tags) if every.partial else None
        ids = None if every.partial else every.encode(states.tags)
        weights = every.token_weights(states.tags, label_weights)
        for block in self._blocks:
            arrays = self._scratch.read(block.section)
            lengths, codes = np.diff(arrays["offsets"]), arrays["codes"]
            tags = None if ids is None else states.encode(ids[codes], lengths)
            allowed = None if masks is None else states.allowed(masks[codes]).view(np.uint8)
            by_token = None if weights is None else weights[codes]
            known = Supervision(tags, None, allowed, arrays.get("sentence_weights"), by_token)
            yield CompiledBlock(block, self._numbered(arrays), known, lengths, arrays["places"])

    def _numbered(self, arrays: Arrays) -> Compiled:
        offsets, token_bundles, ends, attributes, values, families = (arrays[name] for name in _FEATURES)
        return _native.Dataset.of_arrays(offsets, token_bundles, ends, self._numbers[attributes], values, families)

    def close(self) -> None:
        """Give the space on disk back."""
        self._scratch.close()


@dataclass(frozen=True, slots=True, eq=False)
class CompiledBlock:
    """A block in memory."""

    stored: StoredBlock
    data: Compiled
    known: Supervision
    lengths: IntArray
    places: ByteArray
    """Files and lines of its sentences."""

    def seen(self, num_labels: int) -> Seen:
        """Its labels, for counting."""
        allowed = None if self.known.allowed is None else self.known.allowed.view(np.bool_)
        return Seen(self.known.tags, allowed, self.lengths, num_labels)


def _key(label: Label) -> Any:
    return label if label is None or isinstance(label, str) else tuple(sorted(label))


def _places(inputs: Sequence[Any]) -> ByteArray:
    """Files and lines of sentences, as bytes."""
    found: list[Any] = [[x.path, list(x.lines)] if isinstance(x, Sentence) else [None, []] for x in inputs]
    return np.frombuffer(json.dumps(found).encode(), dtype=np.uint8)


def sentences_at(places: ByteArray) -> list[Sentence]:
    """Sentences without tokens that know their places."""
    return [Sentence((), path=path, lines=lines) for path, lines in parse_json(places.tobytes())]
