"""A network without a transformer: what it is made of, and how the native kernels compute it, without torch.

    parts side by side -> BiLSTM layers -> an emission for each label -> head

A `Plan` is the one description that training, tagging and exporting follow. It has no weights, and costs no memory
whatever a file's settings say. `Plan.shapes` names the weights that it needs as files name them, so that those of a
file can be checked before anything is computed with them.

The layers of an `Inference` are made of the weights of the torch modules in `trellis.nn`, and give the same numbers up
to rounding. A row of their results depends on its own row or sequence only: it has the same bits in any batch, on any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from trellis import _native, chain
from trellis.arrays import AnyArray, Float32Array, FloatArray, IntArray, plain_array
from trellis.errors import ConfigError
from trellis.models.neural.config import EncoderSettings, NeuralConfig
from trellis.models.neural.vocabulary import CASES, PLACES, EncodedSentences, Spelt, TokenIds, Vocabulary
from trellis.ragged import later_tokens, offsets_of, ranges
from trellis.symbols import FIRST, PADDING
from trellis.tags import AllowedTransitions, Scheme, StateMap

WEIGHTS, TRANSFORMER = "weights.", "transformer."
"""What the names of a network's arrays begin with in a file, and of those of its transformer, which are apart."""
PRETRAINED = "encoder.parts.transformer.transformer."
"""What the names of a transformer's weights begin with in the network."""
VECTORS = "encoder.parts.words.vectors.weight"
Shapes = Iterator[tuple[str, tuple[int, ...]]]
Weights = Mapping[str, Float32Array]
"""The weights by their names in the network."""
_LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_MOST_LABELS = 4096  # of a softmax: its table of legal transitions is (L, L), and a file has no array of that size
_LARGEST_TABLE = 1 << 22  # numbers of a table that is worth keeping: 16 MB
SMALL = 256
"""Tokens that are not worth a second thread."""
_FEWEST, _MOST = 1024, 8192  # tokens of a batch: larger ones share more words; beyond, a CPU gains nothing
Features = Callable[[TokenIds, int], Float32Array]
"""The features of each row by one part of the encoder, on so many threads."""
Answer = Callable[[IntArray], tuple[AnyArray, AnyArray | None]]
"""Emissions ``(N, L)`` of the sentences with these numbers, and scores of their transitions by place, or None."""


class TableSize(NamedTuple):
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
        table = self.learnt or self.vectors
        assert table is not None
        return table.size

    def features(self, weights: Weights, name: str) -> Features:
        """The features of the part, with the weights that begin with `name`."""
        learnt = weights[f"{name}.learnt.weight"] if self.learnt else None
        vectors = weights[f"{name}.vectors.weight"] if self.vectors else None

        def looked_up(tokens: TokenIds, threads: int) -> Float32Array:
            if learnt is None:
                assert vectors is not None
                return vectors[tokens.vector]
            rows: Float32Array = learnt[tokens.word]
            if vectors is not None:
                rows += vectors[tokens.vector]
            return rows

        return looked_up

    def shapes(self) -> Shapes:
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

    def features(self, weights: Weights, name: str) -> Features:
        module = f"{name}.module"
        read = CharacterCNN(weights, module, self.widths) if self.widths else CharacterLSTM(weights, module)

        def spelt(tokens: TokenIds, threads: int) -> Float32Array:
            assert tokens.spelt is not None
            by_word = read(tokens.spelt, threads)
            return by_word if tokens.spelt_index is None else by_word[tokens.spelt_index]

        return spelt

    def shapes(self) -> Shapes:
        yield "module.embedding.weight", self.characters
        if not self.widths:
            yield from _lstm_shapes("module.lstm", self.characters.size, self.output_size // 2)
            return
        share, rest = divmod(self.output_size, len(self.widths))  # how many filters each width has
        for number, width in enumerate(self.widths):
            count = share + (number < rest)
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
        return self.table.size * (2 if self.of == "pairs" else 1)

    def features(self, weights: Weights, name: str) -> Features:
        table = weights[f"{name}.embedding.weight"]

        def looked_up(tokens: TokenIds, threads: int) -> Float32Array:
            ids = self.ids(tokens)
            return table[ids].reshape(len(ids), self.output_size)

        return looked_up

    def ids(self, tokens: TokenIds) -> IntArray:
        """The ids to look up, ``(N,)``, for pairs ``(N, 2)``."""
        ids: IntArray = tokens.columns[self.column] if self.of == "column" else getattr(tokens, self.of)
        return ids

    def shapes(self) -> Shapes:
        yield "embedding.weight", self.table


@dataclass(frozen=True)
class LexiconPlan:
    """A projection of the weighted vectors of the words that begin, go on, end or stand at a token."""

    vectors: TableSize
    output_size: int
    of_words = False

    def features(self, weights: Weights, name: str) -> Features:
        table, project = weights[VECTORS], Dense(weights[f"{name}.projection.weight"])

        def weighted(tokens: TokenIds, threads: int) -> Float32Array:
            around = tokens.around
            assert around is not None
            rows = np.zeros((PLACES * len(tokens.word), table.shape[1]), np.float32)
            slots = around.slots
            starts = np.flatnonzero(np.diff(slots, prepend=-1))
            if len(starts):
                rows[slots[starts]] = np.add.reduceat(table[around.vector] * around.share[:, None], starts)
            return project(rows.reshape(len(tokens.word), -1), threads)

        return weighted

    def shapes(self) -> Shapes:
        yield "projection.weight", (self.output_size, PLACES * self.vectors.size)


PartPlan = WordPlan | CharacterPlan | LookupPlan | LexiconPlan


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
        """Features that all parts give a token."""
        return sum(part.output_size for part in self.parts.values())

    def shapes(self) -> Shapes:
        """Names and shapes of all weights, as files name them."""
        for name, part in self.parts.items():
            yield from ((f"encoder.parts.{name}.{weight}", shape) for weight, shape in part.shapes())
        for layer in range(self.layers if self.hidden else 0):
            yield from _lstm_shapes(
                f"encoder.lstm.layers.{layer}", self.hidden if layer else self.width, self.hidden // 2
            )
        size, L = self.hidden or self.width, self.labels
        yield from _linear_shapes("emission", size, L)
        if self.learned_transitions:
            yield from (("head.crf.start_transitions", (L,)), ("head.crf.end_transitions", (L,)))
            yield "head.crf.transitions", (L, L)
        if self.edges:
            yield "edges.weight", (L, L, self.edges)
            yield from _linear_shapes("edges.left", size, self.edges)
            yield from _linear_shapes("edges.right", size, self.edges)


def _linear_shapes(name: str, inputs: int, outputs: int) -> Shapes:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _lstm_shapes(name: str, inputs: int, H: int) -> Shapes:
    shapes = ((4 * H, inputs), (4 * H, H), (4 * H,), (4 * H,))
    for way in ("", "_reverse"):
        yield from ((f"{name}.{kind}_l0{way}", shape) for kind, shape in zip(_LSTM, shapes, strict=True))


def lstm_weights(weights: Weights, name: str) -> list[list[Float32Array]]:
    """Weights of the inputs, of the states, and both biases of a bidirectional layer, each forward and backward."""
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
        if settings.words.soft_lexicon and vocabulary.counts is not None and vectors is not None:
            parts["lexicon"] = LexiconPlan(vectors, settings.words.soft_lexicon)
    if len(vocabulary.characters) > FIRST:
        characters = settings.characters
        widths = () if characters.kind == "lstm" else characters.widths
        if not widths and characters.output % 2:
            raise ConfigError(
                f"encoder.characters.output must be even, half of it for each direction, got {characters.output}"
            )
        if characters.output < len(widths):
            least = f"at least {len(widths)}, one filter per width"
            raise ConfigError(f"encoder.characters.output must be {least}, got {characters.output}")
        table = TableSize(len(vocabulary.characters), characters.size)
        parts["characters"] = CharacterPlan(table, characters.output, widths)
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


def legal_steps(config: NeuralConfig, states: StateMap) -> AllowedTransitions | None:
    """The transitions that the head's chain allows; None if it allows all."""
    if config.head == "softmax" and len(states) > _MOST_LABELS:
        raise ConfigError(f"a softmax takes at most {_MOST_LABELS} labels, got {len(states)}")
    free = config.head == "softmax" and config.decoding != "legal"
    constrained = config.constraints and states.scheme is not Scheme.PLAIN and not free
    return states.allowed_transitions() if constrained else None


def _single(values: AnyArray) -> Float32Array:
    """Numbers as kernels expect them."""
    return plain_array(values, np.float32)


class Dense:
    """``x W^T + b`` for many rows at once."""

    def __init__(self, weight: Float32Array, bias: Float32Array | None = None) -> None:
        self._size = len(weight)
        self._native = _native.StoredDense(
            _single(weight), np.zeros(self._size, np.float32) if bias is None else _single(bias)
        )

    def __call__(self, rows: Float32Array, threads: int) -> Float32Array:
        """``(N, K)`` to ``(N, M)``."""
        out = np.empty((len(rows), self._size), np.float32)
        self._native.apply(_single(rows), threads, out)
        return out


class BiLSTM:
    """A bidirectional layer, of the weights that begin with `name`."""

    def __init__(self, weights: Weights, name: str) -> None:
        inward, recurrent, bias_inward, bias_recurrent = lstm_weights(weights, name)
        self._size = 2 * recurrent[0].shape[1]
        bias = np.concatenate(bias_inward) + np.concatenate(bias_recurrent)
        arrays = (np.concatenate(inward), bias, np.stack(recurrent))
        self._native = _native.StoredLstm(*map(_single, arrays))

    def __call__(
        self, features: Float32Array, lengths: IntArray, threads: int, index: IntArray | None = None
    ) -> Float32Array:
        """States ``(N, 2 H)`` for inputs ``(N, D)``, or for rows that tokens share and ``index[N]``."""
        states = np.empty((len(features) if index is None else len(index), self._size), np.float32)
        self._native.run(_single(features), index, lengths, threads, states)
        return states


class CharacterCNN:
    """Convolutions over the characters of a word, then the largest value of each filter.

    What each character adds to each filter at each place of its window is looked up in a table, which is made once, or
    for the characters of a batch if all of them would take too much memory.
    """

    def __init__(self, weights: Weights, name: str, widths: Sequence[int]) -> None:
        self._vectors = _single(weights[f"{name}.embedding.weight"])
        self._biases = [weights[f"{name}.filters.{i}.bias"] for i in range(len(widths))]
        self._filters = []  # (width, F, size of a character) for each width
        for i, width in enumerate(widths):
            weight = weights[f"{name}.filters.{i}.weight"]
            self._filters.append(weight.reshape(len(weight), width, self._vectors.shape[1]).transpose(1, 0, 2))
        size = len(self._vectors) * sum(filters.shape[0] * filters.shape[1] for filters in self._filters)
        self._tables = self._tables_of(self._vectors) if size <= _LARGEST_TABLE else None

    def _tables_of(self, vectors: Float32Array) -> list[Float32Array]:
        """``(width, characters, F)`` for each width."""
        return [np.stack([Dense(place)(vectors, 1) for place in filters]) for filters in self._filters]

    def __call__(self, words: Spelt, threads: int) -> Float32Array:
        """One row per word, ``(W, output_size)``."""
        tables, characters = self._tables, words.characters
        if tables is None:
            present, index = np.unique(characters, return_inverse=True)
            tables, characters = self._tables_of(self._vectors[present]), index.reshape(-1)
        values = []
        for table, bias in zip(tables, self._biases, strict=True):
            largest = np.empty((len(words.offsets) - 1, table.shape[2]), np.float32)
            known = _native.spell(characters, words.offsets, table, threads, largest)
            assert known
            values.append(np.tanh(largest + bias))
        return values[0] if len(values) == 1 else np.concatenate(values, axis=1)


class CharacterLSTM:
    """The last states of two LSTMs that read the characters of a word, one forward and one backward."""

    def __init__(self, weights: Weights, name: str) -> None:
        self._vectors = weights[f"{name}.embedding.weight"]
        self._lstm = BiLSTM(weights, f"{name}.lstm")

    def __call__(self, words: Spelt, threads: int) -> Float32Array:
        """``(W, output_size)``; a word without characters is read as one place of padding."""
        lengths, characters = np.diff(words.offsets), words.characters
        empty = words.offsets[:-1][lengths == 0]
        if len(empty):
            characters, lengths = np.insert(characters, empty, PADDING), np.maximum(lengths, 1)
        states = self._lstm(self._vectors[characters], lengths, threads)
        offsets, half = offsets_of(lengths), states.shape[1] // 2
        return np.concatenate([states[offsets[1:] - 1, :half], states[offsets[:-1], half:]], axis=1)


class Inference:
    """A plan with its weights, which must have the shapes that it names."""

    def __init__(self, plan: Plan, weights: Weights) -> None:
        self.plan = plan
        self._parts = [part.features(weights, f"encoder.parts.{name}") for name, part in plan.parts.items()]
        layers = range(plan.layers if plan.hidden else 0)
        self._lstm = [BiLSTM(weights, f"encoder.lstm.layers.{i}") for i in layers]
        self._emission = _linear(weights, "emission")
        self._edges = _Edges(weights) if plan.edges else None
        names = ("transitions", "start_transitions", "end_transitions")
        L = plan.labels
        if plan.learned_transitions:
            scores = [weights[f"head.crf.{name}"] for name in names]
        else:
            scores = [np.zeros(shape, np.float32) for shape in ((L, L), (L,), (L,))]
        if plan.legal is not None:
            scores = [np.where(mask, x, np.float32(-np.inf)) for x, mask in zip(scores, plan.legal, strict=True)]
        self.chain = scores[0], scores[1], scores[2]
        """Transitions, start and end; minus infinity where something is not allowed."""

    def scores(self, tokens: TokenIds, threads: int) -> tuple[Float32Array, Float32Array | None]:
        """Emissions ``(N, L)``, and scores of transitions by place ``(P, L, L)`` if the network has them."""
        parts = [part(tokens, threads) for part in self._parts]
        features = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        index = tokens.index
        if index is not None and not self._lstm:
            features, index = features[index], None
        for layer in self._lstm:
            features, index = layer(features, tokens.lengths, threads, index), None
        edges = None if self._edges is None else self._edges(features, tokens, threads)
        return self._emission(features, threads), edges

    def chain_scores(self, inputs: EncodedSentences) -> chain.ChainScores:
        """The scores of encoded sentences, from which every answer comes: batches of similar length on all cores."""
        threads, plan = chain.get_num_threads(), self.plan
        batches = by_length(inputs, threads)
        workers = min(threads, len(batches))
        inside = 1 if workers > 1 or int(inputs.lengths.sum()) <= SMALL else threads

        def answer(examples: IntArray) -> tuple[AnyArray, AnyArray | None]:
            return self.scores(inputs.token_ids(examples, plan.parts, of_words=plan.of_words), inside)

        emissions, edges = gathered(answer, inputs, plan.labels, bool(plan.edges), batches, workers)
        return chain.ChainScores(emissions, inputs.lengths, *self.chain, edges)


def _linear(weights: Weights, name: str) -> Dense:
    return Dense(weights[f"{name}.weight"], weights[f"{name}.bias"])


class _Edges:
    """``edges[p, i, j] = sum_k W[i, j, k] * (U h[t-1])[k] * (V h[t])[k]``, p: the pair of tokens t - 1 and t."""

    def __init__(self, weights: Weights) -> None:
        self._left, self._right = _linear(weights, "edges.left"), _linear(weights, "edges.right")
        self._shape = weights["edges.weight"].shape
        self._weight = Dense(weights["edges.weight"].reshape(-1, self._shape[2]))

    def __call__(self, features: Float32Array, tokens: TokenIds, threads: int) -> Float32Array:
        later = later_tokens(tokens.lengths)
        products = self._left(features, threads)[later - 1] * self._right(features, threads)[later]
        return self._weight(products, threads).reshape(-1, *self._shape[:2])


def gathered(
    answer: Answer,
    inputs: EncodedSentences,
    L: int,
    edges: bool,
    batches: Sequence[IntArray],
    workers: int,
    prepare: Callable[[], None] | None = None,
) -> tuple[FloatArray, FloatArray | None]:
    """``(N, L)`` for all tokens, in order, and ``(P, L, L)`` for all pairs of neighbours if `edges` are wanted.

    They are double, so that probabilities add up as they do for every tagger. Several workers are threads; each of them
    calls `prepare` first.
    """
    result = np.empty((int(inputs.lengths.sum()), L))
    steps = np.empty((len(later_tokens(inputs.lengths)), L, L)) if edges else None
    pairs = np.maximum(inputs.lengths - 1, 0)
    first_pairs = np.cumsum(pairs) - pairs

    def fill(examples: IntArray) -> None:
        emissions, edge_scores = answer(examples)
        result[inputs.rows(examples)] = emissions
        if steps is not None and edge_scores is not None:
            steps[ranges(first_pairs[examples], pairs[examples])] = edge_scores

    if workers < 2:
        for examples in batches:
            fill(examples)
        return result, steps
    # One small batch does not keep several cores busy; several batches at a time do.
    with ThreadPoolExecutor(workers, initializer=prepare) as pool:
        try:
            list(pool.map(fill, batches))
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            for examples in batches:  # the system starts no more threads
                fill(examples)
    return result, steps


def by_length(inputs: EncodedSentences, threads: int) -> list[IntArray]:
    """Sentences of similar length together, longest first."""
    order = np.argsort(-inputs.lengths, kind="stable")
    tokens = np.cumsum(inputs.lengths[order])
    share = int(tokens[-1]) // (2 * threads) if len(tokens) else 0  # at least two batches per core
    cuts = np.flatnonzero(np.diff(tokens // min(max(share, _FEWEST), _MOST))) + 1
    return [batch for batch in np.split(order, cuts) if len(batch)]
