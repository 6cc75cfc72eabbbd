"""Settings of the neural taggers, without torch: what `trellis init` prints and a model file holds.

[encoder]                what turns tokens into features
[encoder.words]          one vector per word: learned, or read from GloVe, word2vec or fastText files
[encoder.characters]     one vector per word from its characters
[encoder.pretrained]     how the transformer is used, if `encoder.transformer` names one
[training]               the loop: optimizer, batches, schedule, stopping, checkpoints
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from trellis.config import Rule, check, section, setting
from trellis.errors import ConfigError
from trellis.models.data import TOKENIZER
from trellis.tags import Scheme
from trellis.training.neural.settings import TrainingSettings, usual_batch_size
from trellis.vectors import usual_count

T = TypeVar("T")

MOST_TOKENS = 64
"""The longest span that a semicrf scores as a whole."""
_USUAL_TOKENS, _MOST_RANK = 10, 1024
_CHARACTER_EPOCHS = 10  # with characters as tokens, longer trainings learn the words of the corpus by heart


def _at_least(least: int, names: str) -> Rule:
    return names, f"at least {least}", lambda value: value >= least


def _shares(names: str) -> Rule:
    return names, "in 0..1, 1 excluded", lambda value: 0 <= value < 1


@dataclass(frozen=True)
class WordSettings:
    """Word embeddings: a learned vector for each word of the training data, on top of one read from a file."""

    size: int | None = setting(None, "width; default: that of the vectors, else 100, or none with a transformer")
    vectors: str | None = setting(None, "file of GloVe, word2vec (text or binary) or fastText vectors")
    extra: int | None = setting(
        None,
        "vectors kept, from the top of the file, of words that training does not have; default: 100,000, or more as\n"
        "long as they take less than 80 MB (50 numbers each: 400,000)",
    )
    tune: bool = setting(True, "learn a correction of each training word's vector; false: vectors are not trained")
    lower: bool = setting(False, "look words up in lower case")
    min_freq: int = setting(1, "words that occur less often in training are unknown words")
    soft_lexicon: int | None = setting(
        None,
        "width of features of the words with vectors that begin, go on, end or stand at a token (SoftLexicon);\n"
        "0: none; default: 64 if there are vectors and all tokens are characters, else none",
    )
    unknown: float | None = setting(
        None,
        "share of known words that training treats as unknown, to learn how to treat these;\n"
        "default: 0.1, with vectors 0",
    )
    rare: float | None = setting(
        None,
        "a word that occurs n times is treated so with a probability of rare / (rare + n), if that is more than\n"
        "`unknown`; default: 0, with vectors 3",
    )

    def __post_init__(self) -> None:
        check(self, [_at_least(0, "size extra soft_lexicon rare"), _at_least(1, "min_freq"), _shares("unknown")])
        if self.soft_lexicon and (self.vectors is None or self.size == 0):
            raise ConfigError(f"soft_lexicon = {self.soft_lexicon} needs vectors, a file of them, and a size above 0")


@dataclass(frozen=True)
class CharacterSettings:
    """Features made of a word's characters."""

    kind: Literal["cnn", "lstm", "none"] | None = setting(
        None, "cnn, lstm or none; default: cnn, or none with a transformer or if all words are single characters"
    )
    size: int = setting(25, "width of a character's vector")
    output: int = setting(50, "width of a word's features")
    widths: tuple[int, ...] = setting((3,), "cnn: how many characters a filter sees; several make several filters")
    dropout: float = setting(0.0, "dropout of character vectors, the same for all places of a character in a batch")

    def __post_init__(self) -> None:
        check(self, [_at_least(1, "size output"), _shares("dropout")])
        if not self.widths or min(self.widths) < 1:
            raise ConfigError(f"widths must be at least one number >= 1, got {self.widths!r}")


@dataclass(frozen=True)
class PretrainedSettings:
    """How a pretrained transformer is used."""

    pooling: Literal["mean", "first", "last", "max"] = setting("mean", "how the pieces of a word become one vector")
    bilstm: Literal["before", "after"] = setting(
        "after", "whether the BiLSTM reads subwords, before pooling, or words and all other features, after it"
    )
    mix: bool = setting(False, "a learned mix of all layers instead of the last one")
    freeze: Literal["nothing", "embeddings", "all"] | int = setting(
        "nothing",
        "what is not fine-tuned: nothing, embeddings, all, or embeddings and this many lowest layers",
    )
    cache: str | None = setting(None, "folder for the features of an encoder that is frozen completely")
    checkpointing: bool = setting(False, "compute activations again in the backward pass: less memory, more time")
    tagging: Literal["float32", "bfloat16"] = setting(
        "float32",
        "arithmetic of its linear layers in tagging; bfloat16 is faster on CPUs that have it (AVX-512 BF16, AMX),\n"
        "and changes a few answers",
    )
    store: Literal["weights", "reference"] = setting("weights", "whether a saved model holds the encoder or its path")

    def __post_init__(self) -> None:
        if self.store == "reference" and self.freeze != "all":
            raise ConfigError('store = "reference" needs freeze = "all": fine-tuned weights are nowhere else')
        if self.cache is not None and self.freeze != "all":
            raise ConfigError('cache needs freeze = "all": the features of an encoder that learns change')
        if self.bilstm == "before" and (self.mix or self.cache is not None):
            raise ConfigError(
                'bilstm = "before" reads the subwords of the last layer: it needs mix = false and no cache'
            )


@dataclass(frozen=True)
class EncoderSettings:
    """The encoder, which turns tokens into features: parts side by side, then BiLSTM layers."""

    transformer: str | None = setting(None, "folder or name of a Hugging Face encoder with a fast tokenizer")
    words: WordSettings = section(WordSettings, "a vector for each word")
    characters: CharacterSettings = section(CharacterSettings, "a vector from each word's characters")
    pretrained: PretrainedSettings = section(PretrainedSettings, "the transformer, if there is one")
    capitalisation: int = setting(0, "width of a vector for how a word is written (lower, Title, UPPER, ...); 0: none")
    pairs: int | None = setting(
        None, "width of a vector for a token and its neighbour; default: 32 if all tokens are characters, else none"
    )
    pair_min_freq: int = setting(2, "pairs that occur less often in training are unknown pairs")
    pair_unknown: float = setting(0.5, "share of known pairs that training treats as unknown")
    columns: tuple[str, ...] = setting((), "further columns of the sentences to use, by name")
    column_size: int = setting(16, "width of the vector of a column's value")
    hidden: int | None = setting(
        None, "width of each BiLSTM layer's output, half each way; 0: no BiLSTM; default: 192, or 0 after a transformer"
    )
    layers: int = setting(1, "BiLSTM layers")
    dropout: float = setting(0.0, "plain dropout of the input and the output of the BiLSTM")
    locked_dropout: float | None = setting(
        None, "the same with one mask for all tokens of a sentence; default: 0.3, or 0.1 with a transformer"
    )
    word_dropout: float = setting(0.05, "share of tokens whose features are zeroed as a whole")

    def __post_init__(self) -> None:
        rules = [_at_least(0, "capitalisation pairs hidden"), _at_least(1, "pair_min_freq column_size layers")]
        check(self, [*rules, _shares("dropout word_dropout locked_dropout pair_unknown")])
        if self.hidden is not None and self.hidden % 2:
            raise ConfigError(f"hidden must be even, half each way, got {self.hidden}")
        if self.pretrained.bilstm == "before" and (self.transformer is None or self.hidden == 0):
            raise ConfigError('pretrained.bilstm = "before" needs a transformer, and hidden above 0')


@dataclass(frozen=True)
class NeuralConfig:
    """Settings of a neural tagger: encoder, emission layer, head."""

    head: Literal["crf", "softmax", "semicrf"] = setting(
        "crf", "crf: the sentence as a whole; softmax: each token by itself; semicrf: whole spans, with their lengths"
    )
    longest: int | None = setting(
        None, "semicrf: the most tokens of a span; default: as in the training data, but 3 to 10; longer ones are cut"
    )
    boundaries: int = setting(
        0, "semicrf: rank of scores that the first and the last token of a span make together; 0: each by itself"
    )
    edges: int = setting(
        0, "crf: rank of bilinear scores of transitions from the features of both tokens; 0: the same at every place"
    )
    decoding: Literal["legal", "argmax"] = setting(
        "legal", "softmax: the best legal sequence, or the best label of each token regardless of its neighbours"
    )
    scheme: str | None = setting(None, "tag scheme, e.g. bio; default: the one that fits the labels best")
    learn_scheme: str | None = setting(
        None, "tag scheme to learn in, e.g. bio; data: that of the data; default: bioes, for words bmes"
    )
    constraints: bool = setting(True, "forbid what the scheme forbids, in training (crf) and in tagging")
    label_weights: Mapping[str, float] | None = setting(None, "how much tokens of a label count; 1 unless given")
    lexicon: str | None = setting(None, "file of a lexicon: matches of its words and names become features")
    fold_width: bool = setting(True, "full-width and half-width forms are the same to the model")
    tokenizer: str | None = setting(None, TOKENIZER)
    encoder: EncoderSettings = section(EncoderSettings, "tokens to features")
    training: TrainingSettings = section(TrainingSettings, "how the tagger learns")

    def __post_init__(self) -> None:
        check(self, [_at_least(0, "edges boundaries"), _at_least(3, "longest")])
        if self.edges and self.head != "crf":
            raise ConfigError(f"edges = {self.edges} needs head = crf: a {self.head} has no such transitions to score")
        if self.head != "semicrf":
            return
        if not self.constraints or self.label_weights is not None:
            raise ConfigError("head = semicrf needs constraints = true, and no label_weights: it scores whole spans")
        if (self.longest is not None and self.longest > MOST_TOKENS) or self.boundaries > _MOST_RANK:
            raise ConfigError(
                f"longest must be at most {MOST_TOKENS} and boundaries at most {_MOST_RANK}, "
                f"got {self.longest} and {self.boundaries}"
            )


class Facts(NamedTuple):
    """Properties of the training data on which unset settings depend."""

    spelled: bool = True
    """Whether words are spelled: they have several characters each, and no transformer reads them."""
    paired: bool = False
    """Whether tokens are looked up with their neighbours: they are single characters, and no transformer reads them."""
    vector_size: int | None = None
    """The width of the word vectors that were read from a file."""
    scheme: Scheme | None = None
    """The scheme of the labels."""
    learned: Scheme | None = None
    """The scheme that is learned."""
    longest: int | None = None
    """The tokens of the longest span."""
    sentences: int = 1024
    """How many there are; if they are streamed, many."""


def resolved(config: NeuralConfig, facts: Facts = Facts()) -> NeuralConfig:  # noqa: B008 - it is immutable
    """The configuration with a value for everything that was left unset, which depends on the rest and on the data."""
    encoder, training = config.encoder, config.training
    pretrained = encoder.transformer is not None
    tuned = pretrained and encoder.pretrained.freeze != "all"
    size = _given(facts.vector_size, 0 if pretrained else 100)
    extra = 0 if facts.vector_size is None else usual_count(facts.vector_size)
    rate = training.learning_rate or (5e-5 if tuned else training.peak)
    return replace(
        config,
        scheme=config.scheme if facts.scheme is None else facts.scheme.value.lower(),
        learn_scheme=config.learn_scheme if facts.learned is None else facts.learned.value.lower(),
        longest=config.longest or min(max(facts.longest or _USUAL_TOKENS, 3), _USUAL_TOKENS),
        encoder=replace(
            encoder,
            words=replace(
                encoder.words,
                size=_given(encoder.words.size, size),
                extra=_given(encoder.words.extra, extra),
                unknown=_given(encoder.words.unknown, 0.0 if facts.vector_size else 0.1),
                rare=_given(encoder.words.rare, 3.0 if facts.vector_size else 0.0),
                soft_lexicon=_given(encoder.words.soft_lexicon, 64 if facts.paired and facts.vector_size else 0),
            ),
            characters=replace(
                encoder.characters, kind=encoder.characters.kind or ("cnn" if facts.spelled else "none")
            ),
            pairs=_given(encoder.pairs, 32 if facts.paired else 0),
            hidden=_given(encoder.hidden, 0 if pretrained and encoder.pretrained.bilstm == "after" else 192),
            locked_dropout=_given(encoder.locked_dropout, 0.1 if pretrained else 0.3),
        ),
        training=replace(
            training,
            learning_rate=rate,
            batch_size=_given(training.batch_size, usual_batch_size(facts.sentences)),
            head_learning_rate=training.head_learning_rate or (1e-3 if tuned else rate),
            epochs=_given(training.epochs, 5 if tuned else _CHARACTER_EPOCHS if facts.paired else training.passes),
        ),
    )


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
