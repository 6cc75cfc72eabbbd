"""How a neural tagger learns: vocabulary, settings for everything unset, a network, and the loop that trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import torch

from trellis.arrays import Float32Array
from trellis.errors import ModelError
from trellis.lexicon.features import name_of_column
from trellis.models import fingerprint
from trellis.models.data import Labelled
from trellis.models.neural.config import EncoderSettings, Facts, NeuralConfig, resolved
from trellis.models.neural.learned import LearnedNetwork
from trellis.models.neural.network import Network, build, load_transformer
from trellis.models.neural.plan import TableSize, plan_of
from trellis.models.neural.training import StreamedTaggingTask, TaggingTask, Targets, Validation
from trellis.models.neural.vectors import add_vectors
from trellis.models.neural.vocabulary import TokenCounts, Vocabulary, learn_pairs, learn_vocabulary
from trellis.models.tagger import FitOptions
from trellis.symbols import Symbols
from trellis.tags import StateMap
from trellis.training import History
from trellis.training.neural import train
from trellis.training.process_group import process_slice


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a tagger learns from, and what it has learned before."""

    config: NeuralConfig
    data: Labelled
    dev: Labelled | None
    states: StateMap
    lexical: Sequence[str | None]
    options: FitOptions
    before: LearnedNetwork | None
    seen: Callable[[Labelled], Labelled]
    """Sentences that are streamed, as the model sees them."""

    def learn(self) -> tuple[LearnedNetwork, NeuralConfig, History]:
        """The network, the settings that were used, and how it went."""
        options, words = self.options, self.config.encoder.words
        counted = TokenCounts.count(self._inputs(), self._columns())
        learned = learn_vocabulary(counted, lower=words.lower, min_freq=words.min_freq, before=self._known)
        learned, vectors, coverage = add_vectors(learned, words, list(counted.tokens))
        del counted
        settings = resolved(self.config, self._facts(learned, vectors))
        vocabulary = self._used(learned, settings.encoder)
        with torch.random.fork_rng():
            torch.manual_seed(settings.training.seed)
            network = build(settings, vocabulary, self.states, vectors, load_transformer(settings.encoder))
            if self.before is not None:
                take_over(network, self.before.network)
            if options.folder is not None:
                frozen = {name: p.float().numpy() for name, p in network.named_parameters() if not p.requires_grad}
                options.folder.identify(data={"vectors and other frozen weights": fingerprint.of_arrays(frozen)})
            history = train(
                self._task(network, vocabulary), settings.training, folder=options.folder, progress=options.progress
            )
        shape = None if vectors is None else TableSize(*vectors.shape)
        plan = plan_of(settings, vocabulary, self.states, shape) if network.device.type == "cpu" else None
        weights = {}
        if plan is not None:
            state = network.state_dict()
            weights = {name: state[name].detach().numpy() for name, _ in plan.shapes()}
        return LearnedNetwork(vocabulary, plan, weights, lambda: network, coverage), settings, history

    @property
    def _known(self) -> Vocabulary | None:
        return None if self.before is None else self.before.vocabulary

    def _columns(self) -> tuple[str, ...]:
        return (*self.config.encoder.columns, *map(name_of_column, self.lexical))

    def _windows(self, epoch: int | None = None, first: int = 0) -> Iterator[Labelled]:
        """All sentences, as many at a time as may be in memory; in the order of an epoch, or without in their own."""
        stream, settings = self.options.stream, self.config.training
        if stream is None:
            return iter([self.data])
        order = None if epoch is None else stream.order(settings.seed, epoch)
        return map(self.seen, stream.windows(settings.window, order, first, self.config.encoder.columns))

    def _inputs(self) -> Iterator[Sequence[Any]]:
        return map(attrgetter("inputs"), self._windows())

    def _facts(self, learned: Vocabulary, vectors: Float32Array | None) -> Facts:
        """What unset settings depend on, as the training data has it."""
        states, alone = self.states, self.config.encoder.transformer is None
        characters, size = learned.has_only_characters, None if vectors is None else vectors.shape[1]
        longest = None
        if self.config.head == "semicrf" and not self.data.partial:
            longest = max(map(partial(longest_span, states), self._windows())) or None
        return Facts(alone and not characters, alone and characters, size, states.tags.scheme, states.scheme, longest)

    def _used(self, learned: Vocabulary, settings: EncoderSettings) -> Vocabulary:
        """The vocabulary with characters and pairs only if the encoder uses them."""
        if settings.characters.kind == "none":
            learned = replace(learned, characters=Symbols())
        if not settings.pairs:
            return learned
        return replace(learned, pairs=learn_pairs(self._inputs(), settings.pair_min_freq, self._known))

    def _task(self, network: Network, vocabulary: Vocabulary) -> TaggingTask | StreamedTaggingTask:
        encode = partial(network.encode, vocabulary, cache=self.config.encoder.pretrained.cache)
        validate = None
        if self.dev is not None:
            share = process_slice()
            validate = Validation(network, encode(self.dev.inputs[share]), share, self.dev, self.states)
        if self.options.stream is None:
            return TaggingTask(network, encode(self.data.inputs), self._targets(self.data), validate)
        return StreamedTaggingTask(network, self._windows, encode, self._targets, validate)

    def _targets(self, data: Labelled) -> Targets:
        return Targets.of(data, self.states, self.config.label_weights, self.options.sentence_weights)


def longest_span(states: StateMap, data: Labelled) -> int:
    """The tokens of the longest span; 0 if there is none."""
    spans = states.tags.find_spans(data.encode(states.tags), data.lengths)
    return int((spans.end - spans.begin).max()) if len(spans.end) else 0


def take_over(network: Network, before: Network) -> None:
    """Copy what an earlier network learned: its words and labels come first, so its weights are the first of each.

    Words, labels and features may have been added; a layer of another width would get weights of other units.
    """
    old = before.state_dict()
    with torch.no_grad():
        for name, new in network.state_dict().items():
            if name in old and ".vectors." not in name:  # a file's vectors are read, not learned
                _check_grown(name, tuple(new.shape), tuple(old[name].shape))
                shared = tuple(slice(0, min(a, b)) for a, b in zip(new.shape, old[name].shape, strict=True))
                new[shared] = old[name][shared].to(new.device)


def _check_grown(name: str, new: tuple[int, ...], old: tuple[int, ...]) -> None:
    """Refuse sizes that differ where nothing can have been added."""
    changed = {axis for axis, sizes in enumerate(zip(new, old, strict=True)) if sizes[0] != sizes[1]}
    if changed - _axes_that_grow(name):
        raise ModelError(
            f"a warm start needs layers of the same sizes: {name} is {new}, and {old} in the earlier model; keep "
            "hidden and the other sizes of encoder as they were, or train from the start"
        )


def _axes_that_grow(name: str) -> set[int]:
    """Where words, labels or features are counted."""
    if name.startswith(("head.", "edges.")):
        return {0, 1, 2}
    if ".lstm." in name:
        return {1} if "weight_ih" in name else set()
    return set() if ".filters." in name or ".transformer." in name else {0}
