"""The network that a configuration and a vocabulary describe as a torch module: encoder, emission layer, head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis import chain
from trellis.arrays import AnyArray, Float32Array, IntArray
from trellis.errors import ConfigError, StoreError
from trellis.models.data import tokens_of
from trellis.models.neural.config import EncoderSettings, NeuralConfig
from trellis.models.neural.plan import (
    PRETRAINED,
    SMALL,
    TRANSFORMER,
    VECTORS,
    WEIGHTS,
    CharacterPlan,
    LexiconPlan,
    PartPlan,
    TableSize,
    Weights,
    WordPlan,
    by_length,
    gathered,
    legal_steps,
    parts_of,
)
from trellis.models.neural.vocabulary import PLACES, EncodedSentences, Vocabulary
from trellis.nn.characters import CharacterCNN, CharacterLSTM, CharacterPart
from trellis.nn.encoder import (
    Around,
    Batch,
    Characters,
    Encoder,
    LexiconPart,
    LookupPart,
    Part,
    WordPart,
    has_joined_loss,
    joined_loss,
)
from trellis.nn.heads import BilinearEdges, CRFHead, Head, SegmentStates, SemiCRFHead, SoftmaxHead
from trellis.nn.lstm import Packing, one_thread
from trellis.nn.transformer import FeatureCache, PretrainedPart, TransformerEncoder, blueprint, check_state
from trellis.store import Stored
from trellis.symbols import FIRST, PADDING
from trellis.tags import Role, StateMap


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
        return self.emission.weight.device

    @property
    def transformer(self) -> TransformerEncoder | None:
        part = dict(self.encoder.parts.items()).get("transformer")
        return part.transformer if isinstance(part, PretrainedPart) else None

    def encode(self, vocabulary: Vocabulary, inputs: Sequence[Any], *, cache: str | None = None) -> EncodedSentences:
        """Sentences as numbers; a frozen transformer's features are kept in the folder `cache`, if one is given."""
        encoded, transformer = vocabulary.encode(inputs), self.transformer
        if transformer is None:
            return encoded
        tokens = [list(tokens_of(item)) for item in inputs]
        if cache is not None:
            return replace(encoded, pretrained=FeatureCache(cache).features(transformer, tokens).batch)
        subwords = transformer.encode(tokens)
        return replace(encoded, pretrained=partial(transformer.batch, subwords), subwords=subwords)

    def batch(self, inputs: EncodedSentences, examples: IntArray, *, of_words: bool = False) -> Batch:
        """The sentences with these numbers as input of the encoder, on its device; see `EncodedSentences`."""
        ids = inputs.token_ids(examples, self.parts, of_words=of_words)

        def tensor(values: IntArray | None) -> Tensor | None:
            return None if values is None else torch.from_numpy(values)

        characters = None
        if ids.spelt is not None:
            index = np.arange(len(ids.word)) if ids.spelt_index is None else ids.spelt_index
            characters = Characters(torch.from_numpy(ids.spelt.padded()), torch.from_numpy(index))
        return Batch(
            Packing.of(ids.lengths),
            torch.from_numpy(ids.word),
            torch.from_numpy(ids.vector),
            tensor(ids.case),
            {name: torch.from_numpy(values) for name, values in ids.columns.items()},
            characters,
            tensor(ids.pairs),
            None if inputs.pretrained is None else inputs.pretrained(examples),
            tensor(ids.index),
            None if (a := ids.around) is None else Around(*map(torch.from_numpy, (a.slots, a.vector, a.share))),
        ).to(self.device)

    def forward(self, batch: Batch) -> Tensor:
        return self.scores(batch)[0]

    def scores(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Emissions ``(N, L)``, and scores of transitions by place ``(P, L, L)`` if the network has them."""
        features = self.encoder(batch)
        edges = None if self.edges is None else self.edges(features, batch.packing.lengths)
        return self.emission(features).float(), edges

    def chain_scores(self, inputs: EncodedSentences) -> chain.ChainScores:
        """The scores of encoded sentences, from which every answer comes: batches of similar length on all cores."""
        self.eval()
        device, of_words, head = self.device, self.encoder.of_words, self.head

        def answer(examples: IntArray) -> tuple[AnyArray, AnyArray | None]:
            with torch.inference_mode():
                scores, edges = self.scores(self.batch(inputs, examples, of_words=of_words))
            return scores.cpu().numpy(), None if edges is None else edges.cpu().numpy()

        if inputs.subwords is not None:  # a transformer takes most of the time, and it does compute on padding
            batches = inputs.subwords.by_length(device.type)
        else:
            batches = by_length(inputs, torch.get_num_threads())
        workers = min(torch.get_num_threads(), len(batches)) if device.type == "cpu" else 1
        small = workers < 2 and int(inputs.lengths.sum()) <= SMALL and inputs.subwords is None
        with one_thread() if small else nullcontext():
            emissions, edges = gathered(
                answer,
                inputs,
                head.num_scores,
                self.edges is not None,
                batches,
                workers,
                partial(torch.set_num_threads, 1),
            )
        return head.answers(emissions, inputs.lengths, edges)

    def joined_loss(self, batch: Batch, tags: Tensor) -> Tensor | None:
        """The summed loss of the sentences in one node of the graph; None if the network is of another kind."""
        joins = isinstance(self.head, CRFHead) and self.edges is None and has_joined_loss(self.encoder, self.emission)
        if not joins or not len(tags):
            return None
        assert isinstance(self.head, CRFHead)
        return joined_loss(self.encoder, self.emission, self.head.crf, batch, tags)


def build(
    config: NeuralConfig,
    vocabulary: Vocabulary,
    states: StateMap,
    vectors: Float32Array | None = None,
    transformer: TransformerEncoder | None = None,
    *,
    empty: bool = False,
) -> Network:
    """The network that a resolved configuration describes, its first weights drawn from torch's generator.

    An `empty` one has shapes in place of weights, on torch's meta device: nothing is drawn that a file has. The
    transformer is used unchanged, and so is the head, which contains the constraints that no file has.
    """
    head = _head(config, states) if empty else None
    with torch.device("meta") if empty else nullcontext():
        encoder = _encoder(config.encoder, vocabulary, vectors, transformer)
        words = encoder.parts["words"] if vectors is not None and "words" in encoder.parts else None
        if isinstance(words, WordPart) and not empty:
            rows = vocabulary.kinds(vocabulary.words.names).vector
            words.begin_at_vectors(np.concatenate([np.ones(FIRST, dtype=np.bool_), rows != PADDING]))
        return Network(encoder, head or _head(config, states), config.edges)


def _encoder(
    settings: EncoderSettings,
    vocabulary: Vocabulary,
    vectors: Float32Array | None,
    transformer: TransformerEncoder | None,
) -> Encoder:
    hidden, locked_dropout = settings.hidden, settings.locked_dropout
    assert hidden is not None
    assert locked_dropout is not None
    parts: dict[str, Part] = {}
    before_pooling = settings.pretrained.bilstm == "before"
    if transformer is not None:
        lstm: dict[str, Any] = {"hidden": hidden, "layers": settings.layers, "dropout": locked_dropout}
        parts["transformer"] = PretrainedPart(transformer, **(lstm if before_pooling else {}))
    shape = None if vectors is None else TableSize(*vectors.shape)
    for name, plan in parts_of(settings, vocabulary, shape).items():
        parts[name] = _part(plan, settings, vectors, parts)
    if not parts:
        raise ConfigError("the encoder has no part: give it words, characters, a transformer or columns")
    return Encoder(
        parts,
        hidden=0 if before_pooling else hidden,
        layers=settings.layers,
        dropout=settings.dropout,
        locked_dropout=locked_dropout,
        token_dropout=settings.word_dropout,
    )


def _part(plan: PartPlan, settings: EncoderSettings, vectors: Float32Array | None, before: Mapping[str, Part]) -> Part:
    if isinstance(plan, LexiconPlan):
        words = before["words"]
        assert isinstance(words, WordPart)
        return LexiconPart(words, PLACES, plan.output_size)
    if isinstance(plan, WordPlan):
        rows = FIRST if plan.learnt is None else plan.learnt.rows
        learnt, unknown = plan.learnt is not None, settings.words.unknown or 0.0
        return WordPart(rows, plan.output_size, vectors=vectors, learnt=learnt, unknown=unknown)
    if isinstance(plan, CharacterPlan):
        sizes, dropout = (*plan.characters, plan.output_size), settings.characters.dropout
        if plan.widths:
            return CharacterPart(CharacterCNN(*sizes, widths=plan.widths, dropout=dropout))
        return CharacterPart(CharacterLSTM(*sizes, dropout=dropout))
    unknown = settings.pair_unknown if plan.of == "pairs" else 0.0
    return LookupPart(plan.of, *plan.table, column=plan.column, unknown=unknown)


def load_transformer(settings: EncoderSettings) -> TransformerEncoder | None:
    """The transformer that the settings name, as pretrained."""
    if settings.transformer is None:
        return None
    pretrained = settings.pretrained
    return TransformerEncoder.load(
        settings.transformer,
        pooling=pretrained.pooling,
        mix_layers=pretrained.mix,
        freeze=pretrained.freeze,
        checkpointing=pretrained.checkpointing,
    )


def _head(config: NeuralConfig, states: StateMap) -> Head:
    if config.head == "semicrf":
        assert config.longest is not None
        return SemiCRFHead(len(states), segment_states(states), config.longest, config.boundaries)
    allowed = legal_steps(config, states)
    legal = None if allowed is None else tuple(torch.from_numpy(mask) for mask in allowed)
    head = CRFHead if config.head == "crf" else SoftmaxHead
    return head(len(states), legal)  # type: ignore[arg-type]


def segment_states(states: StateMap) -> SegmentStates:
    """The state of each token of a span, by type; outside is a type of its own."""
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


def with_weights(config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, weights: Weights) -> Network:
    """The module of a network with a plan, whose weights were checked against it."""
    with torch.random.fork_rng():
        network = build(config, vocabulary, states, weights.get(VECTORS), empty=True)
    return _filled(network, weights)


def checked(
    config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, vectors: Float32Array | None, stored: Stored
) -> Network:
    """The module that the settings of a file describe; memory is taken only for what the file has arrays for."""

    def arrays(prefix: str) -> Weights:
        return {name.removeprefix(prefix): a for name, a in stored.arrays.items() if name.startswith(prefix)}

    try:
        with torch.random.fork_rng():
            transformer, description = None, stored.manifest.optional_table("transformer")
            if description is not None:
                transformer = TransformerEncoder.from_arrays(
                    arrays(TRANSFORMER), description.values, where=stored.where
                )
            make = partial(build, config, vocabulary, states, vectors, transformer, empty=True)
            network = blueprint(make, len(stored.arrays), stored.where)
    except ConfigError as error:
        raise StoreError(f"{stored.where}: the saved settings make no network: {error}") from None
    check_state(network.state_dict(), stored, WEIGHTS, left_out=PRETRAINED)
    return _filled(network, arrays(WEIGHTS))


def _filled(network: Network, weights: Weights) -> Network:
    """The network with weights that fit, where there is most room to compute; a transformer has its own."""
    # The encoder's weights have no memory yet: they become these tensors.
    state = {name: torch.tensor(array) for name, array in weights.items()}
    network.load_state_dict(state, strict=False, assign=True)
    return network.to("cuda" if torch.cuda.is_available() else "cpu")
