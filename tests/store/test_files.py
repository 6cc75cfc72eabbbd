"""Saved files: what comes back, and what is said of files that are not whole or not ours."""

import json
import os
import resource
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
    assert stored.manifest.values == {"labels": ["O", "é"]}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(stored.arrays[name], array)
        assert stored.arrays[name].dtype == array.dtype


def test_the_file_is_plain_safetensors(path):
    np.testing.assert_array_equal(load_file(path)["a"], ARRAYS["a"])


def test_arrays_are_in_memory_whatever_becomes_of_the_file(path):
    """A file that is mapped and then truncated, as by `cp` over it, kills the process that reads on."""
    stored = store.load(path)
    os.truncate(path, 0)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(stored.arrays[name], array)
        assert not stored.arrays[name].flags.writeable


def test_each_array_begins_where_its_type_may(tmp_path):
    arrays = {name: np.arange(3).astype(name) for name in ("uint8", "float64", "uint16", "int32", "int64", "float32")}
    store.save(tmp_path / "x", "test", {}, arrays)
    assert all(array.flags.aligned for array in store.load(tmp_path / "x").arrays.values())
    assert all(array.ctypes.data % array.itemsize == 0 for array in store.load(tmp_path / "x").arrays.values())


def test_strings_of_a_manifest_may_have_half_a_surrogate_pair(tmp_path):
    store.save(tmp_path / "x", "test", {"\udc80": ["a\ud800é", "中"]}, {})
    assert store.load(tmp_path / "x").manifest.values == {"\udc80": ["a\ud800é", "中"]}
    load_file(tmp_path / "x")


def test_types_that_cannot_be_read_again_are_not_written(tmp_path):
    with pytest.raises(StoreError, match=r"the array 'a' cannot be stored: expected one of F64, .*, got bool"):
        store.save(tmp_path / "x", "test", {}, {"a": np.ones(3, dtype=bool)})
    assert os.listdir(tmp_path) == []


def test_the_manifest_alone_is_read_without_the_arrays(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] + bytes(20))
    assert store.read_manifest(path, "test").texts("labels") == ("O", "é")
    with pytest.raises(StoreError, match="kind 'test', expected 'crf'"):
        store.read_manifest(path, "crf")


def test_without_verification_damage_is_not_looked_for(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\xff")
    assert store.load(path, verify=False).arrays["d"][-1] == 255


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
        assert (stored.kind, stored.manifest.values) == ("test", {"labels": ["O", "é"]})
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
    with pytest.raises(
        StoreError, match="has format 99; this version of Trellis reads format 1: it was saved by a newer version"
    ):
        store.load(tmp_path / "x")


def test_another_kind_is_refused(path):
    with pytest.raises(StoreError, match="kind 'test', expected 'crf'"):
        store.load(path, "crf")


def test_a_missing_file_is_a_store_error(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        store.load(tmp_path / "nowhere")


def test_what_is_not_a_file_is_not_opened(tmp_path):
    """A pipe that nobody writes to would be waited for, and a device would never end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(StoreError, match="cannot be opened: it is not a file"):
            store.load(path)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StoreError, match="model cannot be written: File too large"):
            store.save(path, "test", {}, {"a": np.ones(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["model"]


def test_a_save_that_fails_at_the_last_step_leaves_the_old_file_and_nothing_else(path, monkeypatch):
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
