"""How a neural tagger learns: vocabulary, settings for everything unset, a network, and the loop that trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.arrays import Float32Array, FloatArray, IntArray
from trellis.errors import ModelError
from trellis.lazy import cached
from trellis.lexicon.features import name_of_column
from trellis.models.data import Labelled, dev_scores
from trellis.models.folder import array_fingerprint
from trellis.models.neural.config import Facts, NeuralConfig, resolved
from trellis.models.neural.model import LearnedNetwork
from trellis.models.neural.network import Network, build, load_transformer
from trellis.models.neural.plan import TableSize, plan_of
from trellis.models.neural.vocabulary import (
    EncodedSentences,
    TokenCounts,
    Vocabulary,
    add_vectors,
    count_words,
    learn_pairs,
    learn_vocabulary,
)
from trellis.models.posterior import best_labels
from trellis.models.tagger import FitOptions
from trellis.nn.encoder import WordPart
from trellis.symbols import Symbols
from trellis.tags import StateMap
from trellis.training import DevScores, History
from trellis.training.neural import train
from trellis.training.neural.batches import Gather
from trellis.training.process_group import process_slice


@dataclass(frozen=True, eq=False)
class NeuralTraining:
    """A training: data, settings, and the network that was learned before, if any."""

    config: NeuralConfig
    data: Labelled
    dev: Labelled | None
    states: StateMap
    lexical: Sequence[str | None]
    options: FitOptions
    before: LearnedNetwork | None
    seen: Callable[[Labelled], Labelled]
    """Prepares sentences that are streamed as the model sees them."""

    def run(self) -> tuple[LearnedNetwork, NeuralConfig, History]:
        """The network, the settings that were used, and how it went."""
        options, words = self.options, self.config.encoder.words
        known = None if self.before is None else self.before.vocabulary
        columns = (*self.config.encoder.columns, *map(name_of_column, self.lexical))
        counted = TokenCounts.count(self._inputs(), columns)
        vocabulary = learn_vocabulary(counted, lower=words.lower, min_freq=words.min_freq, before=known)
        vocabulary, vectors, coverage = add_vectors(vocabulary, words, list(counted.tokens))
        ids, counts = vocabulary.kinds([*counted.tokens]).word, [*counted.tokens.values()]
        occurrences = np.bincount(ids, counts, len(vocabulary.words))
        del counted
        settings = self._resolved(vocabulary.has_only_characters, vectors)
        if settings.encoder.characters.kind == "none":
            vocabulary = replace(vocabulary, characters=Symbols())
        if settings.encoder.pairs:
            pairs = learn_pairs(self._inputs(), settings.encoder.pair_min_freq, known)
            vocabulary = replace(vocabulary, pairs=pairs)
        if settings.encoder.words.soft_lexicon:
            vocabulary = replace(vocabulary, counts=count_words(self._inputs(), vocabulary))
        with torch.random.fork_rng():
            torch.manual_seed(settings.training.seed)
            network = build(settings, vocabulary, self.states, vectors, load_transformer(settings.encoder))
            part = network.encoder.parts["words"] if "words" in network.parts else None
            if settings.encoder.words.rare and isinstance(part, WordPart):
                part.hide_rare_words(occurrences, settings.encoder.words.rare)
            if self.before is not None:
                copy_weights(network, self.before.network)
            if options.folder is not None:
                frozen = {name: p.float().numpy() for name, p in network.named_parameters() if not p.requires_grad}
                options.folder.identify(data={"vectors and other frozen weights": array_fingerprint(frozen)})
            task = self._task(network, vocabulary)
            history = train(task, settings.training, folder=options.folder, progress=options.progress)
        shape = None if vectors is None else TableSize(*vectors.shape)
        plan = plan_of(settings, vocabulary, self.states, shape) if network.device.type == "cpu" else None
        weights = {}
        if plan is not None:
            state = network.state_dict()
            weights = {name: state[name].detach().numpy() for name, _ in plan.shapes()}
        return LearnedNetwork(vocabulary, plan, weights, lambda: network, coverage), settings, history

    def _windows(self, epoch: int | None = None, first: int = 0) -> Iterator[Labelled]:
        """All sentences, as many at a time as may be in memory; in the order of an epoch, or without in their own."""
        stream, settings = self.options.stream, self.config.training
        if stream is None:
            return iter([self.data])
        order = None if epoch is None else stream.order(settings.seed, epoch)
        return map(self.seen, stream.windows(settings.window, order, first, self.config.encoder.columns))

    def _inputs(self) -> Iterator[Sequence[Any]]:
        return map(attrgetter("inputs"), self._windows())

    def _resolved(self, only_characters: bool, vectors: Float32Array | None) -> NeuralConfig:
        """The settings, with a value for everything that was left unset."""
        tags, longest, alone = self.states.tags, 0, self.config.encoder.transformer is None
        for data in self._windows() if self.config.head == "semicrf" and not self.data.partial else ():
            spans = tags.find_spans(data.encode(tags), data.lengths)
            longest = max(longest, int((spans.end - spans.begin).max(initial=0)))
        spelled, paired = alone and not only_characters, alone and only_characters
        size = None if vectors is None else vectors.shape[1]
        facts = Facts(spelled, paired, size, tags.scheme, self.states.scheme, longest or None)
        if self.options.stream is None:
            facts = facts._replace(sentences=len(self.data.inputs))
        return resolved(self.config, facts)

    def _task(self, network: Network, vocabulary: Vocabulary) -> TaggingTask:
        dev, states = self.dev, self.states
        encode = partial(network.encode, vocabulary, cache=self.config.encoder.pretrained.cache)
        share = process_slice()  # of the held-out sentences, which all processes tag together
        held_out = None if dev is None else encode(dev.inputs[share])

        def validate(gather: Gather) -> DevScores | None:
            if dev is None or held_out is None:
                return None
            inputs = dev.inputs[share]
            blocks = [network.chain_scores(held_out)] if inputs else []  # there may be more processes than sentences
            parts = gather(best_labels(blocks, inputs, states, network.head.histories))
            labels: list[list[str]] = [[]] * len(dev.inputs)
            for rank, part in enumerate(parts):
                labels[rank :: len(parts)] = part
            return dev_scores(dev, labels, states.tags)

        def targets(data: Labelled) -> Targets:
            return Targets.of(data, states, self.config.label_weights, self.options.sentence_weights)

        def examples(data: Labelled) -> TaggingExamples:
            return TaggingExamples(network, data, encode, targets)

        if self.options.stream is not None:
            return TaggingTask(network, lambda epoch, first: map(examples, self._windows(epoch, first)), validate)
        everything = examples(self.data)
        return TaggingTask(network, lambda epoch, first: iter([everything][first:]), validate)


def copy_weights(network: Network, earlier: Network) -> None:
    """Copy what an earlier network learned: its words and labels come first, so its weights are the first of each.

    Words, labels and features may have been added; a layer of another width would get weights of other units.
    """
    old = earlier.state_dict()
    with torch.no_grad():
        for name, weights in network.state_dict().items():
            if name not in old or ".vectors." in name:  # a file's vectors are read, not learned
                continue
            growing = {0}  # the axes on which words, labels or features are counted
            if name.startswith(("head.", "edges.")):
                growing = {0, 1, 2}
            elif ".lstm." in name:
                growing = {1} if "weight_ih" in name else set()
            elif ".filters." in name or ".transformer." in name:
                growing = set()
            sizes = list(zip(weights.shape, old[name].shape, strict=True))
            if {axis for axis, (size, old_size) in enumerate(sizes) if size != old_size} - growing:
                raise ModelError(
                    f"a warm start needs layers of the same sizes: {name} is {tuple(weights.shape)}, and "
                    f"{tuple(old[name].shape)} in the earlier model; keep hidden and the other sizes of encoder "
                    "as they were, or train from the start"
                )
            shared = tuple(slice(0, min(pair)) for pair in sizes)
            weights[shared] = old[name][shared].to(weights.device)


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The labels to learn: one for each token, or those that each may have."""

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
    """Sentences in memory, and the loss of a network on them; they are encoded when that is needed."""

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
        labels = {"tags": targets.tags, "allowed": targets.allowed, "weights": targets.token_weights}
        options = {name: values[rows].to(device) for name, values in labels.items() if values is not None}
        losses = network.head.losses(emissions, inputs.lengths[examples], edges=edges, **options)
        if targets.sentence_weights is not None:
            losses = losses * targets.sentence_weights[torch.from_numpy(examples)].to(device)
        return losses.sum(), len(examples)


class TaggingTask:
    """A network that learns, its sentences in windows, and how to score it."""

    def __init__(
        self,
        network: Network,
        windows: Callable[[int, int], Iterator[TaggingExamples]],
        validate: Callable[[Gather], DevScores | None],
    ) -> None:
        self.module: nn.Module = network
        self._network, self._windows, self.validate = network, windows, validate

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
