"""A feature CRF trained on more sentences than a process holds: in shares of several processes, or on disk.

A corpus on disk is read once, and gives the same weights as in memory. Each block is compiled and written to a scratch
file; when all labels and attributes are known, each block becomes a plan (`native/features/plan.h`) in a second
one, from which the loss is computed.
"""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from trellis.models.crf.model import SUMMED, CRFConfig, Observed, owners_of
from trellis.models.crf.training import (
    FeatureObjective,
    FeatureSelection,
    FlatLabels,
    frequent_pairs,
    pair_table,
    select_transitions,
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
from trellis.models.folder import SentenceSum
from trellis.tags import StateMap, TagSet
from trellis.text import Sentence
from trellis.training.process_group import ProcessGroup, sum_by_key
from trellis.untrusted import parse_json

BLOCK = 1 << 16
"""A block ends with the sentence that has this token."""
RUN = 1 << 20
"""Small files are taken together until they have this many bytes."""
_ALIGNMENT = 64  # of each array in the file
_NOTHING = object()
_FAR = 1 << 40  # more sentences than a run of files has
_FEATURES: tuple[str, ...] = ("offsets", "token_bundles", "bundle_ends", "attributes", "values")
_FEATURES += ("windows", "unit_places", "unit_bundles")
_SUPERVISION = ("tags", "chain_tags", "allowed", "sentence_weights", "token_weights")
"""Arrays by these names, as far as a block has them: states [N] of the labels, with order 2 of the chain, the states
[N, L] that tokens may have if labels are partly known, and how much sentences [B] and tokens [N] count."""


class FirstUses(NamedTuple):
    """The first use of each attribute: a group of templates, and in it a sentence, by its number among all."""

    groups: IntArray
    sentences: IntArray


def renumbered(
    group: ProcessGroup, observed: Observed, indexes: Sequence[AttributeIndex], known: Sequence[int]
) -> list[AttributeIndex]:
    """The attributes of tokens and of steps of all processes; of each index, the `known` first were there before.

    Sentence i of process r counts as sentence ``i * processes + r``, as `ProcessGroup.share` deals them out.
    """
    joined = list(indexes)
    for i, data in enumerate((observed.tokens, observed.steps)):
        if data is not None:
            groups, sentences = (array[known[i] :] for array in data.first_uses(len(indexes[i])))
            uses = FirstUses(groups, sentences * group.count + group.rank)
            joined[i], _ = joined_index(group, indexes[i], uses, known[i])
    return joined


def joined_index(
    group: ProcessGroup, index: AttributeIndex, uses: FirstUses, known: int
) -> tuple[AttributeIndex, IntArray]:
    """The attributes of all processes in the order of their first use, after the `known` first of the index.

    Also the numbers that the further attributes of this process have now. They are those that one process would give
    in the whole corpus, so that a training can be resumed with any number of processes.
    """
    gathered = group.gather((index.arrays() if group.count > 1 else {}, uses))
    indexes = [index if rank == group.rank else index.like(arrays) for rank, (arrays, _) in enumerate(gathered)]
    counts = [len(part.groups) for _, part in gathered]
    ranks = np.repeat(np.arange(len(counts)), counts)
    attributes = known + np.concatenate([np.arange(count) for count in counts])
    groups, sentences = (np.concatenate(parts) for parts in zip(*(part for _, part in gathered), strict=True))
    order = np.lexsort((attributes, ranks, sentences, groups))
    ranks, attributes = ranks[order], attributes[order]
    joined = index.select(np.arange(known))
    joined_numbers = joined.native.take([one.native for one in indexes], ranks, attributes)
    numbers, ours = np.empty(len(index) - known, dtype=np.int64), ranks == group.rank
    numbers[attributes[ours] - known] = joined_numbers[ours]
    return joined, numbers


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


class CompiledBlock(NamedTuple):
    """A block in memory."""

    first: int
    """The number of its first sentence."""
    data: Compiled
    supervision: Arrays
    lengths: IntArray
    places: npt.NDArray[np.uint8]
    """Files and lines of its sentences, as JSON."""


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
        self._group, self._fingerprinted = group, fingerprinted
        self.folder, self._scratch = folder, Scratch(folder)
        self.close = self._scratch.close
        self._blocks: list[tuple[int, Section]] = []
        """The number of the first sentence of each block, and its arrays."""
        self._uses = FirstUses(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._codes: dict[Any, int] = {}
        """The numbers of labels, in the order in which they came."""
        self._numbers = np.empty(0, dtype=np.int32)
        """The number of each attribute of this process among those of all."""
        self._facts = LabelFacts({}, set(), False)
        self._sentences = SentenceSum()
        self.sample = Labelled([], [], False)
        """The first sentences, without their labels, with the label facts of all."""

    @property
    def tokens(self) -> int:
        """The number of tokens of all processes."""
        return self._sentences.tokens

    @property
    def size(self) -> tuple[int, int]:
        """The number of sentences and of tokens of all processes."""
        return self._sentences.sentences, self._sentences.tokens

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all sentences, whatever their order."""
        return str(self._sentences)

    def read(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        sentence_weights: Sequence[float] | None,
        prepare: Callable[[Labelled], Labelled],
    ) -> None:
        """Compile what `fit` was given, as `prepare` shows it to the model; then all features have their numbers."""
        if isinstance(X, str | bytes | Sentence) or not isinstance(X, Iterable):
            raise DataError(f"expected sentences, one after another, got one {type(X).__name__}")
        group = self._group
        # Labels and weights of their own belong to the sentences of all files together.
        files = X if isinstance(X, Shards) and y is None and sentence_weights is None else None
        ours = [] if files is None else files.sizes()
        for rank, sizes in enumerate(group.gather(ours)):  # otherwise some would be read twice, others never
            if sizes != ours:
                raise DataError(
                    f"the processes of this training must find the same files: process {group.rank} has {len(ours)} of "
                    f"them with {sum(ours):,} bytes, process {rank} has {len(sizes)} with {sum(sizes):,} bytes"
                )
        first_items, place = group.all_or_none(lambda: self._read(files, X, y, sentence_weights, prepare))
        places = group.gather(place)
        holder = places.index(min(places))
        if len(set(places)) > 1:  # all processes get the sample of the one that has the first block
            first_items = group.gather(first_items if group.rank == holder else [])[holder]
        self._facts = LabelFacts.merged(group.gather(self._facts))
        self._sentences = sum(group.gather(self._sentences), SentenceSum())
        if not self._sentences.sentences:
            raise ModelError("there is nothing to learn from: the corpus has no sentence")
        self.sample = Labelled(first_items, [()] * len(first_items), self._facts.partial, self._facts)
        self.index, numbers = joined_index(group, self.index, self._uses, self._known)
        self._numbers = np.concatenate([np.arange(self._known), numbers]).astype(np.int32)

    def _read(
        self,
        files: Shards | None,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        sentence_weights: Sequence[float] | None,
        prepare: Callable[[Labelled], Labelled],
    ) -> tuple[list[Any], float]:
        """Compile the blocks of this process; returns the inputs of the first block that it read, and its place."""
        group, count, number = self._group, 0, 0
        weights = None if sentence_weights is None else plain_array(sentence_weights, np.float64)
        sample: list[Any] = []
        sampled = inf
        runs = [_pairs(X, y)] if files is None else [_sentences(files, paths) for paths in files.runs(RUN)]
        by_file = files is not None and len(runs) >= group.count
        for run, pairs in enumerate(runs):
            if by_file and run % group.count != group.rank:
                continue
            for first, items, labels in _blocks_of(pairs):
                count, place = first + len(items), run * _FAR + first
                if not sample:
                    sample, sampled = items, place
                if by_file or number % group.count == group.rank:
                    data = Labelled.of(items, None if y is None else labels, first=first)
                    self._add(data, prepare(data).inputs, place, None if weights is None else weights[first:count])
                number += 1
        if weights is not None:
            check_sentence_weights(weights, count)
        return sample, sampled

    def _add(self, data: Labelled, inputs: Sequence[Any], place: int, weights: FloatArray | None) -> None:
        """Compile a block; a later sentence of the corpus has a higher `place`."""
        compiled = self.extractor.compile(inputs, self.index, grow=True)
        check_tokens(compiled.offsets, data)
        groups, sentences = (array[self._known :] for array in compiled.first_uses(len(self.index)))
        sentences, old = sentences + place, len(self._uses.groups)
        # An attribute that is known already may have an earlier use: in a group of templates that comes first.
        earlier = np.flatnonzero((groups[:old] >= 0) & (groups[:old] < self._uses.groups))
        for uses, new in zip(self._uses, (groups, sentences), strict=True):
            uses[earlier] = new[earlier]
        pairs = zip(self._uses, (groups, sentences), strict=True)
        self._uses = FirstUses(*(np.concatenate([uses, new[old:]]) for uses, new in pairs))
        self._facts = LabelFacts.merged([self._facts, data.facts()])
        self._sentences += SentenceSum.of(data, hashed=self._fingerprinted)
        arrays: Arrays = dict(zip(_FEATURES, compiled.arrays(), strict=True))
        labels: list[Any] = list(chain.from_iterable(data.labels))
        if data.partial:  # sets of labels as what can be looked up
            labels = [x if x is None or isinstance(x, str) else tuple(sorted(x)) for x in labels]
        for label in set(labels) - self._codes.keys():
            self._codes[label] = len(self._codes)
        arrays["codes"] = np.fromiter(map(self._codes.__getitem__, labels), dtype=np.int64, count=len(labels))
        lines: list[Any] = [[x.path, list(x.lines)] if isinstance(x, Sentence) else [None, []] for x in data.inputs]
        arrays["places"] = np.frombuffer(json.dumps(lines).encode(), dtype=np.uint8)
        if weights is not None:
            arrays["sentence_weights"] = weights
        self._blocks.append((data.first, self._scratch.append(arrays)))

    def tag_set(self, scheme: str | None, constraints: bool, before: TagSet | None) -> TagSet:
        """The labels to learn; bad ones are an error that names the first of them."""
        try:
            return learned_tag_set(self.sample, scheme, constraints, before)
        except DataError:
            detected, values = self.sample.detect(scheme), list(self._codes)
            for first, section in self._blocks if not self._facts.partial else ():
                arrays = self._scratch.read(section)
                labels = np.split(arrays["codes"], arrays["offsets"][1:-1])
                tags = [[values[code] for code in codes.tolist()] for codes in labels]
                if mend(tags, detected, "error").bad:
                    block = Labelled(sentences_at(arrays["places"]), tags, False, self._facts, first)
                    learned_tag_set(block, scheme, constraints, before)
            raise

    def blocks(self, states: StateMap, label_weights: Mapping[str, float] | None) -> Iterator[CompiledBlock]:
        """The blocks with the numbers of attributes and states."""
        values = list(self._codes)
        every = Labelled([values], [values], self._facts.partial)  # each label once, as if it were a sentence
        masks = every.allowed(states.tags) if every.partial else None
        ids = None if every.partial else every.encode(states.tags)
        weights = every.token_weights(states.tags, label_weights)
        for first, section in self._blocks:
            arrays = self._scratch.read(section)
            lengths, codes = np.diff(arrays["offsets"]), arrays["codes"]
            supervision = {name: arrays[name] for name in _SUPERVISION if name in arrays}
            if ids is not None:
                supervision["tags"] = states.encode(ids[codes], lengths)
            if masks is not None:
                supervision["allowed"] = states.allowed(masks[codes]).view(np.uint8)
            if weights is not None:
                supervision["token_weights"] = weights[codes]
            arrays["attributes"] = self._numbers[arrays["attributes"]]
            data = _native.Dataset.of_arrays(*(arrays[name] for name in _FEATURES))
            yield CompiledBlock(first, data, supervision, lengths, arrays["places"])


def _sentences(files: Shards, paths: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    return zip(chain.from_iterable(map(files.sentences, paths)), repeat(None), strict=False)


def _pairs(X: Iterable[Any], y: Iterable[Sequence[Label]] | None) -> Iterator[tuple[Any, Any]]:
    """Inputs and their labels; None if sentences have them."""
    if y is None:
        yield from zip(X, repeat(None), strict=False)
        return
    for i, (item, labels) in enumerate(zip_longest(X, y, fillvalue=_NOTHING)):
        if item is _NOTHING or labels is _NOTHING:
            more, fewer = ("labels", "sentences") if item is _NOTHING else ("sentences", "labels")
            raise DataError(f"there are more {more} than {fewer}, of which there are {i}: expected as many")
        yield item, labels


def _blocks_of(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """The number of the first sentence of each block, its sentences, their labels."""
    items: list[Any] = []
    labels: list[Any] = []
    first = tokens = 0
    for number, (item, of_item) in enumerate(pairs):
        check_sized(number, item)
        items.append(item)
        labels.append(of_item)
        tokens += len(item)
        if tokens >= BLOCK:
            yield first, items, labels
            first, items, labels, tokens = number + 1, [], [], 0
    if items:
        yield first, items, labels


def sentences_at(places: npt.NDArray[np.uint8]) -> list[Sentence]:
    """Sentences without tokens that know their files and lines."""
    return [Sentence((), path=path, lines=lines) for path, lines in parse_json(places.tobytes())]


@final
class DiskObjective(FeatureObjective):
    """The loss of the blocks of a corpus; their plans are in a scratch file."""

    def __init__(
        self,
        corpus: CompiledCorpus,
        states: StateMap,
        selection: FeatureSelection,
        label_weights: Mapping[str, float] | None,
        *,
        c2: float,
        single: bool,
        group: ProcessGroup,
    ) -> None:
        self._corpus, self._label_weights = corpus, label_weights
        self.index, self.edge_index, self.states, self.c2 = corpus.index, AttributeIndex(), states, c2
        self._scratch = Scratch(corpus.folder)
        self._plans: list[tuple[int, Section]] = []
        """The number of the first sentence of each block, and its plan."""
        L, A = len(states), len(self.index)
        self.native = _native.Objective(_native.Dataset(), A, L, None, None, None, None, single)
        if selection.all_states:
            self.native.choose_states(selection.min_freq, True)
        else:
            keys, counts = np.empty(0, dtype=np.int64), np.empty(0)
            for block in self._blocks():
                tags, allowed = map(block.supervision.get, ("tags", "allowed"))
                native = _native.Objective(block.data, A, L, tags, allowed, None, None, False)
                ends, labels, frequencies = native.count_states()
                keys, counts = sum_by_key([keys, owners_of(ends) * L + labels], [counts, frequencies])
            counted = (*pair_table(keys, L, A), counts)
            self.native.set_states(*frequent_pairs(counted, L, selection.min_freq, group))
        self._set_transitions(select_transitions(selection, states, self._labels, group))

    def _blocks(self) -> Iterator[CompiledBlock]:
        return self._corpus.blocks(self.states, self._label_weights)

    def _labels(self) -> Iterator[FlatLabels]:
        for block in self._blocks():
            allowed = block.supervision.get("allowed")
            mask = None if allowed is None else allowed.view(np.bool_)
            yield FlatLabels(block.supervision.get("tags"), mask, block.lengths, len(self.states))

    def finalize(self) -> None:
        """Write the plans, once all weights are chosen, and give the space of the compiled blocks back."""
        for block in self._blocks():
            arrays = {"plan": self.native.plan_of(block.data), "places": block.places, **block.supervision}
            if self.transitions.pairs is not None and "tags" in arrays:
                arrays["chain_tags"] = self.transitions.chain_tags(arrays["tags"], block.lengths)
            self._plans.append((block.first, self._scratch.append(arrays)))
        self._corpus.close()

    def _evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        gradient[:] = 0.0
        return sum(self._add(first, self._scratch.read(section), weights, gradient) for first, section in self._plans)

    def _add(self, first: int, arrays: Arrays, weights: FloatArray, gradient: FloatArray) -> float:
        """The loss of a block; its gradient is added."""
        tags, chain_tags, allowed, by_sentence, by_token = map(arrays.get, _SUPERVISION)
        plan = arrays["plan"]
        result = self.native.evaluate_part(plan, tags, chain_tags, allowed, by_sentence, by_token, weights, gradient)
        return self._checked(result, lambda i: name_of(first + i, sentences_at(arrays["places"])[i]))


def check_streamable(config: CRFConfig, extractor: Extractor) -> None:
    """Refuse what needs all sentences in memory."""
    if config.algorithm not in SUMMED:
        raise ConfigError(
            f"out_of_core trains with {' or '.join(SUMMED)}, and algorithm is {config.algorithm!r}: that one needs "
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
