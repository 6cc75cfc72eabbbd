"""Exported files answer as the tagger does: same tags, marginals and path probability, for any batch and length."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import trellis
from trellis.chain import ChainScores
from trellis.errors import ModelError
from trellis.export import feeds, to_onnx
from trellis.export.decoder import Decoder
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


def decoder_session(decoder: Decoder, path: Path) -> onnxruntime.InferenceSession:
    graph = Graph()
    mask = graph.input("mask", "bool", ["batch", "length"])
    emissions = graph.input("emissions", "float32", ["batch", "length", decoder.num_states])
    decoder.add_to(graph, emissions, mask)
    path.write_bytes(graph.model({}).SerializeToString())
    return session(path)


def chain(L: int, seed: int, *, forbidden: float = 0.0) -> Decoder:
    rng = np.random.default_rng(seed)
    transitions = rng.normal(size=(L, L))
    transitions[(rng.random((L, L)) < forbidden) & ~np.eye(L, dtype=bool)] = -np.inf
    start, end = rng.normal(size=L), rng.normal(size=L)
    start[1:][rng.random(L - 1) < forbidden] = -np.inf
    return Decoder(transitions, start, end, None, L)


@pytest.mark.parametrize(("L", "forbidden", "scale"), [(1, 0.0, 1.0), (5, 0.0, 1.0), (9, 0.5, 3.0), (17, 0.3, 40.0)])
def test_the_decoder_is_the_chain(tmp_path: Path, L: int, forbidden: float, scale: float) -> None:
    """Dynamic batch and length, minus infinity, and scores whose exponentials float32 cannot hold."""
    own = chain(L, seed=L, forbidden=forbidden)
    runs, rng = decoder_session(own, tmp_path / "d.onnx"), np.random.default_rng(1)
    for B, T in ((1, 1), (3, 7), (16, 40), (2, 400)):
        lengths = np.append(rng.integers(1, T + 1, B - 1), T)
        emissions = (scale * rng.normal(size=(int(lengths.sum()), L))).astype(np.float32)
        scores = ChainScores(emissions.astype(np.float64), lengths, own.transitions, own.start, own.end)
        mask = np.arange(T) < lengths[:, None]
        labels, marginals, probability = runs.run(None, {"emissions": pad(emissions, lengths), "mask": mask})
        best = scores.viterbi()
        np.testing.assert_array_equal(labels[mask], best.tags)
        np.testing.assert_allclose(marginals[mask], scores.marginals().tokens, atol=1e-5)
        np.testing.assert_allclose(probability, np.exp(best.scores - scores.log_partition()), rtol=2e-3, atol=1e-6)
        assert (labels[~mask] == -1).all()
        assert (marginals[~mask] == 0).all()


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


def test_a_feature_crf_on_a_thousand_sentences(tmp_path: Path) -> None:
    check_parity(trellis.CRF(max_iterations=20).fit(*corpus()), tmp_path / "crf.onnx", sentences(1000, 7))


@pytest.mark.parametrize("order", [1, 2])
def test_an_hmm(tmp_path: Path, order: int) -> None:
    check_parity(trellis.HMM(order=order).fit(*corpus()), tmp_path / "hmm.onnx", sentences(100, 7))


ENCODERS: list[dict[str, Any]] = [
    {"words": {"size": 8}, "hidden": 12, "characters": {"kind": "cnn", "size": 6, "output": 8, "widths": [2, 3]}},
    {"words": {"size": 8}, "hidden": 12, "layers": 2, "characters": {"kind": "lstm", "size": 6, "output": 8}},
    {"words": {"size": 8}, "hidden": 12, "characters": {"kind": "none"}, "pairs": 4, "capitalisation": 3},
]


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_bilstm_from_token_ids(tmp_path: Path, encoder: dict[str, Any], head: str) -> None:
    tagger = trellis.NeuralTagger(encoder=encoder, head=head, training={"epochs": 2})
    check_parity(tagger.fit(*corpus()), tmp_path / "bilstm.onnx", sentences(200, 7))


def test_word_vectors_columns_and_lower_case_are_inputs_too(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word.lower()} {i} 1 {-i}\n" for i, word in enumerate(WORDS)), encoding="utf-8")
    encoder = {"words": {"vectors": str(vectors), "lower": True}, "hidden": 8, "characters": {"kind": "none"}}
    tagger = trellis.NeuralTagger(encoder=encoder, training={"epochs": 1})
    check_parity(tagger.fit(*corpus()), tmp_path / "bilstm.onnx", sentences(100, 7))


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
