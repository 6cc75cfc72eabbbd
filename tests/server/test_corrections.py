"""Corrections by many people at once, and corrections on a disk that fails."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Client, client_of
from trellis.errors import ConfigError, DataError, DataWarning
from trellis.server import AnnotationSettings, Corrections, LearningData, ModelRegistry
from trellis.server.annotation import split_corrections

CLIENTS = 16


@pytest.fixture
def annotating(own_folders: dict[str, Path], tmp_path: Path) -> Iterator[Client]:
    settings = AnnotationSettings(tmp_path / "kept.jsonl", pool=["Anna met Rome."])
    yield from client_of(ModelRegistry({"ner": own_folders["ner"]}), annotation=settings)


@pytest.fixture
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trellis.files.os.fsync", lambda _: None)


@pytest.mark.usefixtures("without_fsync")
def test_what_is_known_can_be_asked_for_while_others_correct(tmp_path: Path) -> None:
    kept, stop = Corrections(tmp_path / "kept"), threading.Event()

    def write(writer: int) -> None:
        for number in range(300):
            kept.add("ner", "", [f"{writer} {number}"], ["O"])

    def read() -> int:
        size = 0
        while not stop.is_set():
            found = kept.sentences("ner")
            assert len(found) >= size
            size = len(found)
            assert len(kept) >= size
        return size

    with ThreadPoolExecutor(12) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        for writer in [pool.submit(write, number) for number in range(8)]:
            writer.result()
        stop.set()
        for reader in readers:
            reader.result()
    assert len(kept) == len(kept.sentences("ner")) == 8 * 300
    kept.close()
    assert sorted(Corrections(tmp_path / "kept").sentences("ner")) == sorted(kept.sentences("ner"))


def test_a_correction_is_answered_without_listing_all_of_them(
    annotating: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Corrections, "sentences", lambda _: pytest.fail("all corrections were listed"))
    answer = annotating.post("/v1/corrections", {"tokens": ["a"], "tags": ["O"]})
    assert (answer.status_code, answer.json()["sentences"]) == (200, 1)


def test_a_correction_that_is_taken_back_is_known_no_more(tmp_path: Path) -> None:
    kept = Corrections(tmp_path / "kept")
    kept.add("ner", "a b", ["a", "b"], ["O", None])
    kept.add("ner", "a b", ["a", "b"], [None, None])
    assert (len(kept), kept.sentences("ner"), kept.has_text("a b")) == (0, [], True)


def test_held_out_corrections_are_found_without_comparing_all_with_all() -> None:
    class Token(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Token.compared += 1
            return str.__eq__(self, other)  # type: ignore[arg-type]

        __hash__ = str.__hash__

    corrections = [((Token(number),), ["O"]) for number in range(200)]
    train, dev = split_corrections(corrections, LearningData())
    assert (len(train), len(dev)) == (160, 40)
    assert Token.compared < 1000


class FullDisk:
    """Lets a number of bytes through, half a line perhaps, and then says that the disk is full."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, free: int = 10**9, fsync: bool = True, cut: bool = True
    ) -> None:
        self.free, self._write = free, os.write
        monkeypatch.setattr("trellis.files.os.write", self.write)
        if not fsync:
            monkeypatch.setattr("trellis.files.os.fsync", self.fail)
        if not cut:
            monkeypatch.setattr("trellis.files.os.ftruncate", self.fail)

    def write(self, handle: int, data: bytes) -> int:
        if self.free == 0:
            self.fail()
        written = self._write(handle, data[: self.free])
        self.free -= written
        return written

    def fail(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("disk", [{"free": 0}, {"free": 20}, {"fsync": False}, {"free": 20, "cut": False}])
def test_half_a_correction_is_not_glued_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: dict[str, Any]
) -> None:
    kept = Corrections(tmp_path / "kept")
    kept.add("ner", "a", ["a"], ["O"])
    with monkeypatch.context() as patch:
        FullDisk(patch, **disk)
        with pytest.raises(ConfigError, match="kept cannot be written: No space left on device"):
            kept.add("ner", "b", ["b"], ["O"])
    assert len(kept) == 1
    kept.add("ner", "c", ["c"], ["O"])
    kept.close()
    again = Corrections(tmp_path / "kept")
    assert [tokens for tokens, _ in again.sentences("ner")] == [("a",), ("c",)]


def test_a_client_is_told_that_nothing_was_kept_and_no_path(
    annotating: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"tokens": ["a"], "tags": ["O"]}
    with monkeypatch.context() as patch:
        FullDisk(patch, free=5)
        refused = annotating.post("/v1/corrections", body)
    assert refused.status_code == 503
    assert refused.json()["error"]["message"] == "the correction was not kept: the server cannot write to its disk"
    assert annotating.post("/v1/corrections", body).json()["sentences"] == 1


def line_of(word: str) -> str:
    return json.dumps({"text": word, "tokens": [word], "labels": ["O"], "model": "ner"}, separators=(",", ":"))


def test_lines_that_are_not_whole_are_set_aside(tmp_path: Path) -> None:
    path, half = tmp_path / "kept", line_of("lost")[:-9]
    path.write_text(f"{line_of('a')}\n{half}\nnonsense\n{line_of('b')}\n")
    with pytest.warns(DataWarning, match=r"kept:2, .*kept:3: expected JSON, found a part of it, .* in .*kept\.bad"):
        kept = Corrections(path)
    assert [tokens for tokens, _ in kept.sentences("ner")] == [("a",), ("b",)]
    assert (tmp_path / "kept.bad").read_text() == f"{half}\nnonsense\n"
    with pytest.raises(ConfigError, match="another process"):
        Corrections(path)
    kept.add("ner", "c", ["c"], ["O"])
    kept.close()
    again = Corrections(path)  # without a warning
    assert [tokens for tokens, _ in again.sentences("ner")] == [("a",), ("b",), ("c",)]
    again.close()
    path.write_bytes(path.read_bytes() + b"more\n")
    with pytest.warns(DataWarning, match="kept:4"):
        Corrections(path).close()
    assert (tmp_path / "kept.bad").read_text() == f"{half}\nnonsense\nmore\n"
    assert sorted(os.listdir(tmp_path)) == ["kept", "kept.bad"]


def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "train.conll"
    path.write_text("Anna B-PER\n\n")
    with pytest.raises(DataError, match=r"conll:1: expected JSON: .*; no line of the file is a correction"):
        Corrections(path)
    assert path.read_text() == "Anna B-PER\n\n"
    assert os.listdir(tmp_path) == ["train.conll"]


def test_a_last_line_without_an_end_is_kept_if_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text(f"{line_of('a')}\n{line_of('b')}")
    kept = Corrections(path)
    kept.add("ner", "c", ["c"], ["O"])
    kept.close()
    again = Corrections(path)
    assert [tokens for tokens, _ in again.sentences("ner")] == [("a",), ("b",), ("c",)]
    assert os.listdir(tmp_path) == ["kept"]


@pytest.mark.parametrize("before", ["", f"{line_of('a')}\n"])
def test_a_last_line_that_a_kill_cut_off_is_set_aside(tmp_path: Path, before: str) -> None:
    path, half = tmp_path / "kept", line_of("lost")[:-9]
    path.write_text(before + half)
    with pytest.warns(DataWarning, match=r"expected JSON, found a part of it, which is now in .*kept\.bad"):
        kept = Corrections(path)
    assert len(kept) == bool(before)
    assert (path.read_text(), (tmp_path / "kept.bad").read_text()) == (before, f"{half}\n")


@pytest.mark.parametrize("content", [b"my only copy", b"one\ntwo", b'{"a": 1', b"\x00\x01\n\xff\xfe"])
def test_a_file_that_is_refused_keeps_its_last_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(DataError, match="no line of the file is a correction"):
        Corrections(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["notes"]


@pytest.mark.parametrize(
    ("tokens", "tags", "message"),
    [
        (["Ada", "met"], ["I-PER", "O"], "tags[0] does not fit the scheme: got 'I-PER' after the start"),
        (["Ada", "met"], ["O", "I-PER"], "tags[1] does not fit the scheme: got 'I-PER' after 'O' at the end"),
        ([], [], "tokens must have at least one token, got []"),
    ],
)
def test_a_correction_from_which_nothing_can_be_learned_is_refused(
    annotating: Client, tokens: list[str], tags: list[str], message: str
) -> None:
    refused = annotating.post("/v1/corrections", {"tokens": tokens, "tags": tags})
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, message)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"text": "", "tokens": ["a"], "labels": [], "model": "ner"}',
        '{"text": "", "tokens": ["a"], "labels": ["O"]}',
        "[]",
    ],
)
def test_a_file_of_something_else_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "kept").write_text(f'{{"text": "a", "tokens": ["a"], "labels": ["O"], "model": "ner"}}\n{line}\n')
    with pytest.raises(DataError, match=r"kept:2"):
        Corrections(tmp_path / "kept")


def test_no_correction_that_was_thanked_for_is_lost_by_a_kill(tmp_path: Path) -> None:
    program = (
        "import sys; from trellis.server.corrections import Corrections\n"
        "kept = Corrections(sys.argv[1])\n"
        "for i in range(10**9):\n"
        "    kept.add('ner', str(i), [str(i)], ['O']); print(i, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "kept")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(20):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        last = max([last, *(int(line) for line in process.stdout if line.endswith("\n"))])
    assert len(Corrections(tmp_path / "kept")) > last
