"""Neural taggers: encoder, emission layer, and a CRF, a semi-Markov CRF or a softmax as head.

    model = NeuralTagger(encoder={"words": {"vectors": "glove.6B.50d.txt"}}).fit(train, dev=dev)
    model.tag([["She", "lives", "in", "Paris"]])

Settings are those of `trellis.models.neural.config`; a nested table may be given as a dict. `trellis.corpus.Shards` as
`X` of `fit` is a corpus on disk that is read anew in each epoch: no more than ``training.window`` of its sentences are
in memory, and these are shuffled together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, final

import numpy as np

from trellis import chain
from trellis.arrays import Arrays, IntArray
from trellis.corpus import Shards
from trellis.errors import ConfigError, ModelError, StoreError, number_of, required
from trellis.lazy import cached
from trellis.models.data import Labelled, check_held_out, learned_states, learned_tag_set, stored_states
from trellis.models.neural.config import Facts, NeuralConfig, resolved
from trellis.models.neural.plan import (
    PRETRAINED,
    TRANSFORMER,
    VECTORS,
    WEIGHTS,
    Inference,
    Plan,
    TableSize,
    Weights,
    plan_of,
)
from trellis.models.neural.stream import SentenceStream, stream_of
from trellis.models.neural.vocabulary import Vocabulary
from trellis.models.tagger import FitOptions, Tagger
from trellis.store import Stored, pack_strings
from trellis.symbols import Symbols
from trellis.tags import Scheme, StateMap
from trellis.training.neural.settings import FREE
from trellis.vectors import Coverage

_NAMES = ("words", "vectors", "characters", "pairs")


@dataclass(eq=False)
class LearnedNetwork:
    """A network that answers."""

    vocabulary: Vocabulary
    plan: Plan | None
    """None if only torch computes it."""
    stored_weights: Weights
    """The weights of the plan; once the torch module was made, its weights count."""
    make: Callable[[], Any]
    """Builds the module."""
    coverage: Coverage | None = None
    """How many words the vectors covered."""

    @cached
    def network(self) -> Any:
        """The torch module. Whoever asks for it may change it, so from then on it answers, and not the kernels."""
        with required("the torch module of a neural model", "trellis-crf[neural]", ModelError):
            return self.make()

    @cached
    def _inference(self) -> Inference:
        assert self.plan is not None
        return Inference(self.plan, self.stored_weights)

    @property
    def _has_module(self) -> bool:
        return self.plan is None or "network" in self.__dict__

    def scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """The scores of sentences, from which every answer comes."""
        if not self._has_module:
            return self._inference.chain_scores(self.vocabulary.encode(inputs))
        scores: chain.ChainScores = self.network.chain_scores(self.network.encode(self.vocabulary, inputs))
        return scores

    @property
    def weights(self) -> Weights:
        """The current weights by name, those of a transformer included."""
        if not self._has_module:
            return self.stored_weights
        state = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return state if self.plan is None else {name: state[name] for name, _ in self.plan.shapes()}


@final
class NeuralTagger(Tagger[NeuralConfig]):
    """Neural taggers: BiLSTM-CRF, BiLSTM-softmax, transformer-CRF and their kin.

    tagger = trellis.NeuralTagger(head="crf", training={"epochs": 20}).fit(sentences, dev=held_out)
    tagger("Ada Lovelace lives in London.")        the spans of a text, each with its probability
    tagger.predict([["Ada", "lives", "here"]])     the labels of lists of tokens
    print(tagger.evaluate(test))                   precision, recall and F1
    tagger.save("model.trellis")                   trellis.load opens it again
    """

    kind: ClassVar[str] = "neural"
    config_class: ClassVar[type[Any]] = NeuralConfig
    main_settings: ClassVar[tuple[str, ...]] = (
        *("head", "encoder.words", "encoder.characters", "encoder.transformer", "encoder.hidden", "training.epochs"),
        *("training.learning_rate", "training.batch_size", "training.patience", "tokenizer"),
    )
    free_settings: ClassVar[frozenset[str] | None] = frozenset(
        [f"encoder.pretrained.{name}" for name in ("cache", "store", "tagging")] + [f"training.{name}" for name in FREE]
    )
    model_: LearnedNetwork
    states_: StateMap
    """The states that have emissions: the labels, as the scheme that is learned tells them apart."""

    def _stream(
        self, X: Iterable[Any], y: object, sentence_weights: object, options: FitOptions
    ) -> SentenceStream | None:
        if isinstance(X, Shards | SentenceStream):
            return stream_of(X, y, sentence_weights, options.on_bad_tags)
        return None

    @property
    def learns_lexicons(self) -> bool:
        return True

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        with required("training a neural model", "trellis-crf[neural]", ModelError):
            from trellis.models.neural.training import NeuralTraining

        before, tags_before = (self.model_, self.tagset_) if self._goes_on(options) else (None, None)
        config, head = self.config, self.config.head
        tags = learned_tag_set(data, config.scheme, config.constraints, tags_before)
        # A semi-Markov head makes segments of states that tell where spans begin and end.
        legal = head == "semicrf" or (config.constraints and (head == "crf" or config.decoding == "legal"))
        states = learned_states(tags, config.learn_scheme, legal, None if before is None else self.states_)
        telling = (Scheme.BIOES, Scheme.BILOU, Scheme.BMES, Scheme.PLAIN)  # plain: spans of one token
        if head == "semicrf" and states.scheme not in telling:
            raise ConfigError(
                f"head = semicrf learns in bioes, bilou or bmes, got learn_scheme = {config.learn_scheme}"
            )
        if dev is not None:
            check_held_out(dev, tags)
        if options.stream is not None and self.lexical_:
            raise ModelError("matches of a lexicon are learned from all sentences at once: a stream never has them")
        training = NeuralTraining(self.config, data, dev, states, self.lexical_, options, before, self._seen)
        self.model_, self.settings_, self.history_ = training.run()
        self.tagset_, self.states_ = tags, states
        self._set_precision()

    def _extent(self) -> str:
        weights = self.model_.stored_weights
        return number_of(sum(int(array.size) for array in weights.values()), "weight") if weights else ""

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
        manifest, arrays = to_stored(self._fitted(), by_reference=self.config.encoder.pretrained.store == "reference")
        return {**manifest, "learn_scheme": self.states_.scheme.value}, arrays

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
        pretrained = replace(encoder.pretrained, tagging=self.config.encoder.pretrained.tagging)
        self.settings_ = replace(self.settings_, encoder=replace(encoder, pretrained=pretrained))
        self._set_precision(again=True)
        return self

    def _set_precision(self, *, again: bool = False) -> None:
        """Apply the setting; a network computes in single precision unless it was told otherwise before."""
        encoder = self.settings_.encoder
        if encoder.transformer is not None and (again or encoder.pretrained.tagging != "float32"):
            from trellis.nn.transformer import set_precision

            set_precision(self.model_.network.transformer.model, encoder.pretrained.tagging)


def to_stored(learned: LearnedNetwork, *, by_reference: bool) -> tuple[dict[str, Any], Arrays]:
    vocabulary = learned.vocabulary
    names = {name: getattr(vocabulary, name) for name in _NAMES}
    names |= {f"column {name}": symbols for name, symbols in vocabulary.columns.items()}
    arrays: Arrays = {}
    for name, symbols in names.items():
        arrays |= pack_strings(f"names.{name}", symbols.names)
    arrays |= {f"{WEIGHTS}{name}": a for name, a in learned.weights.items() if not name.startswith(PRETRAINED)}
    if vocabulary.counts is not None:
        arrays["counts"] = vocabulary.counts
    manifest: dict[str, Any] = {"columns": list(vocabulary.columns), "transformer": None}
    transformer = None if learned.plan is not None else learned.network.transformer
    if transformer is not None:
        weights, manifest["transformer"] = transformer.to_arrays(reference=by_reference)
        arrays |= {f"{TRANSFORMER}{name}": array for name, array in weights.items()}
    return manifest, arrays


def from_stored(config: NeuralConfig, states: StateMap, stored: Stored) -> tuple[LearnedNetwork, NeuralConfig]:
    """The inverse of `to_stored`; memory is taken only for what the file has arrays for.

    Settings that the file leaves unset follow from its arrays.
    """
    columns = {name: Symbols(stored.strings(f"names.column {name}")) for name in stored.manifest.texts("columns")}
    known = {name: Symbols(stored.strings(f"names.{name}")) for name in _NAMES}
    counts = stored.array("counts", np.int64, (len(known["vectors"]),), 0, None) if "counts" in stored else None
    vocabulary = Vocabulary(**known, columns=columns, lower=config.encoder.words.lower, counts=counts)
    vectors = None
    if f"{WEIGHTS}{VECTORS}" in stored:
        vectors = stored.array(f"{WEIGHTS}{VECTORS}", np.float32, (len(vocabulary.vectors), None))
    size = None if vectors is None else vectors.shape[1]
    spelled, paired = bool(vocabulary.characters.names), bool(vocabulary.pairs.names)
    settings = resolved(config, Facts(spelled, paired, size, states.tags.scheme, states.scheme))
    # The tables of what the scheme allows have a row and a column per label: the weights must have as many labels.
    L, rank = len(states), config.boundaries if config.head == "semicrf" else 0
    stored.array(f"{WEIGHTS}emission.bias", np.float32, (L + 2 * rank,))
    if config.head == "crf":
        stored.array(f"{WEIGHTS}head.crf.transitions", np.float32, (L, L))
    plan = None
    if stored.manifest.optional_table("transformer") is None:
        try:
            plan = plan_of(settings, vocabulary, states, None if vectors is None else TableSize(*vectors.shape))
        except ConfigError as error:
            raise StoreError(f"{stored.where}: the saved settings make no network: {error}") from None
    if plan is None:  # the torch module is built now: only then it is known to fit the file
        with required("a neural model with a transformer or a semi-CRF", "trellis-crf[neural]", ModelError):
            from trellis.models.neural.network import checked
        network = checked(settings, vocabulary, states, vectors, stored)
        return LearnedNetwork(vocabulary, None, {}, lambda: network), settings
    # One by one: settings may claim a million layers, of which the second is missing.
    weights = {name: stored.array(f"{WEIGHTS}{name}", np.float32, shape) for name, shape in plan.shapes()}
    stored.refuse_others(WEIGHTS, weights)

    def make() -> Any:
        from trellis.models.neural.network import with_weights

        return with_weights(settings, vocabulary, states, weights)

    return LearnedNetwork(vocabulary, plan, weights, make), settings
