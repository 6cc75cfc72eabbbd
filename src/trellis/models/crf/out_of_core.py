"""The loss of a feature CRF whose sentences are on disk: the same weights as in memory, and a plan for each block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np

from trellis import _native
from trellis.arrays import FloatArray, IntArray
from trellis.errors import ConfigError, DataError
from trellis.features import AttributeIndex, Extractor, TemplateExtractor
from trellis.models.crf.choosing import Choice, choose_steps
from trellis.models.crf.compiled import CompiledBlock, CompiledCorpus, sentences_at
from trellis.models.crf.config import CRFConfig
from trellis.models.crf.parts import Parts, PlannedPart
from trellis.models.crf.problem import WeightedFeatures
from trellis.models.crf.scratch import Scratch
from trellis.models.crf.sharing import common_keys, pair_table
from trellis.models.crf.steps import Steps
from trellis.models.crf.weights import owners_of
from trellis.models.data import name_of
from trellis.models.learned_tags import learned_tag_set
from trellis.tags import TagSet, TagStates, mend
from trellis.training.objective import Vector
from trellis.training.processes import Own, Team


@final
class DiskObjective(WeightedFeatures):
    """The loss of the blocks of a corpus; their plans are in a scratch file."""

    def __init__(
        self,
        corpus: CompiledCorpus,
        folder: str | Path,
        states: TagStates,
        choice: Choice,
        *,
        c2: float,
        label_weights: Mapping[str, float] | None,
        single: bool,
        team: Team,
    ) -> None:
        self._corpus, self._label_weights, self._team = corpus, label_weights, team
        self.index, self.edge_index, self.states, self.c2 = corpus.index, AttributeIndex(), states, c2
        self._scratch = Scratch(folder)
        self._parts: Parts | None = None
        self.native = _native.Objective(_nothing(), len(self.index), len(states), None, None, None, None, single)
        self._choose_states(choice)
        self._use(choose_steps(choice, states, self, team))

    def _choose_states(self, choice: Choice) -> None:
        if choice.all_states:
            self.native.choose_states(choice.min_freq, True)
            return
        counts, L = _Counts(), len(self.states)
        for block in self._blocks():
            counts.add(*self._counted(block))
        keys = common_keys(self._team, counts.keys, counts.sums, choice.min_freq)
        self.native.set_states(*pair_table(keys, L, len(self.index)))

    def _counted(self, block: CompiledBlock) -> tuple[IntArray, FloatArray]:
        """The pairs (attribute, label) of a block, each as one number, and how often they occur."""
        L, known = len(self.states), block.known
        own = _native.Objective(block.data, len(self.index), L, known.tags, known.allowed, None, None, False)
        ends, labels, counts = own.count_states()
        return owners_of(ends) * L + labels, counts

    def pairs(self) -> Vector:
        """How often each pair of neighbouring labels occurs."""
        L = len(self.states)
        return sum((block.seen(L).pairs() for block in self._blocks()), np.zeros((L, L)))

    def after(self, pairs: IntArray) -> Vector:
        """How often each label follows each of these pairs."""
        L = len(self.states)
        return sum((block.seen(L).after(pairs) for block in self._blocks()), np.zeros((len(pairs), L)))

    def _use(self, chain: Steps) -> None:
        """From here on these transitions are possible and have weights."""
        self.chain = chain
        if chain.pairs is not None:
            self.native.set_chain(chain.labels.astype(np.uint16), None)
        self.native.set_transitions(*chain.native(), *chain.cells())

    @property
    def own(self) -> Own:
        """Loss and gradient of the blocks of this process."""
        self.settle()
        assert self._parts is not None
        return self._parts

    def settle(self) -> None:
        """Once all weights are chosen: write the plans."""
        if self._parts is None:
            parts = [self._planned(block) for block in self._blocks()]
            self._parts = Parts(self.native, parts, self._corpus.leaves, self.states)
            self._corpus.close()

    def _planned(self, block: CompiledBlock) -> PlannedPart:
        known, scratch, first = block.known, self._scratch, block.stored.first
        if self.chain.pairs is not None and known.tags is not None:
            known = replace(known, chain_tags=self.chain.chain_tags(known.tags, block.lengths))
        plan = self.native.plan_of(block.data)
        section = scratch.append({"plan": plan, "places": block.places, **known.arrays()})

        def name(sentence: int) -> str:
            return name_of(first + sentence, sentences_at(scratch.read(section)["places"])[sentence])

        return PlannedPart(block.stored.leaf, lambda: scratch.read(section), name)

    def _blocks(self) -> Iterator[CompiledBlock]:
        return self._corpus.blocks(self.states, self._label_weights)


class _Counts:
    """Numbers in rising order, and a sum for each."""

    def __init__(self) -> None:
        self.keys, self.sums = np.empty(0, dtype=np.int64), np.empty(0)

    def add(self, keys: IntArray, values: FloatArray) -> None:
        """Numbers in rising order with what is to be added."""
        at = np.searchsorted(self.keys, keys)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == keys[known]
        self.sums[at[known]] += values[known]
        if not known.all():
            joined = np.concatenate([self.keys, keys[~known]])
            order = np.argsort(joined, kind="stable")
            self.keys, self.sums = joined[order], np.concatenate([self.sums, values[~known]])[order]


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


def _nothing() -> _native.Dataset:
    """Features of no sentence."""
    whole, half = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    return _native.Dataset.of_arrays(np.zeros(1, dtype=np.int64), half, whole, half, np.empty(0), half)
