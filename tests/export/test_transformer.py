"""Taggers with a transformer as one ONNX file: from subwords in windows to labels, for any batch and length."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

import trellis
from tests.export.test_onnx import check_parity, session
from tests.nn.tiny import bert, byte_level, roberta, save_folder
from trellis.errors import ModelError
from trellis.export import feeds, to_onnx
from trellis.export.emissions import Pooler
from trellis.export.graph import Graph
from trellis.nn import WordPooling

NOTHING = "\x00"  # the tokenizer makes no subword of it
KINDS = {"ada": "B-PER", "bob": "B-PER", "rome": "B-LOC", "lives": "O", "in": "O", "xi": "O", NOTHING: "O"}


def sentences(count: int, seed: int, longest: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[str(word) for word in rng.choice([*KINDS, "unknown"], n)] for n in rng.integers(1, longest, count)]


def fitted(folder: Path, **encoder: Any) -> trellis.NeuralTagger:
    X = sentences(40, 0, 10)
    y = [[KINDS.get(word, "O") for word in words] for words in X]
    settings = {"transformer": str(folder), "locked_dropout": 0.0, "word_dropout": 0.0, **encoder}
    training = {"epochs": 2, "learning_rate": 0.01, "head_learning_rate": 0.03}
    return trellis.NeuralTagger(encoder=settings, training=training).fit(X, y)


@pytest.mark.parametrize("how", ["mean", "first", "last", "max"])
def test_the_pooling_is_that_of_the_tagger(tmp_path: Path, how: Any) -> None:
    """Sentences of several windows, words in two of them, words without subwords."""
    rng = np.random.default_rng(0)
    R, S, H, T = 5, 6, 3, 4
    rows = np.array([0, 0, 1, 2, 2])
    words = np.sort(rng.integers(0, T, (R, S)), axis=1)
    words[:, 0] = words[3] = -1
    states = rng.normal(size=(R, S, H)).astype(np.float32)
    mask = np.arange(T) < np.array([4, 3, 4])[:, None]
    pooling = WordPooling(how, size=H)
    graph = Graph()
    given = [graph.input(name, "int64", ["r", "s"][:n]) for name, n in (("words", 2), ("rows", 1))]
    pooler = Pooler(graph, *given, graph.input("mask", "bool", ["b", "t"]), H)
    features = pooler.pooled(graph.input("states", "float32", ["r", "s", H]), how)
    absent = pooling.absent.detach().numpy()
    graph.output(pooler.with_absent(features, absent), "features", "float32", ["b", "t", H])
    (tmp_path / "p.onnx").write_bytes(graph.model({}).SerializeToString())
    inputs = {"words": words, "rows": rows, "mask": mask, "states": states}
    (found,) = session(tmp_path / "p.onnx").run(None, inputs)
    tensors = (torch.from_numpy(x) for x in (states, words, mask))
    expected = pooling(*tensors, rows=torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-6)
    assert (found[:, :, 0][mask] == absent[0]).any()


def test_a_bert_beside_characters_below_a_bilstm_with_mixed_layers(tmp_path: Path) -> None:
    """Its window is 14 subwords, so that most sentences take several."""
    folder = save_folder(tmp_path / "bert", bert(positions=16))
    tagger = fitted(folder, pretrained={"mix": True}, hidden=8, characters={"kind": "cnn", "size": 4, "output": 6})
    check_parity(tagger, tmp_path / "model.onnx", [*sentences(1000, 7, 25), [NOTHING]])
    again = session(tmp_path / "model.onnx")
    for batch in ([], [[]], [[""]], [[NOTHING]], [["ada"]], [["ada"] * 400, ["rome"]]):
        labels, *_ = again.run(None, feeds(tagger, batch))
        assert [[tagger.labels_[i] for i in row if i >= 0] for row in labels] == tagger.predict(batch)
    content = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    own = content["transformer"]
    assert (own["window"], own["overlap"], own["prefix"], own["suffix"]) == (14, 7, [2], [3])
    assert own["backend"]["model"]["type"] == "WordPiece"


def test_a_roberta_whose_subwords_a_bilstm_reads(tmp_path: Path) -> None:
    folder = tmp_path / "roberta"
    specials = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=byte_level(), **specials).save_pretrained(folder)
    model: Any = roberta(positions=34)
    model.save_pretrained(folder)
    tagger = fitted(folder, pretrained={"bilstm": "before", "pooling": "first"}, hidden=8)
    check_parity(tagger, tmp_path / "model.onnx", sentences(100, 7, 12))
    assert json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))["transformer"]["space"] == " "


def test_what_torch_cannot_export_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = fitted(save_folder(tmp_path / "bert", bert(positions=16)))

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(ModelError, match=r"torch .* cannot export BertModel: RuntimeError: no such operator"):
        to_onnx(tagger, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
