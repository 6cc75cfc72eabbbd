"""Headers that lie: places, shapes and types of arrays, and JSON that no parser should be trusted with."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import store
from trellis.errors import StoreError


def write(path: Path, header: dict[str, Any] | bytes, data: bytes = bytes(32), manifest: str | None = None) -> Path:
    """A file of this header; a manifest's checksum is right."""
    text = manifest or json.dumps({"format": 1, "kind": "test", "crc32": {}, "manifest": {}})
    if isinstance(header, dict):
        metadata = {"trellis": f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x} {text}"}
        header = json.dumps({"__metadata__": metadata, **header}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def entry(shape: Any = (4,), places: Any = (0, 32), dtype: Any = "F64") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": places}


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as found:
        store.load(path, verify=False)
    return str(found.value)


def test_a_header_that_is_true_is_believed(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"a": entry(), "b": entry((0, 3), (32, 32))})
    assert store.load(path, verify=False).arrays["a"].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        (entry(places=(0, 40)), "is truncated: array 'a' ends at byte 40 of 32"),
        (entry(places=(-8, 24)), "item 0 of the field 'data_offsets' must be in 0.."),
        (entry(places=(32, 0)), "describes array 'a' by shape (4,) and offsets (32, 0)"),
        (entry(places=(0, 2**70)), "item 1 of the field 'data_offsets' must be in 0.."),
        (entry(places=(0, 32.0)), "item 1 of the field 'data_offsets' must be a whole number, got a number (32.0)"),
        (entry(places=(False, 32)), "item 0 of the field 'data_offsets' must be a whole number, got true or false"),
        (entry(places=(0, 16, 32)), "describes array 'a' by shape (4,) and offsets (0, 16, 32)"),
        (entry(places=None), "the field 'data_offsets' must be a list, got null"),
        (entry(shape=(5,)), "is damaged: array 'a' of shape (5,) has 32 bytes"),
        (entry(shape=(-4,)), "item 0 of the field 'shape' must be in 0.."),
        (entry(shape=(2**62, 4, 4)), "of shape (4611686018427387904, 4, 4) has 32 bytes"),  # 0 bytes in 64 bits
        (entry(shape=(2**62, 2**62, 0), places=(0, 0)), "has the impossible shape"),
        (entry(shape=[1] * 40, places=(0, 8)), "describes array 'a' by shape"),
        (entry(shape="4"), "the field 'shape' must be a list, got a string ('4')"),
        (entry(dtype="F16"), "the field 'dtype' must be one of 'F64', "),
        (entry(dtype=["F64"]), "the field 'dtype' must be a string, got a list"),
        ({"dtype": "F64", "shape": [4]}, "lacks the field 'data_offsets': expected a list"),
        ([1, 2], "the field 'a' must be an object, got a list"),
        (None, "the field 'a' must be an object, got null"),
        (entry((3,), (0, 24)), "is damaged: its arrays end at byte 24 of 32"),
        (entry((3,), (8, 32)), "is damaged: array 'a' begins at byte 8, expected 0"),
    ],
)
def test_a_header_that_lies_about_an_array_is_refused(tmp_path: Path, described: Any, problem: str) -> None:
    assert problem in refusal(write(tmp_path / "x", {"a": described}))


def test_arrays_that_overlap_are_refused(tmp_path: Path) -> None:
    header = {"a": entry((3,), (0, 24)), "b": entry((2,), (16, 32))}
    assert "array 'b' begins at byte 16, expected 24" in refusal(write(tmp_path / "x", header))


def test_an_array_that_lies_askew_is_copied(tmp_path: Path) -> None:
    header = {"a": entry((1,), (0, 1), "U8"), "b": entry((3,), (1, 25)), "c": entry((7,), (25, 32), "U8")}
    array = store.load(write(tmp_path / "x", header), verify=False).arrays["b"]
    assert array.flags.aligned
    assert array.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b'{"a":' * 100_000, "its header is not JSON: it is nested too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "its header is not JSON: a number has more than 4300 digits"),
        (b'{"\xff": 1}', "its header is not JSON"),
        (b'{"a": 1', "its header is not JSON"),
    ],
)
def test_json_that_no_parser_takes_is_refused(tmp_path: Path, header: bytes, problem: str) -> None:
    assert problem in refusal(write(tmp_path / "x", header))


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("[" * 100_000, "its manifest is not JSON: it is nested too deeply"),
        ("9" * 5000, "its manifest is not JSON: a number has more than 4300 digits"),
        ("[1]", "its manifest must be an object, got a list"),
        ('{"kind": "test"}', "its manifest lacks the field 'format': expected a whole number"),
        ('{"format": true}', "its manifest: the field 'format' must be a whole number, got true or false"),
        ('{"format": 1}', "its manifest lacks the field 'manifest': expected an object"),
        ('{"format": 1, "kind": 3, "manifest": {}, "crc32": {}}', "'kind' must be a string, got a whole number (3)"),
        ('{"format": 1, "kind": "test", "manifest": []}', "the field 'manifest' must be an object, got a list"),
        ('{"format": 1, "kind": "test", "manifest": {}, "crc32": 1}', "the field 'crc32' must be an object"),
    ],
)
def test_manifests_that_are_none_are_refused(tmp_path: Path, manifest: str, problem: str) -> None:
    assert problem in refusal(write(tmp_path / "x", {}, b"", manifest))


def test_what_is_no_text_is_no_manifest(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"trellis": ["x"]}}).encode()
    assert "it has no manifest" in refusal(write(tmp_path / "x", header, b""))


def test_a_length_beyond_memory_is_refused_before_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    assert "does not begin with a safetensors header" in refusal(tmp_path / "x")
    (tmp_path / "x").write_bytes((90_000_000).to_bytes(8, "little") + b"{}")
    assert "is truncated: its header needs 90000008 bytes, the file has 10" in refusal(tmp_path / "x")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(tmp_path / "x", "test", {}, {"a": np.ones(1000)})
    empty = np.empty
    monkeypatch.setattr(
        np, "empty", lambda size, dtype: (size == 8000 and _shrink(tmp_path / "x"), empty(size, dtype))[1]
    )
    assert "is truncated: it became shorter while it was read" in refusal(tmp_path / "x")


def _shrink(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4000])


def test_more_than_fits_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(tmp_path / "x", "test", {}, {"a": np.ones(1000)})
    empty = np.empty

    def short(size: int, dtype: Any) -> Any:
        if size == 8000:
            raise MemoryError
        return empty(size, dtype)

    monkeypatch.setattr(np, "empty", short)
    assert "cannot be opened: its arrays need 8000 bytes of memory" in refusal(tmp_path / "x")
