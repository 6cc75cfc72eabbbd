"""Neural taggers: encoder, emission layer, and a CRF, a semi-Markov CRF or a softmax as head.

    model = NeuralTagger(encoder={"words": {"vectors": "glove.6B.50d.txt"}}).fit(train, dev=dev)
    model.tag([["She", "lives", "in", "Paris"]])

Settings are those of `trellis.models.neural.config`; a nested table may be given as a dict. `trellis.corpus.Shards` as
`X` of `fit` is a corpus on disk that is read anew in each epoch: no more than ``training.window`` of its sentences are
in memory, and these are shuffled together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, final

from trellis import chain
from trellis.arrays import Arrays, IntArray
from trellis.corpus import Shards
from trellis.errors import ConfigError, ModelError
from trellis.models.data import Labelled, check_held_out, learned_states, learned_tag_set
from trellis.models.neural.config import NeuralConfig
from trellis.models.neural.inference import LearnedNetwork
from trellis.models.neural.storage import from_stored, to_stored
from trellis.models.neural.stream import SentenceStream, stream_of
from trellis.models.states import stored_states
from trellis.models.tagger import FitOptions, Tagger
from trellis.optional import required
from trellis.store import Stored
from trellis.tags import Scheme, StateMap, TagSet
from trellis.training.neural.settings import FREE


@final
class NeuralTagger(Tagger[NeuralConfig]):
    """BiLSTM-CRF, BiLSTM-softmax and similar models; see the module for how to use it."""

    kind: ClassVar[str] = "neural"
    config_class: ClassVar[type[Any]] = NeuralConfig
    free_settings: ClassVar[frozenset[str] | None] = frozenset(
        [f"encoder.pretrained.{name}" for name in ("cache", "store", "tagging")] + [f"training.{name}" for name in FREE]
    )
    model_: LearnedNetwork
    states_: StateMap
    """What the emissions are about: the labels, as the scheme that is learned tells them apart."""

    def _stream(
        self, X: Iterable[Any], y: object, sentence_weights: object, options: FitOptions
    ) -> SentenceStream | None:
        if isinstance(X, Shards | SentenceStream):
            return stream_of(X, y, sentence_weights, options.on_bad_tags)
        return None

    @property
    def learns_lexicons(self) -> bool:
        """Matches have embeddings."""
        return True

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        with required("training a neural model", "trellis-crf[neural]", ModelError):
            from trellis.models.neural.training import NeuralTraining

        before, tags_before = (self.model_, self.tagset_) if self._goes_on(options) else (None, None)
        tags = learned_tag_set(data, self.config.scheme, self.config.constraints, tags_before)
        states = self._states(tags, None if before is None else self.states_)
        if dev is not None:
            check_held_out(dev, tags)
        if options.stream is not None and self.lexical_:
            raise ModelError("matches of a lexicon are learned from all sentences at once: a stream never has them")
        training = NeuralTraining(self.config, data, dev, states, self.lexical_, options, before, self._seen)
        self.model_, self.settings_, self.history_ = training.run()
        self.tagset_, self.states_ = tags, states
        self._set_precision()

    def _states(self, tags: TagSet, before: StateMap | None) -> StateMap:
        own = self.config
        legal = own.constraints and (own.head == "crf" or own.decoding == "legal")
        if own.head == "semicrf":
            return _segment_states(tags, own.learn_scheme, before)
        return learned_states(tags, own.learn_scheme, legal, before)

    def _state_labels(self) -> IntArray | None:
        if self.settings_.head != "semicrf":
            return self.states_.finer
        histories: IntArray = self.model_.network.head.histories
        return self.states_.labels[histories]

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        return self._fitted().scores(inputs)

    def _fitted(self) -> LearnedNetwork:
        self._fitted_tags()
        return self.model_

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        manifest, arrays = to_stored(model, by_reference=self._by_reference())
        return {**manifest, "learn_scheme": self.states_.scheme.value}, arrays

    def _by_reference(self) -> bool:
        return self.config.encoder.pretrained.store == "reference"

    def _restore(self, stored: Stored) -> None:
        self.states_ = stored_states(stored, self._fitted_tags())
        self.model_, self.settings_ = from_stored(self.settings_, self.states_, stored)
        self._set_precision()

    def compute_in(self, precision: Literal["float32", "bfloat16"]) -> Self:
        """Tag in this arithmetic from now on, also after `save`: the setting ``encoder.pretrained.tagging``."""
        self._fitted()
        if self.settings_.encoder.transformer is None:
            raise ModelError(f"{precision} is for linear layers of a transformer; this tagger has no transformer")
        self.set_params(encoder__pretrained__tagging=precision)
        encoder = self.settings_.encoder
        own = replace(encoder.pretrained, tagging=self.config.encoder.pretrained.tagging)
        self.settings_ = replace(self.settings_, encoder=replace(encoder, pretrained=own))
        self._set_precision(again=True)
        return self

    def _set_precision(self, *, again: bool = False) -> None:
        """Apply the setting; a network computes in single precision unless it was told otherwise before."""
        encoder = self.settings_.encoder
        if encoder.transformer is not None and (again or encoder.pretrained.tagging != "float32"):
            from trellis.nn.transformer import set_precision

            set_precision(self.model_.network.transformer.model, encoder.pretrained.tagging)


def _segment_states(tags: TagSet, learn_scheme: str | None, before: StateMap | None) -> StateMap:
    """States that tell where spans begin and end: a semi-Markov head makes segments of them."""
    states = learned_states(tags, learn_scheme, True, before)
    if states.scheme not in (Scheme.BIOES, Scheme.BILOU, Scheme.BMES, Scheme.PLAIN):  # plain: spans of one token
        raise ConfigError(f"head = semicrf learns in bioes, bilou or bmes, got learn_scheme = {learn_scheme}")
    return states
