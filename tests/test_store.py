"""Saved files: what comes back, and what is said of files that are not whole or not ours."""

import json
import os
import zlib

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trellis import files, store
from trellis.errors import StoreError

ARRAYS = {
    "a": np.arange(6, dtype=np.float64).reshape(2, 3),
    "b": np.array([1, 2, 3], dtype=np.uint16),
    "c": np.zeros((0, 4), dtype=np.int64),
    "d": np.arange(5, dtype=np.uint8),
}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "model"
    store.save(target, "test", {"labels": ["O", "é"]}, ARRAYS)
    return target


def test_what_was_saved_comes_back(path):
    stored = store.load(path, "test")
    assert stored.kind == "test"
    assert stored.manifest == {"labels": ["O", "é"]}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(stored.arrays[name], array)
        assert stored.arrays[name].dtype == array.dtype


def test_the_file_is_plain_safetensors(path):
    np.testing.assert_array_equal(load_file(path)["a"], ARRAYS["a"])


def test_arrays_lie_in_the_mapped_file_and_cannot_be_written(path):
    array = store.load(path).arrays["a"]
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_every_truncation_is_an_error(path):
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"truncated|too short|damaged"):
            store.load(path)


def test_every_damaged_byte_of_the_arrays_is_found(path):
    whole = path.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for place in range(begin, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="is damaged: the bytes of array"):
            store.load(path)


def test_damage_to_the_header_is_an_error_and_nothing_else(path):
    whole = path.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for place in range(begin):
        damaged = bytearray(whole)
        damaged[place] ^= 0x05
        path.write_bytes(damaged)
        try:
            stored = store.load(path)
        except StoreError:
            continue
        assert (stored.kind, stored.manifest) == ("test", {"labels": ["O", "é"]})
        for name, array in stored.arrays.items():
            np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too short"),
        (b"PK\x03\x04 a zip file, say", "does not begin with a safetensors header"),
        (b"\x80\x04\x95 a pickle perhaps", "does not begin with a safetensors header"),
        ((2).to_bytes(8, "little") + b"{}", "no manifest"),
        ((2).to_bytes(8, "little") + b"{x", "its header is not JSON"),
    ],
)
def test_foreign_files_are_refused(tmp_path, content, message):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(StoreError, match=message):
        store.load(tmp_path / "x")


def test_somebody_elses_safetensors_are_refused(tmp_path):
    save_file({"w": np.ones(3)}, tmp_path / "x")
    with pytest.raises(StoreError, match="not a model saved by Trellis"):
        store.load(tmp_path / "x")


def test_a_newer_format_is_refused(tmp_path):
    content = {"format": 99, "kind": "test", "crc32": {}, "manifest": {}}
    text = json.dumps(content)
    save_file({}, tmp_path / "x", metadata={"trellis": f"{zlib.crc32(text.encode()):08x} {text}"})
    with pytest.raises(StoreError, match="has format 99; this version of Trellis reads format 1"):
        store.load(tmp_path / "x")


def test_another_kind_is_refused(path):
    with pytest.raises(StoreError, match="kind 'test', expected 'crf'"):
        store.load(path, "crf")


def test_a_missing_file_is_a_store_error(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        store.load(tmp_path / "nowhere")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StoreError, match="model cannot be written: disk full"):
        store.save(path, "test", {}, {"a": np.ones(3)})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["model"]


def test_what_a_kill_would_leave_has_a_name_that_the_next_start_removes(path, monkeypatch):
    seen = []
    monkeypatch.setattr(files, "_sync", lambda path: seen.append(set(os.listdir(path.parent))))
    store.save(path, "test", {}, ARRAYS)
    (left,) = seen[0] - {"model"}
    (path.parent / left).touch()
    files.remove_partial(path.parent)
    assert os.listdir(path.parent) == ["model"]


def test_types_that_cannot_be_read_again_are_not_written(tmp_path):
    with pytest.raises(StoreError, match="array 'a' is of type bool: a saved model holds float64, "):
        store.save(tmp_path / "x", "test", {}, {"a": np.ones(3, dtype=bool)})
    assert os.listdir(tmp_path) == []


def test_each_array_begins_where_its_type_may(tmp_path):
    arrays = {name: np.arange(3).astype(name) for name in ("uint8", "float64", "uint16", "int32", "int64", "float32")}
    store.save(tmp_path / "x", "test", {"odd": "é" * 3, "lone": "\udc80"}, arrays)
    stored = store.load(tmp_path / "x")
    assert all(array.ctypes.data % array.itemsize == 0 for array in stored.arrays.values())
    assert stored.manifest["lone"] == "\udc80"


def test_the_umask_decides_who_may_read(path):
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
