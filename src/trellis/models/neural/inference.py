"""What a network with a plan computes once it has learned: tokens to scores, on the native kernels, without torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trellis.arrays import AnyArray, BoolArray, Float32Array
from trellis.models.neural.inputs import TokenIds
from trellis.models.neural.layers import BiLSTM, CharacterCNN, CharacterLSTM, Dense, Weights
from trellis.models.neural.plan import CharacterPlan, LookupPlan, PartPlan, Plan, WordPlan
from trellis.ragged import later_tokens

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


def _linear(weights: Weights, name: str) -> Dense:
    return Dense(weights[f"{name}.weight"], weights[f"{name}.bias"])


def _part(plan: PartPlan, weights: Weights, name: str) -> Features:
    if isinstance(plan, WordPlan):
        return _words(plan, weights, name)
    if isinstance(plan, CharacterPlan):
        return _characters(plan, weights, name)
    table = weights[f"{name}.embedding.weight"]

    def looked_up(tokens: TokenIds, threads: int) -> Float32Array:
        ids = _ids(plan, tokens)
        return table[ids].reshape(len(ids), plan.output_size)

    return looked_up


def _ids(plan: LookupPlan, tokens: TokenIds) -> AnyArray:
    """What a part looks up: ``(N,)``, pairs ``(N, 2)``."""
    found = {"pairs": tokens.pairs, "case": tokens.case, "column": tokens.columns.get(plan.column)}[plan.of]
    assert found is not None
    return found


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
