"""`BulkTagger`: three kinds of tables, the same answers as `annotate`, and rows that cannot be tagged."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import trellis
from tests.distributed.conftest import TEXTS
from trellis.distributed import BulkTagger, bulk, tag_dask, tag_ray, tag_spark
from trellis.errors import ConfigError, DataError, ModelError, StoreError
from trellis.models import HMM
from trellis.text import Sentence

ALL = ("tags", "spans", "probabilities")


def expected(model: Any, texts: list[str], **options: Any) -> list[dict[str, Any]]:
    """What `annotate` says, which the arrays must agree with."""
    found = [one.to_dict() for one in trellis.load(model).annotate(texts, **options)]
    names = ("tokens", "tags", "spans", "probabilities")
    return [{name: one[name] for name in names} for one in found]


@pytest.mark.parametrize("batch_tokens", [1, 7, 20_000])
def test_arrow_tables_get_what_annotate_says(ner_model, batch_tokens):
    tagger = BulkTagger(ner_model, outputs=ALL, batch_tokens=batch_tokens)
    table = pa.table({"id": range(5), "text": TEXTS})
    tagged = tagger(table)
    assert tagged.drop_columns(["id", "text"]).to_pylist() == expected(ner_model, TEXTS)
    assert tagged.select(["id", "text"]) == table
    assert tagged.schema == tagger.schema(table.schema)


def test_record_batches_and_dicts_get_the_same(ner_model):
    tagger = BulkTagger(ner_model, outputs=ALL)
    table = pa.table({"text": TEXTS})
    batch = tagger(table.to_batches()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert pa.Table.from_batches([batch]) == tagger(table)
    assert tagger({"text": TEXTS}) == tagger(table).to_pydict()


def test_pandas_frames_keep_their_index_and_their_missing_texts_are_bad_rows(ner_model):
    index = [3, 3, 1]
    frame = pd.DataFrame({"text": ["Anna met Paul.", None, "In New York."], "id": [1, 2, 3]}, index=index)
    tagged = BulkTagger(ner_model, on_error="mark")(frame)
    assert list(frame.columns) == ["text", "id"]
    assert list(tagged.index) == index
    found = BulkTagger(ner_model, on_error="mark")({"text": ["Anna met Paul.", None, "In New York."]})
    for name in ("tokens", "tags", "spans", "error"):
        assert list(tagged[name]) == found[name]
    tokens = tagged[tagged["error"].isna()][["tokens"]].map(np.array)  # as Spark and Parquet give lists
    assert list(BulkTagger(ner_model)(tokens)["tags"]) == [found["tags"][0], found["tags"][2]]


def test_documents_are_split_into_sentences_with_offsets_in_the_whole(ner_model):
    tagged = BulkTagger(ner_model, outputs=ALL, sentences=True)({"text": TEXTS})
    rows = [dict(zip(tagged, row, strict=True)) for row in zip(*tagged.values(), strict=True)]
    assert [{k: v for k, v in row.items() if k != "text"} for row in rows] == expected(ner_model, TEXTS, sentences=True)
    spans = [
        (text[s["start"] : s["end"]], s["text"]) for text, own in zip(TEXTS, tagged["spans"], strict=True) for s in own
    ]
    assert spans
    assert all(one == other for one, other in spans)


def test_tokens_are_taken_as_they_are(ner_model):
    tokens = [["Anna", "met", "Paul", "."], [], ["In", "New", "York"]]
    tagged = BulkTagger(ner_model)({"words": tokens, "tags_before": [1, 2, 3]} | {"tokens": tokens})
    assert tagged["tags"] == trellis.load(ner_model).predict(tokens)
    assert BulkTagger(ner_model, tokens="words", prefix="ner_")({"words": tokens})["ner_tags"] == tagged["tags"]
    arrow = BulkTagger(ner_model)(pa.table({"tokens": tokens}))
    assert arrow.column("spans").to_pylist() == tagged["spans"]
    assert tagged["spans"][0][0] == {"start": 9, "end": 13, "label": "PER", "text": "Paul"}


def test_columns_of_string_lists_are_columns_of_the_model(tmp_path):
    from trellis.models import CRF

    data = [Sentence(["a", "a"], ["X", "Y"], columns={"pos": ["N", "V"]})] * 5
    (tmp_path / "template").write_text("U:%x[0,1]\n")
    model = CRF(features=str(tmp_path / "template")).fit(data)
    model.save(tmp_path / "m.safetensors")
    table = pa.table({"tokens": [["a", "a"], ["a", "a"]], "pos": [["N", "V"], ["V", "N"]], "id": [1, 2]})
    tagged = BulkTagger(tmp_path / "m.safetensors")(table)
    assert tagged.column("tags").to_pylist() == [["X", "Y"], ["Y", "X"]]
    assert "spans" not in tagged.column_names, "tags that stand alone are their own spans"


@pytest.mark.parametrize("kind", ["arrow", "dict"])
def test_bad_rows_are_marked_or_raised_and_the_others_are_tagged(ner_model, kind):
    texts = [TEXTS[0], None, TEXTS[2]]
    table = pa.table({"text": texts}) if kind == "arrow" else {"text": texts}
    tagged = BulkTagger(ner_model, on_error="mark")(table)
    rows = tagged.to_pydict() if kind == "arrow" else tagged
    assert rows["error"] == [None, "expected a text in 'text', found null", None]
    assert rows["tags"][1] is rows["spans"][1] is rows["tokens"][1] is None
    good = BulkTagger(ner_model)({"text": [TEXTS[0], TEXTS[2]]})
    assert [rows["tags"][0], rows["tags"][2]] == good["tags"]
    with pytest.raises(DataError, match="row 1: expected a text in 'text', found null"):
        BulkTagger(ner_model)(table)


def test_what_the_model_refuses_is_found_among_the_rows_of_its_block(tmp_path):
    from tests.cli.conftest import sentences

    model = HMM().fit(sentences())
    model.save(tmp_path / "hmm.safetensors")
    tagger = BulkTagger(tmp_path / "hmm.safetensors", on_error="mark")
    rows = tagger({"tokens": [["Anna"], ["a", 3], ["Rome", "."], "text", None, ["\ud800"]]})
    assert [error is None for error in rows["error"]] == [True, False, True, False, False, False]
    assert rows["error"][1].startswith("expected strings in 'tokens', found the number 3: write its name, or give")
    assert rows["tags"][0] == model.predict([["Anna"]])[0]
    assert all(tags is None for tags, error in zip(rows["tags"], rows["error"], strict=True) if error)


def test_strings_of_arrow_that_are_not_utf_8_are_bad_rows(ner_model):
    bad = pa.array([b"Anna slept.", b"\xff\xfe", b"Rome."]).view(pa.string())
    rows = BulkTagger(ner_model, on_error="mark")(pa.table({"text": bad}).drop_columns([]))
    assert rows.column("error").to_pylist()[1].startswith("expected text in UTF-8")
    assert rows.column("tags").to_pylist()[0] is not None


@pytest.mark.parametrize("rows", [0, 3])
def test_a_table_of_bad_rows_or_none_has_all_columns(ner_model, rows):
    tagger = BulkTagger(ner_model, outputs=ALL, on_error="mark")
    table = pa.table({"text": pa.array([None] * rows, pa.string())})
    assert tagger(table).schema == tagger.schema(table.schema)
    assert len(tagger(table)) == rows
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    assert tagger(empty).schema == tagger.schema(table.schema)


def test_a_copy_in_another_process_is_a_path_and_the_model_is_opened_once(ner_model, monkeypatch):
    bulk._opened.cache_clear()
    loads = []
    monkeypatch.setattr(bulk, "load", lambda path: loads.append(path) or trellis.load(path))
    tagger = BulkTagger(ner_model)
    copied = pickle.dumps(tagger)
    assert len(copied) < 1000
    for _ in range(3):
        assert pickle.loads(copied)({"text": TEXTS}) == tagger({"text": TEXTS})
    assert loads == [str(ner_model)]


def test_a_model_that_was_replaced_is_refused(ner_model, other_model):
    tagger = BulkTagger(ner_model)
    moved = BulkTagger(other_model, fingerprint=tagger.fingerprint)
    with pytest.raises(ModelError, match="is not the model that this run began with"):
        moved({"text": TEXTS})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "a", "tokens": "b"}, "text='a' and tokens='b': give one of them"),
        ({"tokens": "b", "sentences": True}, "give one of them"),
        ({"batch_tokens": 0}, "batch_tokens must be a whole number from 1 on, got 0"),
        (
            {"outputs": ["tag"]},
            "unknown output 'tag', expected some of tags, spans, probabilities; did you mean 'tags'",
        ),
        ({"outputs": "tags"}, "outputs must be a list"),
        ({"on_error": "skip"}, "on_error must be 'raise' or 'mark', got 'skip'"),
    ],
)
def test_impossible_settings_are_refused_at_once(ner_model, options, message):
    with pytest.raises(ConfigError, match=message):
        BulkTagger(ner_model, **options)


def test_a_wrong_path_and_wrong_tables_say_what_was_expected(ner_model, tmp_path):
    with pytest.raises(StoreError, match="nowhere cannot be read: No such file"):
        BulkTagger(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="holds no model"):
        BulkTagger(tmp_path)
    tagger = BulkTagger(ner_model)
    with pytest.raises(DataError, match="expected a column 'text' or 'tokens', found body; name it with text="):
        tagger({"body": TEXTS})
    with pytest.raises(DataError, match="the table has a column 'tags' already: give prefix="):
        tagger({"text": TEXTS, "tags": TEXTS})
    with pytest.raises(DataError, match="expected an Arrow table, a pandas frame or a dict of columns, found"):
        tagger(TEXTS)


@pytest.mark.parametrize(
    ("call", "module", "extra"),
    [(tag_ray, "ray", "ray"), (tag_spark, "pyspark", "spark"), (tag_dask, "dask", "dask")],
)
def test_an_engine_that_is_missing_is_named_with_its_extra(ner_model, monkeypatch, call, module, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without(module), *sys.meta_path])
    with pytest.raises(ConfigError, match=rf"{call.__name__} needs {module}: pip install 'trellis-crf\[{extra}\]'"):
        call(None, BulkTagger(ner_model))


class _Without:
    """As if a package were not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] == self._name:
            raise ModuleNotFoundError(f"No module named {self._name!r}", name=self._name)


def test_columns_of_a_dict_must_have_one_length(ner_model):
    with pytest.raises(DataError, match="expected columns of one length, found 1 in 'text' and 2 in 'id'"):
        BulkTagger(ner_model)({"text": ["Anna slept."], "id": [1, 2]})


def test_a_frame_with_a_name_twice_is_refused(ner_model):
    frame = pd.DataFrame([["Anna slept.", "x"]], columns=["text", "text"])
    with pytest.raises(DataError, match="expected columns of different names, found 'text' 2 times"):
        BulkTagger(ner_model)(frame)


def test_names_of_columns_may_be_numbers(ner_model):
    frame = pd.DataFrame({"tokens": [["Anna", "slept"]], 7: ["x"]})
    assert list(BulkTagger(ner_model)(frame)["tags"]) == BulkTagger(ner_model)({"tokens": [["Anna", "slept"]]})["tags"]
    assert BulkTagger(ner_model, text="7")(frame.drop(columns="tokens"))["tokens"][0] == ["x"]
