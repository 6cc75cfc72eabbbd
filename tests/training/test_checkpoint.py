"""The states of a training's folder, each with what a new training may do there."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.errors import ConfigError, ModelError, NewerFormatError, StoreError
from trellis.training.checkpoint import OWNER, STATE, TrainingFolder, locked, owner_of, read_state

CHECKPOINT = "checkpoint-00000003.safetensors"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model" / "checkpoints"


def begin(path, model="bilstm-crf", **options):
    folder = TrainingFolder(path, model, **options)
    folder.identify(settings={"training.seed": 1, "encoder.hidden": None}, data={"training data": "3 sentences, ab"})
    return folder


def with_checkpoint(path, **options):
    folder = begin(path, **options)
    (path / CHECKPOINT).touch()
    return folder


def test_looking_writes_nothing(path):
    TrainingFolder(path, "crf")
    assert not path.exists()


def test_the_state_of_a_newer_version_is_an_error_that_says_so(path):
    with_checkpoint(path)
    state = json.loads((path / STATE).read_text())
    assert state["format"] == 1
    (path / STATE).write_text(json.dumps({**state, "format": 2, "something": "new"}))
    with pytest.raises(NewerFormatError, match=r"state.json has format 2; .* reads format 1: .* newer version"):
        begin(path, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_fresh_folder_begins(path, resume):
    folder = begin(path, resume=resume)
    assert not folder.resuming
    assert read_state(path).state == "begun"


@pytest.mark.parametrize("resume", [False, True])
def test_killed_before_the_first_checkpoint_begins_again(path, resume):
    begin(path)
    folder = TrainingFolder(path, "crf", resume=resume)
    folder.identify(settings={"training.seed": 2})
    assert not folder.resuming
    assert read_state(path).model == "crf"


def test_killed_after_a_checkpoint_is_refused_and_left_as_it_is(path):
    with_checkpoint(path)
    message = "model holds a bilstm-crf training that did not end, begun 20.*continue it with --resume.*--overwrite"
    with pytest.raises(ModelError, match=message):
        TrainingFolder(path, "bilstm-crf")
    assert sorted(os.listdir(path)) == [CHECKPOINT, STATE]


def test_killed_after_a_checkpoint_goes_on_with_resume(path):
    with_checkpoint(path)
    started = read_state(path).started
    folder = begin(path, resume=True)
    assert folder.resuming
    assert (read_state(path).started, sorted(os.listdir(path))) == (started, [CHECKPOINT, STATE])


def test_an_older_history_does_not_make_a_killed_retraining_finished(path):
    """Once it did: what a finished training had left was taken for the end of the killed one."""
    with_checkpoint(path).finish()
    (path.parent / "history.json").write_text('{"reason": "converged", "kept": 0, "steps": []}')
    with_checkpoint(path)
    (path / "history.json").write_text('{"reason": "converged", "kept": 0, "steps": []}')
    with pytest.raises(ModelError, match="did not end"):
        begin(path)
    assert (path / CHECKPOINT).exists()


def test_overwriting_discards_it_when_the_new_one_begins_and_not_before(path):
    with_checkpoint(path)
    folder = TrainingFolder(path, "crf", overwrite=True)
    assert (path / CHECKPOINT).exists()
    folder.identify()
    assert os.listdir(path) == [STATE]


def test_a_finished_training_leaves_nothing(path):
    folder = with_checkpoint(path)
    folder.finish()
    assert os.listdir(path.parent) == []
    begin(path)


def test_unless_its_checkpoints_are_to_be_kept(path):
    folder = with_checkpoint(path)
    folder.keep = True
    folder.finish()
    assert read_state(path).state == "finished"
    assert begin(path, resume=True).resuming
    with pytest.raises(ModelError, match="did not end"):  # since it goes on
        begin(path)


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_an_error_leaves_only_what_can_go_on(path, has_checkpoint):
    folder = with_checkpoint(path) if has_checkpoint else begin(path)
    folder.close()
    assert path.exists() == has_checkpoint


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"settings": {"training.seed": 2}}, ConfigError, "another training.seed: .* began with 1, now it is 2"),
        ({"settings": {"encoder.hidden": 8}}, ConfigError, "another encoder.hidden: .* with unset, now it is 8"),
        ({"data": {"training data": "3 sentences, cd"}}, ModelError, "the training data differ .*ab, now 3 sent.*cd"),
        ({"data": {"training data": None}}, ModelError, "the training data differ .* now none"),
    ],
)  # fmt: skip
def test_another_training_cannot_go_on(path, changed, error, message):
    with_checkpoint(path)
    folder = TrainingFolder(path, "bilstm-crf", resume=True)
    before = (path / STATE).read_bytes()
    with pytest.raises(error, match=f"^cannot resume.*{message}"):
        folder.identify(**changed)
    assert (path / STATE).read_bytes() == before
    assert (path / CHECKPOINT).exists()


def test_what_is_said_later_counts_too(path):
    folder = with_checkpoint(path)
    folder.identify(settings={"arithmetic": "no"})
    again = begin(path, resume=True)
    with pytest.raises(ConfigError, match="another arithmetic: the training began with 'no', now it is 'bf16'"):
        again.identify(settings={"arithmetic": "bf16"})


def test_another_family_cannot_go_on(path):
    with_checkpoint(path)
    with pytest.raises(ModelError, match=r"cannot resume: .* bilstm-crf training .* not one of softmax"):
        begin(path, model="softmax", resume=True)


@pytest.mark.parametrize("text", [None, "", "[]", '{"state": "over"}', json.dumps({"state": "begun", "model": 3})])
def test_checkpoints_of_an_unknown_training_are_neither_lost_nor_used(path, text):
    with_checkpoint(path)
    (path / STATE).unlink()
    if text is not None:
        (path / STATE).write_text(text)
    with pytest.raises(ModelError, match="did not end"):
        begin(path)
    with pytest.raises(ModelError if text is None else StoreError, match=r"state\.json"):
        begin(path, resume=True)
    begin(path, overwrite=True)


def test_what_a_kill_left_half_written_is_removed(path):
    with_checkpoint(path)
    (path / ".checkpoint-00000006.safetensors.0a1b2c3d.partial").touch()
    begin(path, resume=True)
    assert sorted(os.listdir(path)) == [CHECKPOINT, STATE]


def test_other_processes_of_the_same_training_write_nothing(path):
    folder = TrainingFolder(path, "bilstm-crf", is_main=False)
    folder.identify(settings={"a": 1})
    folder.finish()
    folder.close()
    assert not path.exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda state: state.write_text(state.read_text()[:30]), r"state\.json cannot be read: expected JSON: .*"),
        (
            lambda state: state.write_text("[]"),
            r"state\.json does not describe a training: expected a JSON object, found \[\]",
        ),
        (lambda state: state.unlink(), r"holds checkpoints, but no state\.json to say of which training"),
    ],
    ids=["cut", "other", "gone"],
)
def test_who_cannot_resume_is_told_how_to_begin_again(path, damage, said):
    with_checkpoint(path)
    damage(path / STATE)
    message = rf"^cannot resume: .*{said}; discard it with --overwrite \(in Python, remove .*\), and begin again$"
    with pytest.raises((StoreError, ModelError), match=message):
        begin(path, resume=True)
    assert begin(path, overwrite=True).resuming is False


HOLD = "import sys, time; from pathlib import Path; from trellis.training.checkpoint import locked\n"
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
