"""The network that a configuration and a vocabulary describe: encoder, emission layer, head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.arrays import Float32Array
from trellis.errors import ConfigError
from trellis.models.data import tokens_of
from trellis.models.neural.config import CharacterSettings, EncoderSettings, NeuralConfig, WordSettings
from trellis.models.neural.inputs import CASES, FIRST, EncodedSentences
from trellis.models.neural.vocabulary import Vocabulary
from trellis.nn.characters import CharacterCNN, CharacterLSTM
from trellis.nn.dropout import PADDING
from trellis.nn.edges import BilinearEdges
from trellis.nn.encoder import Batch, Encoder, Part
from trellis.nn.feature_cache import FeatureCache
from trellis.nn.heads import CRFHead, Head, SoftmaxHead
from trellis.nn.parts import CasePart, CharacterPart, ColumnPart, PairPart, PretrainedPart, WordPart
from trellis.nn.segment_head import SegmentStates, SemiCRFHead
from trellis.nn.transformer import TransformerEncoder
from trellis.tags import Role, Scheme, TagStates

_MOST_LABELS = 4096  # of a softmax: its table of legal transitions is (L, L), and a file has no array of that size


class Network(nn.Module):
    """Tokens of a batch to emissions ``(N, L)``, and the head that knows what to do with them."""

    head: Head

    def __init__(self, encoder: Encoder, head: Head, edges: int = 0) -> None:
        super().__init__()
        self.parts = frozenset(encoder.parts)
        self.encoder = encoder
        self.emission = nn.Linear(encoder.output_size, head.num_scores)
        self.head = head
        self.edges = BilinearEdges(encoder.output_size, head.num_tags, edges) if edges else None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.emission.weight.device

    @property
    def transformer(self) -> TransformerEncoder | None:
        """The pretrained part of the encoder, if there is one."""
        part = dict(self.encoder.parts.items()).get("transformer")
        return part.transformer if isinstance(part, PretrainedPart) else None

    def encode(self, vocabulary: Vocabulary, inputs: Sequence[Any], *, cache: str | None = None) -> EncodedSentences:
        """Sentences as numbers; a frozen transformer's features are kept in the folder `cache`, if one is given."""
        encoded = vocabulary.encode(inputs)
        transformer = self.transformer
        if transformer is None:
            return encoded
        tokens = [list(tokens_of(item)) for item in inputs]
        if cache is not None:
            return replace(encoded, pretrained=FeatureCache(cache).features(transformer, tokens).batch)
        subwords = transformer.encode(tokens)
        return replace(encoded, pretrained=partial(transformer.batch, subwords), subwords=subwords)

    def forward(self, batch: Batch) -> Tensor:
        """``(N, L)``."""
        return self.scores(batch)[0]

    def scores(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Emissions ``(N, L)``, and scores of transitions by place ``(P, L, L)`` if the network has them."""
        features = self.encoder(batch)
        edges = None if self.edges is None else self.edges(features, batch.packing.lengths)
        return self.emission(features).float(), edges


def build(
    config: NeuralConfig,
    vocabulary: Vocabulary,
    states: TagStates,
    vectors: Float32Array | None = None,
    transformer: TransformerEncoder | None = None,
) -> Network:
    """The network that a resolved configuration describes, its first weights drawn from torch's generator."""
    encoder = _encoder(config.encoder, vocabulary, vectors, transformer)
    words = encoder.parts["words"] if vectors is not None and "words" in encoder.parts else None
    if isinstance(words, WordPart):
        rows = vocabulary.kinds(vocabulary.words.names).vector
        words.begin_at_vectors(np.concatenate([np.ones(FIRST, dtype=np.bool_), rows != PADDING]))
    return Network(encoder, _head(config, states), config.edges)


def build_empty(
    config: NeuralConfig,
    vocabulary: Vocabulary,
    states: TagStates,
    vectors: Float32Array | None = None,
    transformer: TransformerEncoder | None = None,
) -> Network:
    """The same with shapes in place of weights, on torch's meta device: nothing is drawn that a file has.

    The transformer is used unchanged, and so is the head, which contains the constraints that no file has.
    """
    head = _head(config, states)
    with torch.device("meta"):
        return Network(_encoder(config.encoder, vocabulary, vectors, transformer), head, config.edges)


def _encoder(
    settings: EncoderSettings,
    vocabulary: Vocabulary,
    vectors: Float32Array | None,
    transformer: TransformerEncoder | None,
) -> Encoder:
    parts = _parts(settings, vocabulary, vectors, transformer)
    if not parts:
        raise ConfigError("the encoder has no part: give it words, characters, a transformer or columns")
    assert settings.hidden is not None
    assert settings.locked_dropout is not None
    return Encoder(
        parts,
        hidden=0 if settings.pretrained.bilstm == "before" else settings.hidden,
        layers=settings.layers,
        dropout=settings.dropout,
        locked_dropout=settings.locked_dropout,
        token_dropout=settings.word_dropout,
    )


def _parts(
    settings: EncoderSettings,
    vocabulary: Vocabulary,
    vectors: Float32Array | None,
    transformer: TransformerEncoder | None,
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    if transformer is not None:
        parts["transformer"] = _pretrained(settings, transformer)
    word = _words(settings, vocabulary, vectors)
    if word is not None:
        parts["words"] = word
    if len(vocabulary.characters) > FIRST:
        parts["characters"] = CharacterPart(_characters(settings.characters, len(vocabulary.characters)))
    if vocabulary.pairs.names:
        assert settings.pairs is not None
        parts["pairs"] = PairPart(len(vocabulary.pairs), settings.pairs, unknown=settings.pair_unknown)
    if settings.capitalisation:
        parts["case"] = CasePart(FIRST + len(CASES), settings.capitalisation)
    for name, symbols in vocabulary.columns.items():
        parts[f"column {name}".replace(".", " ")] = ColumnPart(name, len(symbols), settings.column_size)
    return parts


def _pretrained(settings: EncoderSettings, transformer: TransformerEncoder) -> PretrainedPart:
    if settings.pretrained.bilstm == "after":
        return PretrainedPart(transformer)
    assert settings.hidden is not None
    assert settings.locked_dropout is not None
    return PretrainedPart(transformer, hidden=settings.hidden, layers=settings.layers, dropout=settings.locked_dropout)


def load_transformer(settings: EncoderSettings) -> TransformerEncoder | None:
    """The transformer that the settings name, as pretrained."""
    if settings.transformer is None:
        return None
    own = settings.pretrained
    return TransformerEncoder.load(
        settings.transformer,
        pooling=own.pooling,
        mix_layers=own.mix,
        freeze=own.freeze,
        checkpointing=own.checkpointing,
    )


def _words(settings: EncoderSettings, vocabulary: Vocabulary, vectors: Float32Array | None) -> WordPart | None:
    own = settings.words
    size = _word_size(own, None if vectors is None else vectors.shape[1])
    if not size:
        return None
    learned = own.tune or vectors is None
    return WordPart(len(vocabulary.words), size, vectors=vectors, learnt=learned, unknown=own.unknown)


def _word_size(settings: WordSettings, width: int | None) -> int:
    assert settings.size is not None
    if width is not None and settings.size not in (width, 0):
        raise ConfigError(f"encoder.words.size is {settings.size}, but the vectors are {width} wide: do not set it")
    return settings.size


def _characters(settings: CharacterSettings, count: int) -> CharacterCNN | CharacterLSTM:
    if settings.kind == "lstm":
        return CharacterLSTM(count, settings.size, settings.output, dropout=settings.dropout)
    return CharacterCNN(count, settings.size, settings.output, widths=settings.widths, dropout=settings.dropout)


def _head(config: NeuralConfig, states: TagStates) -> Head:
    if config.head == "semicrf":
        assert config.longest is not None
        return SemiCRFHead(len(states), segment_states(states), config.longest, config.boundaries)
    if config.head == "softmax" and len(states) > _MOST_LABELS:
        raise ConfigError(f"a softmax takes at most {_MOST_LABELS} labels, got {len(states)}")
    legal = None
    if config.constraints and states.scheme is not Scheme.PLAIN:
        allowed = states.allowed_transitions()
        masks = (allowed.transitions, allowed.start, allowed.end)
        legal = tuple(torch.from_numpy(mask) for mask in masks)
    if config.head == "crf":
        return CRFHead(len(states), legal)  # type: ignore[arg-type]
    return SoftmaxHead(len(states), legal if config.decoding == "legal" else None)  # type: ignore[arg-type]


def segment_states(states: TagStates) -> SegmentStates:
    """Which state each token of a span has, by type; outside is a type of its own."""
    order = {Role.S: 0, Role.B: 1, Role.I: 2, Role.E: 3, Role.O: 0}
    kinds: dict[tuple[bool, str], int] = {}
    places = np.full((len(states), len(order)), -1, dtype=np.int64)
    for state, (label, role) in enumerate(zip(states.labels.tolist(), states.roles.tolist(), strict=True)):
        kind = kinds.setdefault((role == Role.O, states.tags.parsed[label][1]), len(kinds))
        if places[kind, order[Role(role)]] >= 0:
            raise ConfigError(
                f"head = semicrf: in {states.tags.scheme.value}, the labels of a span depend on its neighbours; "
                "convert the labels to bio or bioes first"
            )
        places[kind, order[Role(role)]] = state
    return SegmentStates(places[: len(kinds), :4].copy())
