"""What a network without a transformer is made of: the one description that training, tagging and exporting follow.

    parts side by side -> BiLSTM layers -> an emission for each label -> head

A plan has no weights, and costs no memory whatever a file's settings say. `Plan.shapes` names the weights that it
needs as files name them, so that those of a file can be checked before anything is computed with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trellis.arrays import Float32Array, IntArray
from trellis.errors import ConfigError
from trellis.models.neural.config import CharacterSettings, EncoderSettings, NeuralConfig
from trellis.models.neural.vocabulary import CASES, TokenIds, Vocabulary
from trellis.symbols import FIRST
from trellis.tags import AllowedTransitions, Scheme, StateMap

WEIGHTS, TRANSFORMER = "weights.", "transformer."
"""What the names of a network's arrays begin with in a file, and of those of its transformer, which are apart."""
PRETRAINED = "encoder.parts.transformer.transformer."
"""What the names of a transformer's weights begin with in the network."""
VECTORS = "encoder.parts.words.vectors.weight"
Shapes = Iterator[tuple[str, tuple[int, ...]]]
Weights = Mapping[str, Float32Array]
"""By their names in the network."""
_LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_MOST_LABELS = 4096  # of a softmax: its table of legal transitions is (L, L), and a file has no array of that size


class TableSize(NamedTuple):
    """The size of a table of vectors."""

    rows: int
    size: int


@dataclass(frozen=True)
class WordPlan:
    """A vector for each word: a learned one, one read from a file, or the sum of both."""

    learnt: TableSize | None
    vectors: TableSize | None
    of_words = True

    @property
    def output_size(self) -> int:
        """Of what a token gets."""
        table = self.learnt or self.vectors
        assert table is not None
        return table.size

    def shapes(self) -> Shapes:
        """Names and shapes of the weights."""
        for name, table in (("learnt", self.learnt), ("vectors", self.vectors)):
            if table is not None:
                yield f"{name}.weight", table


@dataclass(frozen=True)
class CharacterPlan:
    """Features of a word's characters: convolutions of these widths, or with none an LSTM."""

    characters: TableSize
    output_size: int
    widths: tuple[int, ...]
    of_words = True

    def filters(self) -> Iterator[tuple[int, int]]:
        """The width of each kind of filter, and how many there are of it."""
        share, rest = divmod(self.output_size, len(self.widths))
        return ((width, share + (number < rest)) for number, width in enumerate(self.widths))

    def shapes(self) -> Shapes:
        """Names and shapes of the weights."""
        yield "module.embedding.weight", self.characters
        if not self.widths:
            yield from _lstm("module.lstm", self.characters.size, self.output_size // 2)
            return
        for number, (width, count) in enumerate(self.filters()):
            yield f"module.filters.{number}.weight", (count, width * self.characters.size)
            yield f"module.filters.{number}.bias", (count,)


@dataclass(frozen=True)
class LookupPlan:
    """One vector, or several side by side, for ids that a token has: its pairs, its case, its value of a column."""

    table: TableSize
    of: Literal["pairs", "case", "column"]
    column: str = ""

    @property
    def of_words(self) -> bool:
        """Whether a token's features depend on its word only, not on its place."""
        return self.of == "case"

    @property
    def output_size(self) -> int:
        """Of what a token gets."""
        return self.table.size * (2 if self.of == "pairs" else 1)

    def ids(self, tokens: TokenIds) -> IntArray:
        """What is looked up for each token: ``(N,)``, for pairs ``(N, 2)``."""
        if self.of == "column":
            return tokens.columns[self.column]
        ids = tokens.pairs if self.of == "pairs" else tokens.case
        assert ids is not None
        return ids

    def shapes(self) -> Shapes:
        """Names and shapes of the weights."""
        yield "embedding.weight", self.table


PartPlan = WordPlan | CharacterPlan | LookupPlan


@dataclass(frozen=True, eq=False)
class Plan:
    """The parts by name, then what comes after them; 0 for what there is not."""

    parts: Mapping[str, PartPlan]
    hidden: int
    layers: int
    labels: int
    edges: int
    learned_transitions: bool
    legal: AllowedTransitions | None
    """What the scheme allows; None if everything is."""

    @property
    def of_words(self) -> bool:
        """Whether every part depends on the word alone."""
        return all(part.of_words for part in self.parts.values())

    @property
    def width(self) -> int:
        """Of what the parts give a token together."""
        return sum(part.output_size for part in self.parts.values())

    def shapes(self) -> Shapes:
        """Names and shapes of all weights, as files name them."""
        for name, part in self.parts.items():
            yield from ((f"encoder.parts.{name}.{own}", shape) for own, shape in part.shapes())
        for layer in range(self.layers if self.hidden else 0):
            yield from _lstm(f"encoder.lstm.layers.{layer}", self.hidden if layer else self.width, self.hidden // 2)
        size, L = self.hidden or self.width, self.labels
        yield from _linear("emission", size, L)
        if self.learned_transitions:
            yield from (("head.crf.start_transitions", (L,)), ("head.crf.end_transitions", (L,)))
            yield "head.crf.transitions", (L, L)
        if self.edges:
            yield "edges.weight", (L, L, self.edges)
            yield from _linear("edges.left", size, self.edges)
            yield from _linear("edges.right", size, self.edges)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _lstm(name: str, inputs: int, H: int) -> Shapes:
    shapes = ((4 * H, inputs), (4 * H, H), (4 * H,), (4 * H,))
    for way in ("", "_reverse"):
        yield from ((f"{name}.{kind}_l0{way}", shape) for kind, shape in zip(_LSTM, shapes, strict=True))


def lstm_weights(weights: Weights, name: str) -> list[list[Float32Array]]:
    """Of the inputs, of the states, and both biases of a bidirectional layer, each forward and backward."""
    return [[weights[f"{name}.{kind}_l0{way}"] for way in ("", "_reverse")] for kind in _LSTM]


def plan_of(
    config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, vectors: TableSize | None = None
) -> Plan | None:
    """The plan of a resolved configuration; None for networks of other kinds, with a transformer or a semi-CRF."""
    if config.encoder.transformer is not None or config.head == "semicrf":
        return None
    parts = parts_of(config.encoder, vocabulary, vectors)
    if not parts:
        raise ConfigError("the encoder has no part: give it words, characters, a transformer or columns")
    assert config.encoder.hidden is not None
    return Plan(
        parts,
        config.encoder.hidden,
        config.encoder.layers,
        len(states),
        config.edges,
        config.head == "crf",
        legal_steps(config, states),
    )


def parts_of(settings: EncoderSettings, vocabulary: Vocabulary, vectors: TableSize | None) -> dict[str, PartPlan]:
    """The parts of an encoder apart from a transformer, in their order."""
    parts: dict[str, PartPlan] = {}
    if settings.words.size:
        if vectors is not None and settings.words.size != vectors.size:
            wide = f"the vectors are {vectors.size} wide: do not set it"
            raise ConfigError(f"encoder.words.size is {settings.words.size}, but {wide}")
        learnt = TableSize(len(vocabulary.words), settings.words.size)
        parts["words"] = WordPlan(learnt if settings.words.tune or vectors is None else None, vectors)
    if len(vocabulary.characters) > FIRST:
        parts["characters"] = _characters(settings.characters, len(vocabulary.characters))
    if vocabulary.pairs.names:
        if not settings.pairs:
            raise ConfigError(f"encoder.pairs must be at least 1 for {len(vocabulary.pairs)} pairs, got 0")
        parts["pairs"] = LookupPlan(TableSize(len(vocabulary.pairs), settings.pairs), "pairs")
    if settings.capitalisation:
        parts["case"] = LookupPlan(TableSize(FIRST + len(CASES), settings.capitalisation), "case")
    for name, symbols in vocabulary.columns.items():
        table = TableSize(len(symbols), settings.column_size)
        parts[f"column {name}".replace(".", " ")] = LookupPlan(table, "column", name)
    return parts


def _characters(settings: CharacterSettings, count: int) -> CharacterPlan:
    table, output = TableSize(count, settings.size), settings.output
    if settings.kind == "lstm":
        if output % 2:
            raise ConfigError(f"encoder.characters.output must be even, half of it for each direction, got {output}")
        return CharacterPlan(table, output, ())
    if output < len(settings.widths):
        least = f"at least {len(settings.widths)}, one filter per width"
        raise ConfigError(f"encoder.characters.output must be {least}, got {output}")
    return CharacterPlan(table, output, settings.widths)


def legal_steps(config: NeuralConfig, states: StateMap) -> AllowedTransitions | None:
    """What the head's chain allows; None if everything is."""
    if config.head == "softmax" and len(states) > _MOST_LABELS:
        raise ConfigError(f"a softmax takes at most {_MOST_LABELS} labels, got {len(states)}")
    free = config.head == "softmax" and config.decoding != "legal"
    constrained = config.constraints and states.scheme is not Scheme.PLAIN and not free
    return states.allowed_transitions() if constrained else None
