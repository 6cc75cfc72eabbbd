"""What a neural tagger computes once it has learned: tokens to scores.

A network with a plan answers by the native kernels, and no torch is loaded for it. Its layers are made of the weights
of the torch modules in `trellis.nn`, and give the same numbers up to rounding. A row of their results depends on its
own row or sequence only: it has the same bits in any batch, on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis import _native, chain
from trellis.arrays import AnyArray, BoolArray, Float32Array, FloatArray, IntArray, plain_array
from trellis.errors import ModelError
from trellis.lazy import cached
from trellis.models.neural.plan import CharacterPlan, PartPlan, Plan, Weights, WordPlan, lstm_weights
from trellis.models.neural.vocabulary import EncodedSentences, Spelt, TokenIds, Vocabulary
from trellis.optional import required
from trellis.ragged import later_tokens, offsets_of, ranges
from trellis.symbols import PADDING
from trellis.vectors import Coverage

_LARGEST_TABLE = 1 << 22  # numbers of a table that is worth keeping: 16 MB


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
        """From ``(N, D)``, or from rows that tokens share and ``index[N]``, to ``(N, 2 H)``."""
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
        self._filters = [weights[f"{name}.filters.{i}.weight"] for i in range(len(widths))]
        self._biases = [weights[f"{name}.filters.{i}.bias"] for i in range(len(widths))]
        self._widths = tuple(widths)
        size = len(self._vectors) * sum(w * len(own) for w, own in zip(self._widths, self._filters, strict=True))
        self._tables = self._tables_of(self._vectors) if size <= _LARGEST_TABLE else None

    def _tables_of(self, vectors: Float32Array) -> list[Float32Array]:
        """``(width, characters, F)`` for each width."""
        tables = []
        for width, weight in zip(self._widths, self._filters, strict=True):
            by_place = weight.reshape(len(weight), width, vectors.shape[1]).transpose(1, 0, 2)
            tables.append(np.stack([Dense(own)(vectors, 1) for own in by_place]))
        return tables

    def __call__(self, words: Spelt, threads: int) -> Float32Array:
        """One row per word, ``(W, output_size)``."""
        tables, characters = self._tables, words.characters
        if tables is None:
            own, places = np.unique(characters, return_inverse=True)
            tables, characters = self._tables_of(self._vectors[own]), places.reshape(-1)
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


Features = Callable[[TokenIds, int], Float32Array]
"""What a part gives each row, on so many threads."""


class Inference:
    """A plan with its weights, which must have the shapes that it names."""

    def __init__(self, plan: Plan, weights: Weights) -> None:
        self.plan = plan
        self._parts = [_part(part, weights, f"encoder.parts.{name}") for name, part in plan.parts.items()]
        layers = range(plan.layers if plan.hidden else 0)
        self._lstm = [BiLSTM(weights, f"encoder.lstm.layers.{i}") for i in layers]
        self._emission = _linear(weights, "emission")
        self._edges = _Edges(weights) if plan.edges else None
        self.chain = _chain(plan, weights)
        """Transitions, start and end."""

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


def _part(plan: PartPlan, weights: Weights, name: str) -> Features:
    if isinstance(plan, WordPlan):
        return _words(plan, weights, name)
    if isinstance(plan, CharacterPlan):
        return _characters(plan, weights, name)
    table = weights[f"{name}.embedding.weight"]

    def looked_up(tokens: TokenIds, threads: int) -> Float32Array:
        ids = plan.ids(tokens)
        return table[ids].reshape(len(ids), plan.output_size)

    return looked_up


def _words(plan: WordPlan, weights: Weights, name: str) -> Features:
    learnt = weights[f"{name}.learnt.weight"] if plan.learnt else None
    vectors = weights[f"{name}.vectors.weight"] if plan.vectors else None

    def looked_up(tokens: TokenIds, threads: int) -> Float32Array:
        if learnt is None:
            assert vectors is not None
            return vectors[tokens.vector]
        own: Float32Array = learnt[tokens.word]
        if vectors is not None:
            own += vectors[tokens.vector]
        return own

    return looked_up


def _characters(plan: CharacterPlan, weights: Weights, name: str) -> Features:
    module = f"{name}.module"
    read = CharacterCNN(weights, module, plan.widths) if plan.widths else CharacterLSTM(weights, module)

    def spelt(tokens: TokenIds, threads: int) -> Float32Array:
        assert tokens.spelt is not None
        by_word = read(tokens.spelt, threads)
        return by_word if tokens.spelt_index is None else by_word[tokens.spelt_index]

    return spelt


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


def _chain(plan: Plan, weights: Weights) -> tuple[Float32Array, Float32Array, Float32Array]:
    """Learned scores of a CRF, zeros of a softmax; minus infinity where something is not allowed."""
    L = plan.labels
    names = ("transitions", "start_transitions", "end_transitions")
    if plan.learned_transitions:
        own = [weights[f"head.crf.{name}"] for name in names]
    else:
        own = [np.zeros(shape, np.float32) for shape in ((L, L), (L,), (L,))]
    allowed: tuple[BoolArray | None, ...] = plan.legal or (None, None, None)
    kept = [x if mask is None else np.where(mask, x, np.float32(-np.inf)) for x, mask in zip(own, allowed, strict=True)]
    return kept[0], kept[1], kept[2]


SMALL = 256
"""Tokens that are not worth a second thread."""
_FEWEST, _MOST = 1024, 8192  # tokens of a batch: larger ones share more words; beyond, a CPU gains nothing

Answer = Callable[[IntArray], tuple[AnyArray, AnyArray | None]]
"""Emissions ``(N, L)`` of the sentences with these numbers, and scores of their transitions by place, or None."""


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
        emissions, own = answer(examples)
        result[inputs.rows(examples)] = emissions
        if steps is not None and own is not None:
            steps[ranges(first_pairs[examples], pairs[examples])] = own

    if workers < 2:
        for examples in batches:
            fill(examples)
    else:  # one small batch does not keep several cores busy; several batches at a time do
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
    taken = np.cumsum(inputs.lengths[order])
    share = int(taken[-1]) // (2 * threads) if len(taken) else 0  # at least two batches per core
    cuts = np.flatnonzero(np.diff(taken // min(max(share, _FEWEST), _MOST))) + 1
    return [own for own in np.split(order, cuts) if len(own)]


@dataclass(eq=False)
class LearnedNetwork:
    """A network that answers, and how much of its words the vectors covered."""

    vocabulary: Vocabulary
    plan: Plan | None
    """None: only torch computes it."""
    own_weights: Weights
    """Of the plan; those of the module count once there is one."""
    make: Callable[[], Any]
    """Builds the module."""
    coverage: Coverage | None = None

    @cached
    def network(self) -> Any:
        """The torch module. Whoever asks for it may change it, so from then on it answers, and not the kernels."""
        with required("the torch module of a neural model", "trellis-crf[neural]", ModelError):
            return self.make()

    @cached
    def _inference(self) -> Inference:
        assert self.plan is not None
        return Inference(self.plan, self.own_weights)

    @property
    def _native(self) -> bool:
        return self.plan is not None and "network" not in self.__dict__

    def scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """The scores of sentences, from which every answer comes."""
        if self._native:
            return self._inference.chain_scores(self.vocabulary.encode(inputs))
        scores: chain.ChainScores = self.network.chain_scores(self.network.encode(self.vocabulary, inputs))
        return scores

    @property
    def weights(self) -> Weights:
        """As they are now, by name; those of a transformer included."""
        if self._native:
            return self.own_weights
        state = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return state if self.plan is None else {name: state[name] for name, _ in self.plan.shapes()}
