"""Exported files answer as the tagger does: same tags, marginals and path probability, for any batch and length."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import trellis
from trellis.arrays import AnyArray, IntArray
from trellis.chain import ChainScores
from trellis.errors import ModelError
from trellis.export import feeds, to_onnx
from trellis.export.decoder import OUTPUTS, Decoder, mixing_steps
from trellis.export.graph import Graph
from trellis.ragged import pad

WORDS = ["Ada", "Bob", "Paris", "Rome", "lives", "in", "and", "likes", "X-1", "2024", "née", "iPhone"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def sentences(count: int, seed: int, longest: int = 30) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [list(rng.choice([*WORDS, "unknown", "Zoë"], n)) for n in rng.integers(1, longest, count)]


def corpus(seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    kinds = {"Ada": "B-PER", "Bob": "B-PER", "Paris": "B-LOC", "Rome": "B-LOC"}
    X = sentences(60, seed, 12)
    return X, [[kinds.get(word, "O") for word in sentence] for sentence in X]


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def decoder_session(decoder: Decoder, path: Path, outputs: Sequence[str] = OUTPUTS) -> onnxruntime.InferenceSession:
    graph = Graph()
    mask = graph.input("mask", "bool", ["batch", "length"])
    emissions = graph.input("emissions", "float32", ["batch", "length", decoder.num_states])
    decoder.add_to(graph, emissions, mask, outputs)
    path.write_bytes(graph.model({}).SerializeToString())
    return session(path)


def chain(L: int, seed: int, *, forbidden: float = 0.0) -> Decoder:
    rng = np.random.default_rng(seed)
    transitions = rng.normal(size=(L, L))
    transitions[(rng.random((L, L)) < forbidden) & ~np.eye(L, dtype=bool)] = -np.inf
    start, end = rng.normal(size=L), rng.normal(size=L)
    start[1:][rng.random(L - 1) < forbidden] = -np.inf
    return Decoder(transitions, start, end, None, L)


def check_decoder(own: Decoder, path: Path, emissions: AnyArray, lengths: IntArray) -> None:
    """The graph gives what the chain in double precision gives."""
    scores = ChainScores(emissions.astype(np.float64), lengths, own.transitions, own.start, own.end)
    mask = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    given = {"emissions": pad(emissions, lengths), "mask": mask}
    labels, marginals, probability = decoder_session(own, path).run(None, given)
    best = scores.viterbi()
    np.testing.assert_array_equal(labels[mask], best.tags)
    np.testing.assert_allclose(marginals[mask], scores.marginals().tokens, atol=1e-5)
    np.testing.assert_allclose(probability, np.exp(best.scores - scores.log_partition()), rtol=1e-4, atol=1e-7)
    assert (labels[~mask] == -1).all()
    assert (marginals[~mask] == 0).all()


@pytest.mark.parametrize("forbidden", [0.0, 0.5])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("L", [1, 2, 5, 9, 17])
def test_the_decoder_is_the_chain(tmp_path: Path, L: int, forbidden: float, scale: float) -> None:
    """Dynamic batch and length, minus infinity, and scores whose exponentials no number holds."""
    own, rng = chain(L, seed=L, forbidden=forbidden), np.random.default_rng(1)
    for B, T in ((1, 1), (3, 7), (16, 40), (2, 400)):
        lengths = np.append(rng.integers(1, T + 1, B - 1), T)
        emissions = (scale * rng.normal(size=(int(lengths.sum()), L))).astype(np.float32)
        check_decoder(own, tmp_path / "d.onnx", emissions, lengths)


@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
def test_long_inputs_stay_exact(tmp_path: Path, scale: float) -> None:
    own, rng = chain(9, seed=9, forbidden=0.3), np.random.default_rng(2)
    lengths = np.array([2000, 1, 1999])
    emissions = (scale * rng.normal(size=(int(lengths.sum()), 9))).astype(np.float32)
    check_decoder(own, tmp_path / "d.onnx", emissions, lengths)


def test_scores_of_all_sizes_with_either_sign(tmp_path: Path) -> None:
    """Emissions and transitions from a list of bad ones; a path that loses by e^-100 may win in the end."""
    sizes = [0, 0.5, 1, 20, 39, 79, 90, 300, 1e4]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        L, most = int(rng.integers(2, 6)), int(rng.integers(2, 10))
        own = chain(L, seed=seed, forbidden=float(rng.choice([0, 0.4, 0.7])))
        transitions = own.transitions + rng.choice(sizes[: rng.integers(1, 8)], (L, L)) * rng.choice([-1, 1], (L, L))
        lengths = rng.integers(1, 12, 5)
        count = int(lengths.sum())
        emissions = rng.choice(sizes[:most], (count, L)) * rng.choice([-1, 1], (count, L)) + rng.normal(size=(count, L))
        check_decoder(replace(own, transitions=transitions), tmp_path / "d.onnx", emissions.astype(np.float32), lengths)


def test_what_underflows_may_win_in_the_end(tmp_path: Path) -> None:
    """O is far ahead at first, but I, which must follow B, is further ahead after it."""
    transitions = np.zeros((3, 3))  # O, B, I
    transitions[0, 2] = -np.inf
    own = Decoder(transitions, np.array([0, 0, -np.inf]), np.zeros(3), None, 3)
    for gap in (40.0, 79.0, 81.0, 500.0, 1e4):
        emissions = np.array([[gap, 0, 0], [0, 0, 1.5 * gap], [gap, 0, 0]], dtype=np.float32)
        check_decoder(own, tmp_path / "d.onnx", emissions, np.array([3]))


def test_labels_that_never_meet_need_log_space(tmp_path: Path) -> None:
    """Two labels without a way from one to the other: one may fall behind by any amount, and catch up."""
    transitions = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    own = Decoder(transitions, np.zeros(2), np.zeros(2), None, 2)
    assert mixing_steps(transitions) is None
    emissions = np.repeat(np.array([[9, 0], [0, 9]], dtype=np.float32), 300, axis=0)
    check_decoder(own, tmp_path / "d.onnx", emissions, np.array([600]))


def test_steps_until_a_chain_has_mixed() -> None:
    bio, once = np.zeros((3, 3)), np.zeros((3, 3))
    bio[0, 2] = -np.inf  # O, B, I
    once[:, 0] = -np.inf  # a state that nothing leads to
    assert mixing_steps(np.zeros((4, 4))) == 1
    assert mixing_steps(bio) == 2
    assert mixing_steps(once) == 1
    assert mixing_steps(np.full((2, 2), -np.inf)) is None


@pytest.mark.parametrize("wanted", [["labels"], ["marginals"], ["probability"], ["labels", "marginals"]])
def test_a_graph_has_only_the_outputs_that_are_wanted(tmp_path: Path, wanted: list[str]) -> None:
    own, rng = chain(5, seed=5, forbidden=0.3), np.random.default_rng(1)
    given = {"emissions": rng.normal(size=(3, 8, 5)).astype(np.float32), "mask": rng.random((3, 8)) < 0.8}
    everything = dict(zip(OUTPUTS, decoder_session(own, tmp_path / "a.onnx").run(None, given), strict=True))
    few = decoder_session(own, tmp_path / "b.onnx", wanted)
    assert [output.name for output in few.get_outputs()] == wanted
    for name, found in zip(wanted, few.run(None, given), strict=True):
        np.testing.assert_array_equal(found, everything[name])


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (3, 0)])
def test_a_batch_without_tokens(tmp_path: Path, shape: tuple[int, int]) -> None:
    given = {"emissions": np.zeros((*shape, 4), dtype=np.float32), "mask": np.zeros(shape, dtype=bool)}
    labels, marginals, probability = decoder_session(chain(4, seed=0), tmp_path / "d.onnx").run(None, given)
    assert (labels.shape, marginals.shape) == (shape, (*shape, 4))
    assert (probability == np.ones(shape[0])).all()


def test_a_mask_may_have_holes_and_empty_rows(tmp_path: Path) -> None:
    own, rng = chain(4, seed=3), np.random.default_rng(0)
    emissions = rng.normal(size=(3, 6, 4)).astype(np.float32)
    mask = np.array([[1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]], dtype=bool)
    labels, _, probability = decoder_session(own, tmp_path / "d.onnx").run(None, {"emissions": emissions, "mask": mask})
    scores = ChainScores(emissions[mask].astype(np.float64), mask.sum(1), own.transitions, own.start, own.end)
    np.testing.assert_array_equal(labels[mask], scores.viterbi().tags)
    assert probability[1] == 1


def check_parity(tagger: Any, path: Path, X: list[list[str]]) -> None:
    sidecar = json.loads(to_onnx(tagger, path).read_text(encoding="utf-8"))
    runs, names = session(path), list(tagger.labels_)
    assert sidecar["labels"] == names
    assert {given.name for given in runs.get_inputs()} == set(sidecar["inputs"])
    for first in range(0, len(X), 50):
        block = X[first : first + 50]
        labels, marginals, probability = runs.run(None, feeds(tagger, block))
        posterior = tagger.posterior(block)
        expected = posterior.best()
        for b, tokens in enumerate(block):
            n = len(tokens)
            assert [names[i] for i in labels[b, :n]] == expected[b]
            np.testing.assert_allclose(marginals[b, :n], posterior.marginals()[b], atol=1e-5)
        np.testing.assert_allclose(probability, posterior.probabilities(expected), atol=1e-5)


EMPTY: list[list[list[str]]] = [[], [[]], [[], []], [[""]], [["", ""], []], [[""], ["Ada", ""], []]]


def check_empty(tagger: Any, path: Path) -> None:
    """Batches of nothing, and words without characters."""
    for block in EMPTY:
        check_parity(tagger, path, block)
        labels, marginals, probability = session(path).run(None, feeds(tagger, block))
        longest = max(map(len, block), default=0)
        assert labels.shape == (len(block), longest)
        assert marginals.shape == (len(block), longest, len(tagger.labels_))
        assert probability.shape == (len(block),)


def test_a_feature_crf_on_a_thousand_sentences(tmp_path: Path) -> None:
    check_parity(trellis.CRF(max_iterations=20).fit(*corpus()), tmp_path / "crf.onnx", sentences(1000, 7))


@pytest.mark.parametrize("order", [1, 2])
def test_an_hmm(tmp_path: Path, order: int) -> None:
    tagger = trellis.HMM(order=order).fit(*corpus())
    check_parity(tagger, tmp_path / "hmm.onnx", sentences(100, 7))
    check_empty(tagger, tmp_path / "hmm.onnx")


ENCODERS: list[dict[str, Any]] = [
    {"words": {"size": 8}, "hidden": 12, "characters": {"kind": "cnn", "size": 6, "output": 8, "widths": [2, 3]}},
    {"words": {"size": 8}, "hidden": 12, "layers": 2, "characters": {"kind": "lstm", "size": 6, "output": 8}},
    {"words": {"size": 8}, "hidden": 12, "characters": {"kind": "none"}, "pairs": 4, "capitalisation": 3},
]


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_bilstm_from_token_ids(tmp_path: Path, encoder: dict[str, Any], head: str) -> None:
    tagger = trellis.NeuralTagger(encoder=encoder, head=head, training={"epochs": 2}).fit(*corpus())
    check_parity(tagger, tmp_path / "bilstm.onnx", sentences(200, 7))
    check_empty(tagger, tmp_path / "bilstm.onnx")


def test_word_vectors_columns_and_lower_case_are_inputs_too(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word.lower()} {i} 1 {-i}\n" for i, word in enumerate(WORDS)), encoding="utf-8")
    encoder = {"words": {"vectors": str(vectors), "lower": True}, "hidden": 8, "characters": {"kind": "none"}}
    tagger = trellis.NeuralTagger(encoder=encoder, training={"epochs": 1}).fit(*corpus())
    check_parity(tagger, tmp_path / "bilstm.onnx", sentences(100, 7))
    check_empty(tagger, tmp_path / "bilstm.onnx")


def test_transitions_that_depend_on_the_place_are_refused(tmp_path: Path) -> None:
    templates = tmp_path / "templates.txt"
    templates.write_text("U00:%x[0,0]\nB00:%x[0,0]\n")
    tagger = trellis.CRF(features=str(templates), max_iterations=3).fit(*corpus())
    with pytest.raises(ModelError, match="transitions depend on the place"):
        to_onnx(tagger, tmp_path / "model.onnx")


def test_the_description_does_not_overwrite_the_graph(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="such as model"):
        to_onnx(trellis.HMM().fit(*corpus()), tmp_path / "model.json")


def test_scores_of_whole_spans_cannot_be_exported(tmp_path):
    settings = {"encoder": {"hidden": 8, "words": {"size": 4}}, "training": {"epochs": 1}}
    tagger = trellis.NeuralTagger(head="semicrf", **settings).fit([["a", "b"]], [["B-X", "I-X"]])
    with pytest.raises(ModelError, match="head = semicrf cannot be exported"):
        to_onnx(tagger, tmp_path / "model.onnx")


def test_another_file_is_not_replaced_by_the_description(tmp_path: Path) -> None:
    tagger = trellis.HMM().fit([["a", "b"]], [["X", "Y"]])
    other = tmp_path / "data.json"
    other.write_text('[{"text": "mine"}]')
    with pytest.raises(ModelError, match=r"data\.json, where the description would go, is another file"):
        to_onnx(tagger, tmp_path / "data.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.json"]
    other.unlink()
    for _ in range(2):
        to_onnx(tagger, tmp_path / "data.onnx")
    assert json.loads(other.read_text())["labels"] == ["X", "Y"]
