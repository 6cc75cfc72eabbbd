"""One training per folder: the second is told who the first is, and a dead owner is no owner."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from trellis.errors import ModelError, StoreError
from trellis.training import lock
from trellis.training.lock import LOCK, Owner, locked, owner_of

HOLD = "import sys, time; from pathlib import Path; from trellis.training.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


@pytest.fixture(params=["flock", "no flock", "flock that fails"])
def way(request, monkeypatch):
    """With the kernel's lock, without it, and where the file system has none."""

    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if request.param == "no flock":
        monkeypatch.setattr(lock, "fcntl", None)
    elif request.param == "flock that fails":
        monkeypatch.setattr(lock.fcntl, "flock", fail)
    return request.param


def test_the_second_is_told_who_the_first_is(tmp_path, way):
    with locked(tmp_path):
        message = rf"is in use: process {os.getpid()} on {socket.gethostname()}, since 20.* UTC|\+00:00, is training"
        with pytest.raises(ModelError, match=message), locked(tmp_path):
            pytest.fail("two trainings in one folder")
        assert owner_of(tmp_path).pid == os.getpid()
    assert os.listdir(tmp_path) == []
    with locked(tmp_path):
        pass


def test_it_is_released_after_an_error(tmp_path, way):
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    with locked(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ModelError, match=f"process {process.pid} on"), locked(tmp_path):
            pytest.fail("the other process holds it")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / LOCK).exists()
    assert owner_of(tmp_path) is None
    with locked(tmp_path):
        assert owner_of(tmp_path).pid == os.getpid()
    assert os.listdir(tmp_path) == []


def test_a_process_that_got_the_number_of_a_dead_one_is_not_it(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(lock, "_started", lambda pid: "this boot 2")
    (tmp_path / LOCK).write_text(json.dumps(asdict(replace(Owner.here(), started="this boot 1"))))
    with locked(tmp_path):
        assert Owner.of(tmp_path).started == "this boot 2"


def test_linux_says_when_a_process_began():
    assert sys.platform != "linux" or lock._started(os.getpid()) == lock._started(os.getpid()) != lock._started(1)
    assert lock._started(2**22 + 1) is None


def test_of_another_host_nothing_is_known_without_the_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    other = replace(Owner.here(), host="elsewhere", pid=2**22 + 1)
    (tmp_path / LOCK).write_text(json.dumps(asdict(other)))
    with pytest.raises(ModelError, match=r"on elsewhere.*if that process is gone, remove .*\.lock"), locked(tmp_path):
        pytest.fail("the other host may hold it")
    assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 1}', '{"pid": "x", "host": 3, "started": 1, "since": []}'])
def test_a_damaged_file_is_no_obstacle_where_the_kernel_knows(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_forked_child_does_not_hold_the_lock_of_its_parent(tmp_path):
    with locked(tmp_path):
        (handle,) = lock._held
        child = os.fork()
        if child == 0:
            try:
                os.fstat(handle)
            except OSError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(ModelError, match="is in use"), locked(tmp_path):
            pytest.fail("the parent still holds it")
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_locked_is_an_error_of_ours(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(lock.fcntl, "flock", fail)
    with pytest.raises(StoreError, match="cannot be locked: Input/output error"), locked(tmp_path):
        pytest.fail("nothing holds it")


def test_no_place_for_the_owner_leaves_no_lock(tmp_path, monkeypatch):
    def full(path: Path, values):
        raise StoreError("no space")

    monkeypatch.setattr(lock, "write_json", full)
    with pytest.raises(StoreError, match="no space"), locked(tmp_path):
        pytest.fail("it has no owner")
    monkeypatch.undo()
    with locked(tmp_path):
        pass
