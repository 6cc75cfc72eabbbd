"""How a neural tagger learns: vocabulary, settings for everything unset, a network, and the loop that trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from trellis.arrays import Float32Array, FloatArray, IntArray
from trellis.errors import ModelError
from trellis.lazy import cached
from trellis.lexicon.features import name_of_column
from trellis.models import fingerprint
from trellis.models.data import Labelled, dev_scores
from trellis.models.neural.config import EncoderSettings, Facts, NeuralConfig, resolved
from trellis.models.neural.model import LearnedNetwork
from trellis.models.neural.network import Network, build, load_transformer
from trellis.models.neural.plan import TableSize, plan_of
from trellis.models.neural.vocabulary import (
    EncodedSentences,
    TokenCounts,
    Vocabulary,
    add_vectors,
    learn_pairs,
    learn_vocabulary,
)
from trellis.models.posterior import best_labels
from trellis.models.tagger import FitOptions
from trellis.symbols import Symbols
from trellis.tags import StateMap
from trellis.training import DevScores, History
from trellis.training.neural import train
from trellis.training.neural.batches import Gather
from trellis.training.process_group import process_slice


@dataclass(frozen=True, eq=False)
class NeuralTraining:
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

    def run(self) -> tuple[LearnedNetwork, NeuralConfig, History]:
        """The network, the settings that were used, and how it went."""
        options, words = self.options, self.config.encoder.words
        columns = (*self.config.encoder.columns, *map(name_of_column, self.lexical))
        counted = TokenCounts.count(self._inputs(), columns)
        learned = learn_vocabulary(counted, lower=words.lower, min_freq=words.min_freq, before=self._known)
        learned, vectors, coverage = add_vectors(learned, words, list(counted.tokens))
        del counted
        settings = resolved(self.config, self._facts(learned, vectors))
        vocabulary = self._used(learned, settings.encoder)
        with torch.random.fork_rng():
            torch.manual_seed(settings.training.seed)
            network = build(settings, vocabulary, self.states, vectors, load_transformer(settings.encoder))
            if self.before is not None:
                copy_weights(network, self.before.network)
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
        states, by_itself = self.states, self.config.encoder.transformer is None
        characters, size = learned.has_only_characters, None if vectors is None else vectors.shape[1]
        longest = None
        if self.config.head == "semicrf" and not self.data.partial:
            longest = max(_longest_span(states, data) for data in self._windows()) or None
        spelled, paired = by_itself and not characters, by_itself and characters
        return Facts(spelled, paired, size, states.tags.scheme, states.scheme, longest)

    def _used(self, learned: Vocabulary, settings: EncoderSettings) -> Vocabulary:
        """The vocabulary with characters and pairs only if the encoder uses them."""
        if settings.characters.kind == "none":
            learned = replace(learned, characters=Symbols())
        if not settings.pairs:
            return learned
        return replace(learned, pairs=learn_pairs(self._inputs(), settings.pair_min_freq, self._known))

    def _task(self, network: Network, vocabulary: Vocabulary) -> TaggingTask:
        encode = partial(network.encode, vocabulary, cache=self.config.encoder.pretrained.cache)
        validate = None
        if self.dev is not None:
            share = process_slice()
            validate = Validation(network, encode(self.dev.inputs[share]), share, self.dev, self.states)

        def examples(data: Labelled) -> TaggingExamples:
            return TaggingExamples(network, data, encode, self._targets)

        if self.options.stream is not None:
            return TaggingTask(network, lambda epoch, first: map(examples, self._windows(epoch, first)), validate)
        everything = examples(self.data)
        return TaggingTask(network, lambda epoch, first: iter([everything][first:]), validate)

    def _targets(self, data: Labelled) -> Targets:
        return Targets.of(data, self.states, self.config.label_weights, self.options.sentence_weights)


def _longest_span(states: StateMap, data: Labelled) -> int:
    """The tokens of the longest span; 0 if there is none."""
    spans = states.tags.find_spans(data.encode(states.tags), data.lengths)
    return int((spans.end - spans.begin).max()) if len(spans.end) else 0


def copy_weights(network: Network, earlier: Network) -> None:
    """Copy what an earlier network learned: its words and labels come first, so its weights are the first of each.

    Words, labels and features may have been added; a layer of another width would get weights of other units.
    """
    old = earlier.state_dict()
    with torch.no_grad():
        for name, new in network.state_dict().items():
            if name in old and ".vectors." not in name:  # a file's vectors are read, not learned
                sizes = list(zip(new.shape, old[name].shape, strict=True))
                if {axis for axis, (now, before) in enumerate(sizes) if now != before} - _axes_that_grow(name):
                    raise ModelError(
                        f"a warm start needs layers of the same sizes: {name} is {tuple(new.shape)}, and "
                        f"{tuple(old[name].shape)} in the earlier model; keep hidden and the other sizes of encoder "
                        "as they were, or train from the start"
                    )
                shared = tuple(slice(0, min(pair)) for pair in sizes)
                new[shared] = old[name][shared].to(new.device)


def _axes_that_grow(name: str) -> set[int]:
    """Where words, labels or features are counted."""
    if name.startswith(("head.", "edges.")):
        return {0, 1, 2}
    if ".lstm." in name:
        return {1} if "weight_ih" in name else set()
    return set() if ".filters." in name or ".transformer." in name else {0}


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What the tokens should be: one label each, or the labels that each may have."""

    tags: Tensor | None
    allowed: Tensor | None
    token_weights: Tensor | None
    sentence_weights: Tensor | None

    @property
    def is_plain(self) -> bool:
        """Whether every token has one label, and all count the same."""
        return self.tags is not None and self.token_weights is None and self.sentence_weights is None

    @classmethod
    def of(
        cls,
        data: Labelled,
        states: StateMap,
        label_weights: Mapping[str, float] | None,
        sentence_weights: FloatArray | None,
    ) -> Targets:
        weights = data.token_weights(states.tags, label_weights)
        return cls(
            None if data.partial else torch.from_numpy(data.encode_states(states)),
            torch.from_numpy(data.allowed_states(states)) if data.partial else None,
            None if weights is None else torch.from_numpy(weights).float(),
            None if sentence_weights is None else torch.from_numpy(sentence_weights).float(),
        )


class TaggingExamples:
    """Sentences in memory: what a network makes of them, and what it should; they are encoded when that is needed."""

    def __init__(
        self,
        network: Network,
        data: Labelled,
        encode: Callable[[Sequence[Any]], EncodedSentences],
        targets: Callable[[Labelled], Targets],
    ) -> None:
        self.tokens: IntArray = data.lengths
        self._network, self._encode, self._targets_of = network, encode, targets
        self._data: Labelled | None = data

    @cached
    def _encoded(self) -> tuple[EncodedSentences, Targets]:
        assert self._data is not None
        data, self._data = self._data, None  # the sentences themselves are not needed any more
        return self._encode(data.inputs), self._targets_of(data)

    @property
    def lengths(self) -> IntArray:
        """Tokens of each sentence; with a transformer subwords: it computes on padding, and batches must fit these."""
        if self._network.transformer is None or (subwords := self._encoded[0].subwords) is None:
            return self.tokens
        sizes: IntArray = subwords.sizes
        return sizes

    def loss(self, examples: IntArray) -> tuple[Tensor, int]:
        network, device, (inputs, targets) = self._network, self._network.device, self._encoded
        batch = network.batch(inputs, examples)
        rows = torch.from_numpy(inputs.rows(examples))
        if targets.is_plain:
            assert targets.tags is not None
            loss = network.joined_loss(batch, targets.tags[rows])
            if loss is not None:
                return loss, len(examples)
        emissions, edges = network.scores(batch)
        wanted = {"tags": targets.tags, "allowed": targets.allowed, "weights": targets.token_weights}
        given = {name: values[rows].to(device) for name, values in wanted.items() if values is not None}
        losses = network.head.losses(emissions, inputs.lengths[examples], edges=edges, **given)
        if targets.sentence_weights is not None:
            losses = losses * targets.sentence_weights[torch.from_numpy(examples)].to(device)
        return losses.sum(), len(examples)


class TaggingTask:
    """A network that learns, its sentences in windows, and how to score it."""

    def __init__(
        self,
        network: Network,
        windows: Callable[[int, int], Iterator[TaggingExamples]],
        validate: Callable[[Gather], DevScores] | None,
    ) -> None:
        self.module: nn.Module = network
        self._network, self._windows, self._validate = network, windows, validate

    def groups(self) -> list[tuple[str, list[nn.Parameter]]]:
        """The encoder, and emission layer and head; with a pretrained transformer, that one and all the rest."""
        network = self._network
        slow = network.encoder if network.transformer is None else network.transformer.model
        encoder = [p for p in slow.parameters() if p.requires_grad]
        known = {id(p) for p in encoder}
        rest = [p for p in network.parameters() if p.requires_grad and id(p) not in known]
        return [("encoder", encoder), ("head", rest)]

    def windows(self, epoch: int, first: int = 0) -> Iterator[TaggingExamples]:
        return self._windows(epoch, first)

    def validate(self, gather: Gather) -> DevScores | None:
        return None if self._validate is None else self._validate(gather)


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Scores of a network on held-out sentences, of which each process tags its share."""

    network: Network
    inputs: EncodedSentences
    share: slice
    """Which sentences `inputs` are."""
    dev: Labelled
    states: StateMap

    def __call__(self, gather: Gather) -> DevScores:
        """The scores of the network in its current state."""
        own, histories = self.dev.inputs[self.share], self.network.head.histories
        blocks = [self.network.chain_scores(self.inputs)] if own else []  # there may be more processes than sentences
        parts = gather(best_labels(blocks, own, self.states, histories))
        found: list[list[str]] = [[]] * len(self.dev.inputs)
        for rank, part in enumerate(parts):
            found[rank :: len(parts)] = part
        return dev_scores(self.dev, found, self.states.tags)
