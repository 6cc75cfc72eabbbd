"""Arrays made of buffers are those that `pyarrow.array` makes, and making them imports no pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.distributed.bulk import chosen, lists, numbers, strings
from trellis.errors import DataError

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))


def check_same(found: pa.Array, expected: pa.Array) -> None:
    found.validate(full=True)
    assert found.equals(expected)
    assert found.type == expected.type
    assert found.null_count == expected.null_count


@given(st.lists(st.none() | UNICODE))
def test_strings(texts):
    check_same(strings(texts), pa.array(texts, pa.string()))


@given(st.lists(UNICODE, min_size=1, max_size=5), st.lists(st.integers(0, 4)))
def test_chosen_strings(choices, ids):
    ids = [i % len(choices) for i in ids]
    check_same(chosen(choices, np.array(ids, np.int64)), pa.array([choices[i] for i in ids], pa.string()))


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_numbers(kind, step):
    values = np.arange(7).astype(kind)[::step]
    check_same(numbers(values), pa.array(values))
    check_same(numbers(values[:0]), pa.array(values[:0]))


@given(st.lists(st.lists(UNICODE)))
def test_lists(rows):
    flat = strings([text for row in rows for text in row])
    kind = pa.list_(pa.string())
    check_same(lists(flat, np.array([len(row) for row in rows], np.int64), kind), pa.array(rows, kind))


def test_a_number_that_no_choice_has_is_refused():
    for wrong in (-1, 2):
        with pytest.raises(IndexError, match="no such name"):
            chosen(["a", "b"], np.array([0, wrong], np.int64))


def test_what_utf_8_cannot_hold_is_refused():
    with pytest.raises(DataError, match="surrogates not allowed"):
        strings(["a", "\ud800"])
    with pytest.raises(TypeError, match="must be strings"):
        strings(["a", 3])  # type: ignore[list-item]


TAGGED = """
import sys
from trellis.distributed import BulkTagger
from trellis.distributed.folders import ShardJob, find_shards
from trellis.distributed.engines import attempt

model, shard, form, out = sys.argv[1:]
job = ShardJob(BulkTagger(model), form, "parquet", out, "")
(shard,) = find_shards([shard])
print(attempt(job, shard).rows, "pandas" in sys.modules)
"""


@pytest.mark.parametrize("form", ["parquet", "text", "jsonl"])
def test_a_worker_imports_no_pandas(ner_model, tmp_path, monkeypatch, form):
    (tmp_path / "pandas").mkdir()
    (tmp_path / "pandas" / "__init__.py").write_text("__version__ = '3.0'\n")  # so that there is one
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    shard = tmp_path / "shard"
    if form == "parquet":
        pq.write_table(pa.table({"text": ["Anna met Bob.", None]}), shard)
    else:
        shard.write_text({"text": "Anna.\nBob.\n\xff", "jsonl": '{"text": "Anna.", "n": 1}\n{"text": 3}\n'}[form])
    arguments = [str(ner_model), str(shard), form, str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", TAGGED, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout.split()[1:] == ["False"], done.stdout + done.stderr
    assert Path(tmp_path / "out" / "shard.parquet").exists()
