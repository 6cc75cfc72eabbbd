"""How a neural tagger learns: vocabulary, settings for everything unset, a network, and the loop that trains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from trellis.arrays import Float32Array
from trellis.errors import ModelError
from trellis.lexicon.columns import name_of_column
from trellis.models import fingerprint
from trellis.models.data import Labelled
from trellis.models.fitting import FitOptions
from trellis.models.neural.config import EncoderSettings, Facts, NeuralConfig, resolved
from trellis.models.neural.learned import LearnedNetwork
from trellis.models.neural.network import Network, build, load_transformer
from trellis.models.neural.plan import TableSize, plan_of
from trellis.models.neural.training import TaggingTask, Targets, Validation
from trellis.models.neural.vectors import add_vectors
from trellis.models.neural.vocabulary import Vocabulary, distinct_tokens, learn_pairs, learn_vocabulary
from trellis.symbols import Symbols
from trellis.tags import TagStates
from trellis.training import History
from trellis.training.neural import train
from trellis.training.processes import own_share


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a tagger learns from, and what it has learned before."""

    config: NeuralConfig
    data: Labelled
    dev: Labelled | None
    states: TagStates
    lexical: Sequence[str | None]
    options: FitOptions
    before: LearnedNetwork | None

    def learn(self) -> tuple[LearnedNetwork, NeuralConfig, History]:
        """The network, the settings that were used, and how it went."""
        inputs, options = self.data.inputs, self.options
        learned, vectors, coverage = add_vectors(
            self._vocabulary(inputs), self.config.encoder.words, distinct_tokens(inputs)
        )
        settings = resolved(self.config, _facts(self.config, learned, vectors, self.states, self.data))
        vocabulary = _used(learned, settings.encoder, inputs, None if self.before is None else self.before.vocabulary)
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

    def _vocabulary(self, inputs: Sequence[Any]) -> Vocabulary:
        settings = self.config.encoder
        return learn_vocabulary(
            inputs,
            (*settings.columns, *map(name_of_column, self.lexical)),
            lower=settings.words.lower,
            min_freq=settings.words.min_freq,
            before=None if self.before is None else self.before.vocabulary,
        )

    def _task(self, network: Network, vocabulary: Vocabulary) -> TaggingTask:
        encode = partial(network.encode, vocabulary, cache=self.config.encoder.pretrained.cache)
        targets = Targets.of(self.data, self.states, self.config.label_weights, self.options.sentence_weights)
        validate = None
        if self.dev is not None:
            share = own_share()
            validate = Validation(network, encode(self.dev.inputs[share]), share, self.dev, self.states)
        return TaggingTask(network, encode(self.data.inputs), targets, validate)


def _facts(
    config: NeuralConfig, learned: Vocabulary, vectors: Float32Array | None, states: TagStates, data: Labelled
) -> Facts:
    """What unset settings depend on, as the training data has it."""
    alone, characters = config.encoder.transformer is None, learned.has_only_characters
    size = None if vectors is None else vectors.shape[1]
    spans = (
        None
        if config.head != "semicrf" or data.partial
        else states.tags.find_spans(data.encode(states.tags), data.lengths)
    )
    longest = None if spans is None or not len(spans.end) else int((spans.end - spans.begin).max())
    return Facts(alone and not characters, alone and characters, size, states.tags.scheme, states.scheme, longest)


def _used(
    learned: Vocabulary, settings: EncoderSettings, inputs: Sequence[Any], before: Vocabulary | None
) -> Vocabulary:
    """The vocabulary with characters and pairs only if the encoder uses them."""
    if settings.characters.kind == "none":
        learned = replace(learned, characters=Symbols())
    return replace(learned, pairs=learn_pairs(inputs, settings.pair_min_freq, before)) if settings.pairs else learned


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
