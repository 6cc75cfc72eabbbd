"""Neural taggers: encoder, emission layer, and a CRF, a semi-Markov CRF or a softmax as head.

    model = NeuralTagger(encoder={"words": {"vectors": "glove.6B.50d.txt"}}).fit(train, dev=dev)
    model.tag([["She", "lives", "in", "Paris"]])

Settings are those of `trellis.models.neural.config`; a nested table may be given as a dict. `fit` takes a `folder` for
checkpoints, and ``resume=True`` continues after an interruption as if there had been none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, final

import torch

from trellis import chain
from trellis.arrays import Arrays, Float32Array, IntArray
from trellis.errors import ConfigError, ModelError
from trellis.lexicon import Lexicon
from trellis.lexicon.columns import name_of_column
from trellis.models import fingerprint
from trellis.models.base import Tagger
from trellis.models.data import Label, Labelled, Supervised, check_held_out, learned_states, learned_tag_set
from trellis.models.fitting import FitOptions, opened
from trellis.models.folder import ModelFolder
from trellis.models.neural.config import EncoderSettings, Facts, NeuralConfig, resolved
from trellis.models.neural.network import Network, build, load_transformer
from trellis.models.neural.storage import from_stored, to_stored
from trellis.models.neural.tagging import scores_of
from trellis.models.neural.training import TaggingTask, Targets, Validation
from trellis.models.neural.vectors import add_vectors
from trellis.models.neural.vocabulary import Symbols, Vocabulary, distinct_tokens, learn_pairs, learn_vocabulary
from trellis.models.states import stored_states
from trellis.store import Stored
from trellis.tags import OnBadTags, Scheme, TagSet, TagStates
from trellis.text import OwnTokenizer, Splitter
from trellis.training import Progress
from trellis.training.neural import train
from trellis.training.neural.settings import FREE
from trellis.vectors import Coverage


@dataclass(frozen=True, eq=False)
class LearnedNetwork:
    """What training leaves: the network, the names it knows, and how much of them the vectors covered."""

    network: Network
    vocabulary: Vocabulary
    coverage: Coverage | None = None


@final
class NeuralTagger(Tagger[NeuralConfig]):
    """BiLSTM-CRF, BiLSTM-softmax and similar models; see the module for how to use it."""

    kind: ClassVar[str] = "neural"
    config_class: ClassVar[type[Any]] = NeuralConfig
    free_settings: ClassVar[frozenset[str] | None] = frozenset(
        ("encoder.pretrained.cache", "encoder.pretrained.store", *(f"training.{name}" for name in FREE))
    )
    model_: LearnedNetwork
    states_: TagStates
    """What the emissions are about: the labels, as the scheme that is learned tells them apart."""

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None = None,
        *,
        dev: Supervised | None = None,
        sentence_weights: Sequence[float] | None = None,
        warm_start: bool = False,
        progress: Progress | None = None,
        folder: str | Path | ModelFolder | None = None,
        tokenizer: Splitter | str | OwnTokenizer | None = None,
        on_bad_tags: OnBadTags = "error",
        lexicon: Lexicon | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn as every tagger does (see `Tagger.fit`), in epochs, with checkpoints in the `folder` in between.

        With `resume`, a training in the folder that was killed or interrupted continues from its last checkpoint, if
        there is one, to the same model as if nothing had happened.
        """
        if resume and folder is None:
            raise ModelError("resume needs the folder of the training that is to be continued, got none")
        options = FitOptions(warm_start, progress, tokenizer=tokenizer, on_bad_tags=on_bad_tags, lexicon=lexicon)
        with opened(folder, self.kind, resume=resume) as place:
            self._fit(X, y, dev, sentence_weights, options, place, keep=place is not folder)
        return self

    @property
    def learns_lexicons(self) -> bool:
        """Matches have embeddings."""
        return True

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        before, tags_before = (self.model_, self.tagset_) if self._goes_on(options) else (None, None)
        tags = learned_tag_set(data, self.config.scheme, self.config.constraints, tags_before)
        states = self._states(tags, None if before is None else self.states_)
        if dev is not None:
            check_held_out(dev, tags)
        learned = self._vocabulary(data.inputs, before)
        learned, vectors, coverage = add_vectors(learned, self.config.encoder.words, distinct_tokens(data.inputs))
        settings = resolved(self.config, _facts(self.config, learned, vectors, states, data))
        vocabulary = _used(learned, settings.encoder, data.inputs, None if before is None else before.vocabulary)
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
        self.model_, self.settings_ = LearnedNetwork(network, vocabulary, coverage), settings
        self.tagset_, self.states_, self.history_ = tags, states, history

    def _states(self, tags: TagSet, before: TagStates | None) -> TagStates:
        own = self.config
        legal = own.constraints and (own.head == "crf" or own.decoding == "legal")
        if own.head == "semicrf":
            return _segment_states(tags, own.learn_scheme, before)
        return learned_states(tags, own.learn_scheme, legal, before)

    def _state_labels(self) -> IntArray | None:
        histories = self.model_.network.head.histories
        return self.states_.finer if histories is None else self.states_.labels[histories]

    def _vocabulary(self, inputs: Sequence[Any], before: LearnedNetwork | None) -> Vocabulary:
        settings = self.config.encoder
        return learn_vocabulary(
            inputs,
            (*settings.columns, *map(name_of_column, self.lexical_)),
            lower=settings.words.lower,
            min_freq=settings.words.min_freq,
            before=None if before is None else before.vocabulary,
        )

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

    def _fitted(self) -> LearnedNetwork:
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
            network, vocabulary, self.settings_ = from_stored(self.settings_, self.states_, stored)
        self.model_ = LearnedNetwork(network.to("cuda" if torch.cuda.is_available() else "cpu"), vocabulary)


def _segment_states(tags: TagSet, learn_scheme: str | None, before: TagStates | None) -> TagStates:
    """States that tell where spans begin and end: a semi-Markov head makes segments of them."""
    states = learned_states(tags, learn_scheme, True, before)
    if states.scheme not in (Scheme.BIOES, Scheme.BILOU, Scheme.BMES, Scheme.PLAIN):  # plain: spans of one token
        raise ConfigError(f"head = semicrf learns in bioes, bilou or bmes, got learn_scheme = {learn_scheme}")
    return states


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
    """Copy what an earlier network learned: its words and labels come first, so its weights are the first of each."""
    old = before.state_dict()
    with torch.no_grad():
        for name, new in network.state_dict().items():
            if name in old and ".vectors." not in name:  # a file's vectors are read, not learned
                shared = tuple(slice(0, min(a, b)) for a, b in zip(new.shape, old[name].shape, strict=True))
                new[shared] = old[name][shared].to(new.device)
