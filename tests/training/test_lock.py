"""One training per folder: the second is told who the first is, and a dead owner is no owner."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.errors import ModelError, StoreError
from trellis.training.lock import OWNER, locked, owner_of

HOLD = "import sys, time; from pathlib import Path; from trellis.training.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


@pytest.fixture(params=["flock", "flock that is missing", "flock that fails"])
def way(request, monkeypatch):
    """With the kernel's lock, without it, and where the file system has none."""

    def fail(*_):
        number = errno.ENOSYS if request.param == "flock that is missing" else errno.ENOLCK
        raise OSError(number, os.strerror(number))

    if request.param != "flock":
        monkeypatch.setattr(fcntl, "flock", fail)
    return request.param


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_the_second_is_told_who_the_first_is(tmp_path, way):
    with locked(tmp_path):
        message = rf"is in use: process {os.getpid()} on {socket.gethostname()}, since 20.* UTC|\+00:00, is training"
        with pytest.raises(ModelError, match=message), locked(tmp_path):
            pytest.fail("two trainings in one folder")
        assert owner_of(tmp_path).pid == os.getpid()
    assert os.listdir(tmp_path) == []
    with locked(tmp_path):
        pass


@pytest.mark.filterwarnings("ignore:flock not supported")
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
    assert (tmp_path / OWNER).exists()
    assert owner_of(tmp_path) is None
    with locked(tmp_path):
        assert owner_of(tmp_path).pid == os.getpid()
    assert os.listdir(tmp_path) == []


def test_without_locks_of_the_kernel_the_message_says_what_to_remove(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    second = pytest.raises(ModelError, match=r"if that process is gone, remove .*\.lock")
    with locked(tmp_path), second, locked(tmp_path):
        pytest.fail("it is held")


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 1}', '{"pid": "x", "host": 3, "started": 1, "since": []}'])
def test_a_damaged_file_is_no_obstacle_where_the_kernel_knows(tmp_path, text):
    (tmp_path / OWNER).write_text(text)
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_forked_child_does_not_hold_the_lock_of_its_parent(tmp_path):
    code = HOLD.replace("time.sleep(60)", "import os; os.fork() or print(os.getpid(), flush=True); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(child, 0)
        with locked(tmp_path):
            pass
        os.kill(child, signal.SIGKILL)


def test_a_folder_that_cannot_be_locked_is_an_error_of_ours(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StoreError, match="cannot be locked: Input/output error"), locked(tmp_path):
        pytest.fail("nothing holds it")


def test_no_place_for_the_owner_leaves_no_lock(tmp_path, monkeypatch):
    def full(path: Path, values):
        raise StoreError("no space")

    monkeypatch.setattr("trellis.files.write_json", full)
    with pytest.raises(StoreError, match="no space"), locked(tmp_path):
        pytest.fail("it has no owner")
    monkeypatch.undo()
    with locked(tmp_path):
        pass
