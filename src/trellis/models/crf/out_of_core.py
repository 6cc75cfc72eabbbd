"""A feature CRF trained on sentences that are not in memory: the same weights, with compiled sentences on disk.

The stream is read once. Each block is compiled and written to a scratch file; when all labels and attributes are known,
each block becomes a plan (`native/features/plan_data.h`) in a second one, from which the loss is computed.
"""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, repeat, zip_longest
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import AnyArray, Arrays, FloatArray, IntArray, plain_array
from trellis.corpus import Shards, mend
from trellis.errors import ConfigError, DataError, ModelError, StoreError
from trellis.features import AttributeIndex, Compiled, Extractor, TemplateExtractor
from trellis.models import fingerprint
from trellis.models.crf.config import CRFConfig
from trellis.models.crf.model import owners_of
from trellis.models.crf.objective import (
    FeatureObjective,
    FeatureSelection,
    FirstUses,
    FlatLabels,
    frequent_pairs,
    joined_index,
    pair_table,
    select_transitions,
    sum_by_key,
)
from trellis.models.data import (
    Label,
    LabelFacts,
    Labelled,
    check_sentence_weights,
    check_sized,
    check_tokens,
    learned_tag_set,
    name_of,
)
from trellis.tags import StateMap, TagSet
from trellis.text import Sentence
from trellis.training.objective import Vector
from trellis.training.process_group import ProcessGroup
from trellis.untrusted import parse_json

ByteArray = npt.NDArray[np.uint8]
BLOCK = 1 << 16
"""A block ends with the sentence that has this token."""
RUN = 1 << 20
"""Small files are taken together until they have this many bytes."""
_ALIGNMENT = 64  # of each array in the file
_NOTHING = object()
_FAR = 1 << 40  # more sentences than a run of files has
_FEATURES = ("offsets", "token_bundles", "bundle_ends", "attributes", "values", "families")


class Section(NamedTuple):
    """Arrays that were written together: type, shape and place of each in the file, and where they end."""

    places: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]
    end: int


class Scratch:
    """A file for arrays that do not fit into memory together; `folder` says on which disk.

    It has no name: the system removes it when the process ends, however it ends, and no other process can open it.
    Arrays are mapped when they are read, so that they occupy memory only as long as somebody holds them.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder, self._end = folder, 0
        try:
            self._file: Any = tempfile.TemporaryFile(dir=folder, prefix=".trellis-")  # noqa: SIM115 - see `close`
        except OSError as error:
            raise self._refused("cannot be written", error) from None
        self.close = weakref.finalize(self, self._file.close)
        """Give the space back; arrays that were read stay as long as they are held."""

    def append(self, arrays: Mapping[str, AnyArray]) -> Section:
        """Write arrays; a full disk is an error."""
        places, begin = {}, self._end
        for name, array in arrays.items():
            places[name] = array.dtype, array.shape, self._end
            self._end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        try:
            if hasattr(os, "posix_fallocate"):  # finds out that the disk is full now, not when a page is written back
                os.posix_fallocate(self._file.fileno(), begin, max(self._end - begin, 1))
            for name, (_, _, at) in places.items():
                self._file.seek(at)
                self._file.write(np.ascontiguousarray(arrays[name]).data)
            self._file.truncate(self._end)
            self._file.flush()
        except OSError as error:
            raise self._refused(f"has no room for {self._end - begin:,} bytes more", error) from None
        return Section(places, self._end)

    def read(self, section: Section) -> Arrays:
        """The arrays of a section, mapped: they cannot be written to, and leave memory with the last reference."""
        if os.fstat(self._file.fileno()).st_size < section.end:
            raise StoreError(f"the scratch file in {self._folder} was truncated while it was in use")
        arrays: Arrays = {}
        for name, (dtype, shape, at) in section.places.items():
            try:
                mapped = np.memmap(self._file, dtype, "r", at, shape) if all(shape) else np.empty(shape, dtype)
            except OSError as error:
                raise self._refused("cannot be read", error) from None
            arrays[name] = mapped.view(np.ndarray)
        return arrays

    def _refused(self, what: str, error: OSError) -> StoreError:
        return StoreError(f"the scratch file in {self._folder} {what}: {error.strerror or error}")


class StreamBlock(NamedTuple):
    """Some sentences in a row."""

    first: int
    """The place of its first sentence: a later sentence of the corpus has a higher one."""
    data: Labelled
    weights: FloatArray | None
    """How much each of them counts."""


class LabelledStream:
    """What `fit` is given, as it is read."""

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
        if self._weights is not None:
            check_sentence_weights(self._weights, count)

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


@dataclass(frozen=True, slots=True, eq=False)
class Supervision:
    """What is known about the labels of some sentences, and how much each part of them counts."""

    tags: IntArray | None  # [N] states
    chain_tags: IntArray | None  # [N] with order 2: states of the chain
    allowed: npt.NDArray[np.uint8] | None  # [N, L] if some labels are partly known
    sentence_weights: FloatArray | None  # [B]
    token_weights: FloatArray | None  # [N]

    def arrays(self) -> Arrays:
        """By name, those that exist."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def of(cls, arrays: Arrays) -> Supervision:
        """The inverse of `arrays`; others are ignored."""
        return cls(**{field.name: arrays.get(field.name) for field in fields(cls)})


class StoredBlock(NamedTuple):
    """Where a block is, and the number of its first sentence."""

    first: int
    section: Section


class CompiledCorpus:
    """The blocks of this process: compiled features and labels, in a scratch file."""

    def __init__(
        self,
        extractor: Extractor,
        index: AttributeIndex,
        folder: str | Path,
        group: ProcessGroup,
        *,
        fingerprinted: bool,
    ) -> None:
        self.extractor, self.index, self._known = extractor, index, len(index)
        self.folder = folder
        self._group, self._fingerprinted = group, fingerprinted
        self._scratch = Scratch(folder)
        self._blocks: list[StoredBlock] = []
        self._uses = FirstUses(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._codes: dict[Any, int] = {}
        self._numbers = np.empty(0, dtype=np.int32)
        self.facts = LabelFacts({}, set(), False)
        self.sentences = fingerprint.Sentences()
        self._sample: Sequence[Any] = ()

    def read(self, stream: LabelledStream, prepare: Callable[[Labelled], Labelled]) -> None:
        """Compile the stream, as `prepare` shows it to the model; then all features have their numbers."""
        stream.agree(self._group)

        def add_all() -> None:
            for block in stream.blocks(self._group):
                self._add(block, prepare(block.data).inputs)

        self._group.all_or_none(add_all)
        stream.share_sample(self._group)
        self._sample = stream.sample
        self.facts = LabelFacts.merged(self._group.gather(self.facts))
        self.sentences = sum(self._group.gather(self.sentences), fingerprint.Sentences())
        if not self.sentences.sentences:
            raise ModelError("there is nothing to learn from: the corpus has no sentence")
        self.index, numbers = joined_index(self._group, self.index, self._uses, self._known)
        self._numbers = np.concatenate([np.arange(self._known), numbers]).astype(np.int32)

    def _add(self, block: StreamBlock, inputs: Sequence[Any]) -> None:
        compiled = self.extractor.compile(inputs, self.index, grow=True)
        check_tokens(compiled.offsets, block.data)
        self._note_uses(compiled, block.first)
        self.facts = LabelFacts.merged([self.facts, block.data.facts()])
        self.sentences += fingerprint.Sentences.of(block.data, hashed=self._fingerprinted)
        arrays: Arrays = dict(zip(_FEATURES, compiled.arrays(), strict=True))
        arrays |= {"codes": self._encode(block.data), "places": _places(block.data.inputs)}
        if block.weights is not None:
            arrays["sentence_weights"] = block.weights
        self._blocks.append(StoredBlock(block.data.first, self._scratch.append(arrays)))

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

    @property
    def sample(self) -> Labelled:
        """The first sentences, without their labels."""
        return Labelled(self._sample, [()] * len(self._sample), self.facts.partial, self.facts)

    @property
    def fingerprint(self) -> str:
        """Of all sentences, whatever their order."""
        return str(self.sentences)

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

    def blocks(self, states: StateMap, label_weights: Any) -> Iterator[CompiledBlock]:
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

    def labels(self, num_labels: int) -> FlatLabels:
        """Its labels, for counting."""
        allowed = None if self.known.allowed is None else self.known.allowed.view(np.bool_)
        return FlatLabels(self.known.tags, allowed, self.lengths, num_labels)


def _key(label: Label) -> Any:
    return label if label is None or isinstance(label, str) else tuple(sorted(label))


def _places(inputs: Sequence[Any]) -> ByteArray:
    """Files and lines of sentences, as bytes."""
    found: list[Any] = [[x.path, list(x.lines)] if isinstance(x, Sentence) else [None, []] for x in inputs]
    return np.frombuffer(json.dumps(found).encode(), dtype=np.uint8)


def sentences_at(places: ByteArray) -> list[Sentence]:
    """Sentences without tokens that know their places."""
    return [Sentence((), path=path, lines=lines) for path, lines in parse_json(places.tobytes())]


@final
class DiskObjective(FeatureObjective):
    """The loss of the blocks of a corpus; their plans are in a scratch file."""

    def __init__(
        self,
        corpus: CompiledCorpus,
        folder: str | Path,
        states: StateMap,
        selection: FeatureSelection,
        *,
        c2: float,
        label_weights: Mapping[str, float] | None,
        single: bool,
        group: ProcessGroup,
    ) -> None:
        self._corpus, self._label_weights, self._group = corpus, label_weights, group
        self.index, self.edge_index, self.states, self.c2 = corpus.index, AttributeIndex(), states, c2
        self._scratch = Scratch(folder)
        self._plans: list[StoredBlock] = []
        self.native = _native.Objective(_native.Dataset(), len(self.index), len(states), None, None, None, None, single)
        if selection.all_states:
            self.native.choose_states(selection.min_freq, True)
        else:
            keys = frequent_pairs(group, *self._counted_pairs(), selection.min_freq)
            self.native.set_states(*pair_table(keys, len(states), len(self.index)))
        self._set_transitions(select_transitions(selection, states, self, group))

    def _counted_pairs(self) -> tuple[IntArray, FloatArray]:
        """The pairs (attribute, label) of all blocks, each as one number, and how often they occur."""
        keys, counts, L = np.empty(0, dtype=np.int64), np.empty(0), len(self.states)
        for block in self._blocks():
            known = block.known
            native = _native.Objective(block.data, len(self.index), L, known.tags, known.allowed, None, None, False)
            ends, labels, frequencies = native.count_states()
            keys, counts = sum_by_key([keys, owners_of(ends) * L + labels], [counts, frequencies])
        return keys, counts

    def pairs(self) -> Vector:
        """How often each pair of neighbouring labels occurs."""
        L = len(self.states)
        return sum((block.labels(L).pairs() for block in self._blocks()), np.zeros((L, L)))

    def after(self, pairs: IntArray) -> Vector:
        """How often each label follows each of these pairs."""
        L = len(self.states)
        return sum((block.labels(L).after(pairs) for block in self._blocks()), np.zeros((len(pairs), L)))

    def finalize(self) -> None:
        """Once all weights are chosen: write the plans, and give the space of the compiled blocks back."""
        for block in self._blocks():
            known = block.known
            if self.transitions.pairs is not None and known.tags is not None:
                known = replace(known, chain_tags=self.transitions.chain_tags(known.tags, block.lengths))
            arrays = {"plan": self.native.plan_of(block.data), "places": block.places, **known.arrays()}
            self._plans.append(StoredBlock(block.stored.first, self._scratch.append(arrays)))
        self._corpus.close()

    def shard_loss(self, weights: Vector, gradient: Vector) -> float:
        """Loss of the sentences of this process, block after block, without the L2 term; its gradient is written."""
        gradient[:] = 0.0
        return sum(self._add(plan, weights, gradient) for plan in self._plans)

    def _add(self, plan: StoredBlock, weights: Vector, gradient: Vector) -> float:
        """The loss of a block; its gradient is added."""
        arrays = self._scratch.read(plan.section)
        known = Supervision.of(arrays)
        result = self.native.evaluate_part(
            arrays["plan"],
            known.tags,
            known.chain_tags,
            known.allowed,
            known.sentence_weights,
            known.token_weights,
            weights,
            gradient,
        )
        return self._checked(result, lambda i: name_of(plan.first + i, sentences_at(arrays["places"])[i]))

    def _blocks(self) -> Iterator[CompiledBlock]:
        return self._corpus.blocks(self.states, self._label_weights)


def check_streamable(config: CRFConfig, extractor: Extractor, algorithms: tuple[str, ...]) -> None:
    """Refuse what needs all sentences in memory."""
    if config.algorithm not in algorithms:
        raise ConfigError(
            f"out_of_core trains with {' or '.join(algorithms)}, and algorithm is {config.algorithm!r}: that one needs "
            "all sentences in memory (a list, not Shards or --stream)"
        )
    if config.vectors is not None:
        raise ConfigError("out_of_core does not learn clusters of words: leave vectors unset")
    if isinstance(extractor, TemplateExtractor) and extractor.templates.edges:
        line = extractor.templates.edges[0]
        raise ConfigError(
            f"{extractor.templates.name}, line {line.line}: {line.text!r} looks at observations of a transition, which "
            "out_of_core does not support: use U lines for observations"
        )


def streamed_tag_set(corpus: CompiledCorpus, scheme: str | None, constraints: bool, before: TagSet | None) -> TagSet:
    """The labels to learn; bad ones are an error that names the first of them."""
    labels = corpus.labels()
    try:
        return learned_tag_set(labels, scheme, constraints, before)
    except DataError:
        found = labels.detect(scheme)
        for block in corpus.labelled():
            if not block.partial and mend(block.strings(), found, "error").bad:
                learned_tag_set(block, scheme, constraints, before)
        raise
