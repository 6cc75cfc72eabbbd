"""Networks with a plan answer by the native kernels as their torch modules do, whatever they are made of."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.contract import TRAIN
from tests.models.neural.test_contract import TINY
from trellis import _native, chain, models
from trellis.models import Ensemble, NeuralConfig, NeuralTagger
from trellis.models.neural import plan as layers
from trellis.models.neural.config import Facts, resolved
from trellis.models.neural.network import Network, build
from trellis.models.neural.plan import Inference, Plan, TableSize, gathered, plan_of
from trellis.models.neural.vocabulary import Spelt, TokenCounts, Vocabulary, learn_pairs, learn_vocabulary
from trellis.nn import BiLSTM, CharacterCNN, CharacterLSTM, Packing
from trellis.symbols import Symbols
from trellis.tags import Scheme, StateMap, TagSet
from trellis.text import Sentence

COLUMN = [dataclasses.replace(s, columns={"pos": [w[:1] for w in s.tokens]}) for s in TRAIN]
WORDS = [*{word for s in TRAIN for word in s.tokens}, "Zxqv", "\U0001f600", "中文", "\ud800", "", "a" * 300]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=9), min_size=1, max_size=7)


@st.composite
def configs(draw: Any) -> NeuralConfig:
    """Encoders of every kind, under heads of every kind that has a plan."""
    head = draw(st.sampled_from(["crf", "softmax"]))
    kind = draw(st.sampled_from(["cnn", "lstm", "none"]))
    encoder = {
        "words": {"size": draw(st.integers(1, 9)), "tune": draw(st.booleans())},
        "characters": {
            "kind": kind,
            "size": draw(st.integers(1, 5)),
            "output": 2 * draw(st.integers(2, 9)),
            "widths": draw(st.sampled_from([[3], [1], [2, 4], [7, 3, 1]])),
        },
        "pairs": draw(st.integers(0, 5)),
        "capitalisation": draw(st.sampled_from([0, 3])),
        "columns": draw(st.sampled_from([(), ("pos",)])),
        "hidden": draw(st.sampled_from([0, 2, 14, 34])),
        "layers": draw(st.integers(1, 3)),
    }
    settings = {
        "head": head,
        "decoding": draw(st.sampled_from(["legal", "argmax"])),
        "constraints": draw(st.booleans()),
        "edges": draw(st.sampled_from([0, 3])) if head == "crf" else 0,
        "learn_scheme": draw(st.sampled_from(["data", "bioes"])),
    }
    return NeuralTagger(encoder=encoder, **settings).config


def made(config: NeuralConfig, vectors: bool = False, scale: float = 1.0) -> tuple[Network, Plan, Vocabulary]:
    """A network that has learned nothing; over long sentences, scaled weights would make it chaotic."""
    torch.manual_seed(0)
    own = config.encoder
    vocabulary = learn_vocabulary(TokenCounts.count([COLUMN], own.columns), lower=False, min_freq=1)
    if own.characters.kind == "none":
        vocabulary = dataclasses.replace(vocabulary, characters=Symbols())
    if own.pairs:
        vocabulary = dataclasses.replace(vocabulary, pairs=learn_pairs([[s.tokens for s in COLUMN]], 1))
    table = None
    if vectors:
        vocabulary = dataclasses.replace(vocabulary, vectors=Symbols(("Rome", "in", "absent")))
        table = np.random.default_rng(1).normal(size=(5, own.words.size)).astype(np.float32)
        table[:2] = 0
    tags = TagSet.from_labels({tag for s in TRAIN for tag in s.tags}, Scheme.IOB2, complete=True)
    states = StateMap.of(tags, tags.scheme if config.learn_scheme == "data" else Scheme.BIOES)
    config = resolved(config, Facts(vector_size=None if table is None else table.shape[1]))
    network = build(config, vocabulary, states, table)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    plan = plan_of(config, vocabulary, states, None if table is None else TableSize(*table.shape))
    assert plan is not None
    return network, plan, vocabulary


def weights_of(network: Network) -> dict[str, Any]:
    return {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}


def sentences_with_columns(tokens: list[list[str]]) -> list[Sentence]:
    return [Sentence(own, columns={"pos": [word[:1] or "-" for word in own]}) for own in tokens]


@settings(max_examples=60)
@given(configs(), st.booleans(), SENTENCES)
def test_a_network_of_any_kind_answers_as_its_module(config: NeuralConfig, vectors: bool, given: Any) -> None:
    network, plan, vocabulary = made(config, vectors, 2.0)
    weights = weights_of(network)
    assert dict(plan.shapes()) == {name: array.shape for name, array in weights.items()}
    inputs = sentences_with_columns(given)
    found = Inference(plan, weights).chain_scores(vocabulary.encode(inputs))
    wanted = network.chain_scores(network.encode(vocabulary, inputs))
    np.testing.assert_allclose(found.emissions, wanted.emissions, rtol=1e-5, atol=1e-6)
    for name in ("lengths", "transitions", "start", "end"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    np.testing.assert_allclose(found.marginals().tokens, wanted.marginals().tokens, rtol=0, atol=1e-6)


def test_long_sentences_and_many_of_them_in_the_order_of_the_input() -> None:
    network, plan, vocabulary = made(NeuralTagger(encoder={"hidden": 20, "words": {"size": 8}}).config)
    random = np.random.default_rng(0)
    inputs = [list(random.choice(WORDS, n)) for n in (0, 3000, 1, *random.integers(0, 40, 500))]
    inference = Inference(plan, weights_of(network))
    found = inference.chain_scores(vocabulary.encode(inputs)).emissions
    wanted = network.chain_scores(network.encode(vocabulary, inputs)).emissions
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    alone = [inference.chain_scores(vocabulary.encode([own])).emissions for own in inputs]
    np.testing.assert_array_equal(found, np.concatenate(alone), "the same bits in any batch")


def test_any_number_of_threads_gives_the_same_bits() -> None:
    network, plan, vocabulary = made(NeuralTagger(encoder={"hidden": 20, "words": {"size": 8}}).config)
    random = np.random.default_rng(0)
    inputs = [list(random.choice(WORDS, n)) for n in random.integers(0, 40, 400)]
    inference, encoded, found = Inference(plan, weights_of(network)), vocabulary.encode(inputs), []
    before = chain.get_num_threads()
    try:
        for threads in (1, 2, 5):
            chain.set_num_threads(threads)
            found.append([inference.chain_scores(part).emissions for part in (encoded, vocabulary.encode(inputs[:20]))])
    finally:
        chain.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0][0], other[0])
        np.testing.assert_array_equal(found[0][1], other[1])


class TestLayers:
    @pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
    @pytest.mark.parametrize(("rows", "inputs", "outputs"), [(0, 3, 4), (1, 1, 1), (7, 5, 33), (200, 40, 70)])
    def test_dense_is_a_linear_layer_on_every_instruction_set(self, isa: str, rows: int, inputs: int, outputs: int):
        before = _native.instruction_set()
        if not _native.use_instruction_set(isa):
            pytest.skip(f"this machine has no {isa}")
        try:
            random = np.random.default_rng(rows)
            x, weight, bias = (random.normal(size=n).astype("f4") for n in ((rows, inputs), (outputs, inputs), outputs))
            layer = layers.Dense(weight, bias)
            _native.use_instruction_set(before)  # weights stay packed for the one that they were packed for
            for threads in (1, 3):
                np.testing.assert_allclose(layer(x, threads), x.astype(float) @ weight.T + bias, rtol=1e-4, atol=1e-5)
        finally:
            _native.use_instruction_set(before)

    @pytest.mark.parametrize("hidden", [2, 16, 50])
    def test_an_lstm_with_shared_rows(self, hidden: int):
        module = BiLSTM(6, hidden).eval()
        weights = {name: p.detach().numpy() for name, p in module.named_parameters()}
        features, lengths = torch.randn(9, 6), np.array([4, 0, 7, 1])
        index = torch.randint(0, 9, (12,))
        with torch.no_grad():
            wanted = module(features, Packing.of(lengths), index)
        found = layers.BiLSTM(weights, "layers.0")(features.numpy(), lengths, 2, index.numpy())
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("kept", [True, False])
    @pytest.mark.parametrize("kind", ["cnn", "lstm"])
    def test_readers_of_characters(self, kind: str, kept: bool, monkeypatch: pytest.MonkeyPatch):
        if not kept:
            monkeypatch.setattr(layers, "_LARGEST_TABLE", 0)
        module = CharacterCNN(9, 4, 11, widths=(3, 2)) if kind == "cnn" else CharacterLSTM(9, 4, 10)
        weights = {f"m.{name}": p.detach().numpy() for name, p in module.named_parameters()}
        words = Spelt(np.array([2, 8, 3, 3, 1, 5]), np.array([0, 0, 3, 4, 4, 6]))
        read = layers.CharacterCNN(weights, "m", (3, 2)) if kind == "cnn" else layers.CharacterLSTM(weights, "m")
        with torch.no_grad():
            wanted = module.eval()(torch.from_numpy(words.padded()))
        np.testing.assert_allclose(read(words, 2), wanted, rtol=1e-5, atol=1e-6)

    def test_what_does_not_fit_never_reaches_the_kernels(self):
        f4 = {"dtype": np.float32}
        dense, rows, lengths = _native.StoredDense(np.ones((3, 2), **f4), np.ones(3, **f4)), np.ones((4, 2), **f4), [4]
        lstm = _native.StoredLstm(np.ones((8, 2), **f4), np.ones(8, **f4), np.ones((2, 4, 1), **f4))
        out, states = np.empty((4, 3), **f4), np.empty((4, 2), **f4)
        table = np.ones((3, 4, 5), **f4)
        wrong = [
            lambda: _native.StoredDense(np.ones((3, 2), **f4), np.ones(2, **f4)),
            lambda: _native.StoredLstm(np.ones((8, 2), **f4), np.ones(8, **f4), np.ones((2, 4, 2), **f4)),
            lambda: dense.apply(np.ones((4, 3), **f4), 1, out),
            lambda: dense.apply(rows, 1, np.empty((3, 3), **f4)),
            lambda: lstm.run(rows, None, np.array([5]), 1, states),
            lambda: lstm.run(rows, None, np.array([6, -2]), 1, states),
            lambda: lstm.run(rows, np.array([0, 1, 2, 4]), np.array(lengths), 1, states),
            lambda: lstm.run(rows, np.array([0, 1, 2, -1]), np.array(lengths), 1, states),
            lambda: lstm.run(np.ones((4, 3), **f4), None, np.array(lengths), 1, states),
            lambda: _native.spell(np.array([1]), np.array([0, 2]), table, 1, np.empty((1, 5), **f4)),
            lambda: _native.spell(np.array([1]), np.array([1, 0, 1]), table, 1, np.empty((2, 5), **f4)),
        ]
        for attempt in wrong:
            with pytest.raises(ValueError, match=r"takes|wide|add up|row|fit each other"):
                attempt()
        largest = np.empty((1, 5), **f4)
        assert not _native.spell(np.array([4]), np.array([0, 1]), table, 1, largest)


class TestTaggers:
    """Which of both answers."""

    def test_a_module_that_was_asked_for_may_be_changed(self, tmp_path: Any) -> None:
        NeuralTagger(**TINY).fit(TRAIN).save(tmp_path / "m")
        opened, X = models.load(tmp_path / "m"), [s.tokens for s in TRAIN]
        before = opened.chain_scores(X).emissions
        module = opened.model_.network
        np.testing.assert_allclose(opened.chain_scores(X).emissions, before, rtol=1e-5, atol=1e-5)
        with torch.no_grad():
            module.emission.bias += 1.0
        np.testing.assert_allclose(opened.chain_scores(X).emissions, before + 1.0, rtol=1e-4, atol=1e-4)
        opened.save(tmp_path / "changed")
        changed = models.load(tmp_path / "changed").chain_scores(X).emissions
        np.testing.assert_allclose(changed, before + 1.0, rtol=1e-4, atol=1e-4)

    def test_ensembles_known_labels_and_explanations(self, tmp_path: Any) -> None:
        members = [NeuralTagger(**TINY).fit(TRAIN) for _ in range(2)]
        both, X = Ensemble.of(members), [s.tokens for s in TRAIN]
        both.save(tmp_path / "both")
        opened = models.load(tmp_path / "both")
        assert opened.predict(X) == both.predict(X) == members[0].predict(X)
        known = [["B-LOC", *[None] * (len(x) - 1)] for x in X]
        assert all(tags[0] == "B-LOC" for tags in members[0].predict(X, known=known))
        assert members[0].posterior(X).explain(0, 1).label


def test_tagging_goes_on_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    lengths = np.array([2, 1, 3])
    inputs: Any = SimpleNamespace(lengths=lengths, rows=lambda examples: examples)
    monkeypatch.setattr("threading.Thread.start", start)
    batches = [np.array([number]) for number in range(6)]
    found, _ = gathered(lambda examples: (examples[:, None] * np.ones(2), None), inputs, 2, False, batches, workers=3)
    assert found[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
