"""Neural taggers: encoder, emission layer, and a CRF or a softmax as head.

    model = NeuralTagger(encoder={"words": {"vectors": "glove.6B.50d.txt"}}).fit(train, dev=dev)
    model.tag([["She", "lives", "in", "Paris"]])

Settings are those of `trellis.models.neural.config`; a nested table may be given as a dict. `fit` takes a `folder` for
checkpoints, and ``resume=True`` goes on after an interruption as if there had been none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import torch

from trellis import chain
from trellis.arrays import Arrays, IntArray
from trellis.models import fingerprint
from trellis.models.base import Tagger
from trellis.models.data import Labelled, learned_states, learned_tag_set
from trellis.models.fitting import FitOptions
from trellis.models.neural.config import NeuralConfig, resolved
from trellis.models.neural.network import Network, build, load_transformer, uses_characters, uses_pairs
from trellis.models.neural.storage import from_stored, to_stored
from trellis.models.neural.tagging import scores_of
from trellis.models.neural.training import TaggingTask, Targets, Validation
from trellis.models.neural.vectors import add_vectors
from trellis.models.neural.vocabulary import Symbols, Vocabulary, distinct_tokens, learn_pairs, learn_vocabulary
from trellis.models.states import stored_states
from trellis.store import Stored
from trellis.tags import TagSet, TagStates
from trellis.training.neural import train
from trellis.training.neural.settings import FREE
from trellis.vectors import Coverage


@dataclass(frozen=True, eq=False)
class Learned:
    """What training leaves: the network, the names it knows, and how much of them the vectors covered."""

    network: Network
    vocabulary: Vocabulary
    coverage: Coverage | None = None


@final
class NeuralTagger(Tagger[NeuralConfig]):
    """BiLSTM-CRF, BiLSTM-softmax and their kin; see the module for how to use it."""

    kind: ClassVar[str] = "neural"
    config_class: ClassVar[type[Any]] = NeuralConfig
    free_settings: ClassVar[frozenset[str] | None] = frozenset(
        ("encoder.pretrained.cache", "encoder.pretrained.store", *(f"training.{name}" for name in FREE))
    )
    model_: Learned
    states_: TagStates
    """What the emissions are about: the labels, as the scheme that is learned tells them apart."""

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        before, tags_before = (self.model_, self.tagset_) if self._goes_on(options) else (None, None)
        tags = learned_tag_set(data, self.config.scheme, self.config.constraints, tags_before)
        states = self._states(tags, None if before is None else self.states_)
        if dev is not None:
            dev.encode(tags)
        vocabulary = self._vocabulary(data.inputs, before)
        vocabulary, vectors, coverage = add_vectors(vocabulary, self.config.encoder.words, distinct_tokens(data.inputs))
        settings = resolved(self.config, vector_size=None if vectors is None else vectors.shape[1])
        with torch.random.fork_rng():
            torch.manual_seed(settings.training.seed)
            network = build(settings, vocabulary, states, vectors, load_transformer(settings.encoder))
            if before is not None:
                take_over(network, before.network)
            if options.folder is not None:
                frozen = {name: p.float().numpy() for name, p in network.named_parameters() if not p.requires_grad}
                options.folder.identify(data={"vectors and other frozen weights": fingerprint.of_arrays(frozen)})
            task = self._task(network, vocabulary, data, dev, states, options)
            history = train(task, settings.training, folder=options.folder, progress=options.progress)
        self.model_, self.tagset_, self.states_ = Learned(network, vocabulary, coverage), tags, states
        self.history_ = history

    def _states(self, tags: TagSet, before: TagStates | None) -> TagStates:
        own = self.config
        legal = own.constraints and (own.head == "crf" or own.decoding == "legal")
        return learned_states(tags, own.learn_scheme, legal, before)

    def _state_labels(self) -> IntArray | None:
        return self.states_.finer

    def _vocabulary(self, inputs: Sequence[Any], before: Learned | None) -> Vocabulary:
        settings = self.config.encoder
        vocabulary = learn_vocabulary(
            inputs,
            settings.columns,
            lower=settings.words.lower,
            min_freq=settings.words.min_freq,
            before=None if before is None else before.vocabulary,
        )
        if not uses_characters(settings, vocabulary):
            vocabulary = replace(vocabulary, characters=Symbols())
        if uses_pairs(settings, vocabulary):
            known = None if before is None else before.vocabulary
            vocabulary = replace(vocabulary, pairs=learn_pairs(inputs, settings.pair_min_freq, known))
        return vocabulary

    def _task(
        self,
        network: Network,
        vocabulary: Vocabulary,
        data: Labelled,
        dev: Labelled | None,
        states: TagStates,
        options: FitOptions,
    ) -> TaggingTask:
        encode = partial(network.encode, vocabulary, cache=self.config.encoder.pretrained.cache)
        targets = Targets.of(data, states, self.config.label_weights, options.sentence_weights)
        validate = None if dev is None else Validation(network, encode(dev.inputs), dev, states)
        return TaggingTask(network, encode(data.inputs), targets, validate)

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        model = self._fitted()
        return scores_of(model.network, model.network.encode(model.vocabulary, inputs))

    def _fitted(self) -> Learned:
        self._fitted_tags()
        return self.model_

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        manifest, arrays = to_stored(model.network, model.vocabulary, by_reference=self._by_reference())
        return {**manifest, "learn_scheme": self.states_.scheme.value}, arrays

    def _by_reference(self) -> bool:
        return self.config.encoder.pretrained.store == "reference"

    def _restore(self, stored: Stored) -> None:
        with torch.random.fork_rng():
            self.states_ = stored_states(stored, self._fitted_tags())
            network, vocabulary = from_stored(self.config, self.states_, stored)
        self.model_ = Learned(network.to("cuda" if torch.cuda.is_available() else "cpu"), vocabulary)


def take_over(network: Network, before: Network) -> None:
    """Copy what an earlier network learnt: its words and labels come first, so its weights are the first of each."""
    old = before.state_dict()
    with torch.no_grad():
        for name, new in network.state_dict().items():
            if name in old and ".vectors." not in name:  # a file's vectors are read, not learnt
                shared = tuple(slice(0, min(a, b)) for a, b in zip(new.shape, old[name].shape, strict=True))
                new[shared] = old[name][shared].to(new.device)
