"""What a model file claims is compared with what it holds, before anything is believed or made."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import load, store
from trellis.errors import StoreError

DATA = Path(__file__).parent / "data"
Manifest = dict[str, Any]
Arrays = dict[str, Any]


@pytest.fixture
def refusal(tmp_path: Path) -> Callable[..., str]:
    """Load a stored model after a change; what is said of it."""

    def ask(family: str, change: Callable[[Manifest, Arrays], Any]) -> str:
        stored = store.load(DATA / f"{family}.safetensors")
        manifest, arrays = json.loads(json.dumps(stored.manifest.values)), dict(stored.arrays)
        change(manifest, arrays)
        store.save(tmp_path / "bad", stored.kind, manifest, arrays)
        with pytest.raises(StoreError) as found:
            load(tmp_path / "bad")
        return str(found.value).removeprefix(f"{tmp_path / 'bad'}: ")

    return ask


@pytest.mark.parametrize(
    ("family", "field", "value", "problem"),
    [
        ("crf-ready", "labels", None, "the manifest: the field 'labels' must be a list, got null"),
        ("crf-ready", "labels", ["O", 3], "the manifest: item 1 of the field 'labels' must be a string, got a whole"),
        ("crf-ready", "labels", [], "the saved model has no labels"),
        ("crf-ready", "labels", ["O", "O"], "the saved labels do not fit their scheme: label 'O' occurs twice"),
        ("crf-ready", "labels", ["O", "X-PER"], "the saved labels do not fit their scheme"),
        ("crf-ready", "scheme", "bio3", "the manifest: the field 'scheme' must be one of 'IO', "),
        ("crf-ready", "scheme", {}, "the manifest: the field 'scheme' must be a string, got an object"),
        ("crf-ready", "style", 3, "the manifest: the field 'style' must be a string, got a whole number (3)"),
        ("crf-ready", "tokenizer", "os.system", "the manifest: the field 'tokenizer' must be an object"),
        ("crf-ready", "config", [], "the manifest: the field 'config' must be an object, got a list"),
        ("crf-ready", "config", {"c3": 1}, "the saved model has settings that this version of Trellis does not know"),
        ("crf-templates", "templates", "U", "the manifest: the field 'templates' must be an object or null, got a str"),
        ("crf-templates", "templates", {"name": "x"}, "the manifest: the field 'templates' lacks the field 'text'"),
        (
            "crf-templates",
            "templates",
            {"name": "x", "text": "X"},
            "the manifest: the field 'templates': x, line 1: exp",
        ),
        (
            "hmm-order1",
            "symbols",
            ["a", [1]],
            "the manifest: item 1 of the field 'symbols' must be a string or a whole",
        ),
        ("hmm-order1", "symbols", "abc", "the manifest: the field 'symbols' must be a list, got a string ('abc')"),
        (
            "hmm-order1",
            "forms",
            [1.5],
            "the manifest: item 0 of the field 'forms' must be a string, got a number (1.5)",
        ),
        ("bilstm-crf", "columns", [None], "the manifest: item 0 of the field 'columns' must be a string, got null"),
        ("bilstm-crf", "columns", ["a"], "the array 'names.column a.bytes' is missing: expected uint8 of shape (any)"),
        ("bilstm-crf", "transformer", 1, "the manifest: the field 'transformer' must be an object or null, got a who"),
        ("transformer-crf", "transformer", {}, "the encoder's description lacks the field 'tied': expected an object"),
    ],
)
def test_a_mistyped_field_is_named(refusal: Any, family: str, field: str, value: Any, problem: str) -> None:
    assert refusal(family, lambda manifest, _: manifest.update({field: value})).startswith(problem)


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("crf-templates", ("config", "labels", "scheme", "style", "templates")),
        ("hmm-order2", ("symbols", "forms")),
        ("bilstm-crf", ("columns", "transformer")),
    ],
)
def test_a_missing_field_is_named(refusal: Any, family: str, fields: tuple[str, ...]) -> None:
    for field in fields:
        message = refusal(family, lambda manifest, _, field=field: manifest.pop(field))
        assert message.startswith(f"the manifest lacks the field {field!r}: expected ")


def encoder(**settings: Any) -> Callable[[Manifest, Arrays], None]:
    return lambda manifest, _: manifest["config"]["encoder"].update(settings)


def pretrained(**settings: Any) -> Callable[[Manifest, Arrays], None]:
    """The settings of the transformer itself, which the file holds as a text."""

    def change(manifest: Manifest, _: Arrays) -> None:
        own = manifest["transformer"]
        own["config"] = json.dumps(json.loads(own["config"]) | settings)

    return change


@pytest.mark.parametrize(
    ("family", "change", "problem"),
    [
        ("bilstm-crf", encoder(layers=10**6), "'weights.encoder.lstm.layers.1.weight_ih_l0' is missing"),
        ("bilstm-crf", encoder(hidden=10**7), "must have the shape (20000000, 17), got (24, 17)"),
        ("bilstm-crf", encoder(hidden=10**30), "must have the shape "),
        ("bilstm-crf", encoder(characters={"output": 10**9}), "must have the shape "),
        ("bilstm-crf", encoder(characters={"widths": [3] * 10**5, "output": 10**6}), "must have the shape "),
        ("bilstm-crf", encoder(words={"size": 10**8}), "must have the shape "),
        ("softmax", encoder(capitalisation=10**9), "must have the shape "),
        ("bilstm-crf-pairs", encoder(pairs=10**9), "must have the shape "),
        (
            "transformer-crf",
            pretrained(num_hidden_layers=10**9),
            "'num_hidden_layers' is 1000000000, but the file has ",
        ),
        ("transformer-crf", pretrained(hidden_size=10**6), "must have the shape "),
        ("transformer-crf", pretrained(vocab_size=10**9), "must have the shape "),
        ("transformer-crf", pretrained(intermediate_size=10**10), "must have the shape "),
        ("transformer-crf", pretrained(max_position_embeddings=10**9), "must have the shape "),
        ("transformer-crf", pretrained(model_type="llama"), ""),
        ("crf-templates", lambda m, _: m["templates"].update(text="U0:%x[0,20000000]"), "looks at column 20000000, at"),
    ],
)
def test_absurd_sizes_are_refused_before_memory_is_taken(refusal: Any, family: str, change: Any, problem: str) -> None:
    """Taken, it would be another error, or the end of the process: most of these are terabytes."""
    assert problem in refusal(family, change)


def test_a_label_for_each_row_is_needed_before_tables_of_labels_are_made(refusal: Any) -> None:
    """What a scheme allows is a table square in the labels: of 20,000 labels it takes gigabytes."""
    many = ["O", *(f"B-{i}" for i in range(20_000))]
    for family, array in (
        ("bilstm-crf", "weights.emission.bias"),
        ("softmax", "weights.emission.bias"),
        ("hmm-order1", "emissions"),
        ("crf-ready", "transitions"),
    ):
        message = refusal(family, lambda manifest, _: manifest.update(labels=many))
        assert message.startswith(f"the array {array!r} must have the shape (")


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("start", lambda a: a * 0.5, "start must sum to 1, got 0.5"),
        ("start", lambda a: a * 2, "start[0] is 1.63"),
        ("start", lambda a: a * np.nan, "the array 'start' must be at least 0, got nan at [0]"),
        ("transitions", lambda a: a * 0.5, "each row of transitions must sum to 1, got 0.5 for row 0"),
        ("transitions", lambda a: -a, "the array 'transitions' must be at least 0, got -"),
        ("emissions", lambda a: a * 1.1, "each row of emissions must sum to 1, got 1.1 for row "),
        ("pair_rows", lambda a: a * 0, "each row of pair_rows must sum to 1, got 0 for row 0"),
        ("pairs", lambda a: a * 0, "the array 'pairs' must have each pair once"),
        ("pairs", lambda a: a + 3, "the array 'pairs' must lie in -1..3, got "),
        ("pairs", lambda a: a[:, ::-1], "the array 'pairs' must have -1 in its first column only"),
        ("triples", lambda a: a - 1, "the array 'triples' must lie in -1..3, got -2"),
        ("triples", lambda a: a * 2**61, "the array 'triples' must lie in -1..3, got "),
        ("triple_counts", lambda a: -a, "the array 'triple_counts' must lie in 0..1e+100, got -"),
        ("form_counts", lambda a: a * np.inf, "the array 'form_counts' must lie in 0..1e+100, got "),
        ("form_prior", lambda a: a[:-1], "the array 'form_prior' must have the shape (4), got (3)"),
        ("labelled_start", lambda a: a.astype(np.float32), "the array 'labelled_start' must be float64, got float32"),
    ],
)
def test_numbers_that_are_not_probabilities_or_counts_are_refused(
    refusal: Any, name: str, change: Any, problem: str
) -> None:
    def spoil(_: Manifest, arrays: Arrays) -> None:
        with np.errstate(invalid="ignore"):
            arrays[name] = change(arrays[name])

    assert refusal("hmm-order2", spoil).startswith(problem)


def test_symbols_are_distinct(refusal: Any) -> None:
    def twice(manifest: Manifest, _: Arrays) -> None:
        manifest["symbols"][1] = manifest["symbols"][0]

    assert refusal("hmm-order2", twice) == "1 symbols occur twice"


@pytest.mark.parametrize(
    ("family", "name", "change", "problem"),
    [
        ("bilstm-crf", "weights.emission.weight", lambda a: a * np.nan, "must be finite, got nan"),
        ("bilstm-crf", "weights.emission.weight", lambda a: a.astype(np.float64), "must be float32, got float64"),
        ("bilstm-crf", "weights.emission.weight", lambda a: a.T, "must have the shape (9, 12), got (12, 9)"),
        ("bilstm-crf", "names.words.ends", lambda a: a[::-1], "must never decrease"),
        ("bilstm-crf", "weights.foreign", lambda _: np.ones(3, np.float32), "has no place in the network"),
        ("transformer-crf", "transformer.model.foreign", lambda _: np.ones(3, np.float32), "has no place"),
        ("transformer-crf", "transformer.pooling.scale", lambda a: a.astype(np.float64), "must be float32"),
        *(
            ("crf-templates", *row)
            for row in [
                ("transitions", lambda a: a[1:], "'transitions' must have the shape ("),
                ("transitions", lambda a: a * np.nan, "'transitions' must be finite or -inf, got nan at"),
                ("start", lambda a: np.full_like(a, np.inf), "'start' must be finite or -inf, got inf at"),
                ("weighted", lambda a: a + 1, "'weighted' must lie in 0..1, got 2 at"),
                ("pair_weights", lambda a: a[1:], "'pair_weights' must have the shape"),
                ("pair_weights", lambda a: a * np.inf, "'pair_weights' must be finite, got "),
                # Each of these was a crash: numbers converted, differences that overflow, and rows taken for items.
                ("pair_labels", lambda a: a + 100, "'pair_labels' must lie in 0.."),
                ("pair_labels", lambda a: np.full(len(a), -1), "'pair_labels' must be uint8 or uint16, got int64"),
                ("pair_counts", lambda a: a[1:], "'pair_counts' must have the shape"),
                ("pair_counts", lambda a: a.reshape(1, -1), "'pair_counts' must have the shape"),
                ("pair_counts", lambda a: a + 1, "'pair_counts' must add up to"),
                ("pair_counts", lambda a: np.full(len(a), 2**32 - 1, np.uint32), "'pair_counts' must add up to"),
                ("attributes", lambda a: a[1:], "'attributes.lengths' must add up to"),
                ("attributes", lambda a: np.full_like(a, 255), "must be attributes of its templates, and number 0 is"),
                ("attributes.lengths", lambda a: a.astype(float), "must be uint8 or uint16 or uint32, got float64"),
                ("attributes.lengths", lambda a: np.full(len(a), 2**32 - 1, np.uint32), "lengths' must add up to"),
                ("values.counts", lambda a: a + 1, "must count as many values as there are"),
                ("values.counts", lambda a: a[:-1], "must count as many values as there are"),
            ]
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(refusal: Any, family: str, name: str, change: Any, problem: str) -> None:
    assert problem in refusal(family, lambda _, arrays: arrays.update({name: change(arrays.get(name))}))


def tokenizer(change: Callable[[Any], Any]) -> Callable[[Manifest, Arrays], None]:
    def spoil(manifest: Manifest, _: Arrays) -> None:
        stored = json.loads(manifest["transformer"]["tokenizer"])
        change(stored)
        manifest["transformer"]["tokenizer"] = json.dumps(stored)

    return spoil


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            tokenizer(lambda t: t.update(pad=-1)),
            "the stored tokenizer: the field 'pad' must be in 0..2147483647, got -1",
        ),
        (tokenizer(lambda t: t.update(pad=10**6)), "does not run: "),
        (
            tokenizer(lambda t: t.update(limit="x")),
            "the stored tokenizer: the field 'limit' must be a whole number or null",
        ),
        (tokenizer(lambda t: t.pop("backend")), "the stored tokenizer lacks the field 'backend': expected an object"),
        (tokenizer(lambda t: t["backend"].pop("model")), "the stored tokenizer cannot be read: "),
        (tokenizer(lambda t: t["backend"]["model"].update(vocab={"[UNK]": 10**6})), "does not run: "),
        (tokenizer(lambda t: t["backend"]["model"].update(vocab={})), "the stored tokenizer cannot be read: "),
        (
            lambda m, _: m["transformer"].update(tokenizer="[" * 10**5),
            "the stored tokenizer cannot be read: it is nested",
        ),
        (lambda m, _: m["transformer"].update(config="9" * 5000), "the stored encoder cannot be rebuilt: "),
        (pretrained(model_type=3), "configuration: the field 'model_type' must be a string, got a whole number (3)"),
        (pretrained(backbone="resnet50"), "an encoder made of others is not supported, got 'backbone'"),
        (
            pretrained(text_config={"model_type": "bert"}),
            "an encoder made of others is not supported, got 'text_config'",
        ),
        (lambda m, _: m["transformer"]["tied"].update(a="b"), "'a' is said to be 'b', which is missing"),
        (lambda m, _: m["transformer"]["options"].update(window=10**6), "window must be at most 48"),
        (
            lambda m, _: m["transformer"]["options"].update(mix_layers=[0] * 10**5),
            "mix_layers must be true, false or some",
        ),
        (
            lambda m, _: m["transformer"]["options"].update(pooling=[]),
            "the field 'pooling' must be a string, got a list",
        ),
    ],
)
def test_encoders_that_cannot_be_are_refused(refusal: Any, change: Any, problem: str) -> None:
    assert problem in refusal("transformer-crf", change)


def test_settings_that_fetch_code_or_change_the_form_of_answers_are_not_followed(tmp_path: Path) -> None:
    stored = store.load(DATA / "transformer-crf.safetensors")
    manifest = json.loads(json.dumps(stored.manifest.values))
    hostile = {"attn_implementation": "somebody/kernels", "_attn_implementation": "somebody/kernels"}
    hostile |= {"auto_map": {"AutoModel": "somebody/code--model.Evil"}, "quantization_config": {"quant_method": "x"}}
    pretrained(**hostile, return_dict=False, chunk_size_feed_forward=7)(manifest, {})
    store.save(tmp_path / "odd", stored.kind, manifest, stored.arrays)
    expected = json.loads((DATA / "transformer-crf.json").read_text(encoding="utf-8"))
    assert load(tmp_path / "odd").predict(expected["inputs"]) == expected["tags"]
