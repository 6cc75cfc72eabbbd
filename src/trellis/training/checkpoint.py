"""The folder of a training that may be killed at any moment, and the checkpoints from which it continues.

    state.json                            what is trained, with which settings and data, and whether it is finished
    checkpoint-00000120.safetensors       the state after iteration or step 120: history, weights, optimizer, and the
                                          best weights so far if they are not the last
    history.json, learning-curve.svg      the steps so far

What a new training does, by the state of the folder:

    state     checkpoints   how it came about                 a new training    with resume
    none      none          nothing was trained here          begins            begins
    begun     none          killed before the first one       begins again      begins again
    begun     some          running, killed or interrupted    is refused        continues
    finished  some          came to its own end               begins again      continues, for more epochs if asked to

The lock, not the state, says whether a training that has begun is running. Only its holder may make a
`TrainingFolder`. It is a lock of the package filelock: the kernel releases it when its owner dies for any reason. On
file systems without such locks, the existence of a file is the lock. The file ``.owner.json`` says who the owner is.

A file appears under its name only once it is whole and on the disk, and checksums reveal a damaged one: whenever the
process is killed, the newest undamaged checkpoint is valid. It does not depend on the number of processes. All families
have the same kind of checkpoint: `trellis.training.loop` writes those of iterations (L-BFGS, OWL-QN, online algorithms,
EM), `trellis.training.neural.epochs` those of epochs.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from trellis import config, files, store
from trellis.arrays import Arrays
from trellis.errors import ConfigError, ModelError, NewerFormatError, StoreError, shown, warn
from trellis.store import Stored
from trellis.training.history import CURVE, HISTORY
from trellis.untrusted import read_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

T = TypeVar("T")
FORMAT = 1
"""The version of state.json."""
STATE, CHECKPOINTS = "state.json", "checkpoint-*.safetensors"
LOCK, MARKER, OWNER = ".lock", ".lock.held", ".owner.json"
# The error of flock if the file system has no locks.
_UNABLE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}


@dataclass(slots=True)
class FolderState:
    """The content of state.json; a training that continues must agree with `settings` and `data`."""

    state: Literal["begun", "finished"]
    model: str
    started: str
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings that influence the weights, by the names under which they are set."""
    data: dict[str, Any] = field(default_factory=dict)
    """Fingerprints, by the name of what they describe."""
    format: int = FORMAT

    def __str__(self) -> str:
        return f"a {self.model} training that did not end, begun {self.started}"


class TrainingFolder:
    """The folder of a training, from its beginning to its end; `home` is the model folder that it lies in."""

    def __init__(
        self,
        path: Path,
        model: str,
        *,
        resume: bool = False,
        overwrite: bool = False,
        is_main: bool = True,
    ) -> None:
        """Look at the folder and refuse what would lose work; nothing is written yet.

        If several processes train together, only the main one writes and checks.
        """
        self.path, self.home, self.is_main = path, path.parent, is_main
        self.resuming = resume and has_checkpoints(path)
        self.keep = False  # the checkpoints of a finished training
        if is_main:
            files.remove_partial(path)
        earlier = None
        if is_main and not overwrite and has_checkpoints(path):
            earlier = self._check_earlier(model, resume)
        self._state = earlier if earlier is not None and self.resuming else FolderState("begun", model, _now())
        self._has_begun = False

    def identify(self, *, settings: Mapping[str, Any] | None = None, data: Mapping[str, Any] | None = None) -> None:
        """Say what is trained; a training that continues must be the same one. The first call begins it."""
        if not self.is_main:
            return
        given = {"settings": settings or {}, "data": data or {}}
        for part, values in given.items():
            known = getattr(self._state, part)
            for name, now in values.items():
                if name in known and known[name] != now:
                    raise _changed(part, name, known[name], now)
        if not self._has_begun and not self.resuming:
            for pattern in (HISTORY, CURVE, CHECKPOINTS, STATE):
                for path in self.path.glob(pattern):
                    path.unlink()
        self._has_begun = True
        for part, values in given.items():
            getattr(self._state, part).update(values)
        self._write("begun")

    def finish(self) -> None:
        """The training ended by itself and its result is saved: its files are removed, unless they are to be kept."""
        if not self.is_main:
            return
        if self.keep:
            self._write("finished")
        else:
            files.remove_folder(self.path)

    @property
    def can_go_on(self) -> bool:
        return has_checkpoints(self.path)

    def close(self) -> None:
        """Remove everything of a training that cannot be continued."""
        if self.is_main and not self.can_go_on:
            files.remove_folder(self.path)

    def _check_earlier(self, model: str, resume: bool) -> FolderState | None:
        """The state of the earlier training with checkpoints here, unless a new one may not replace or continue it."""
        discard = f"discard it with --overwrite (in Python, remove {self.path})"
        try:
            earlier = read_state(self.path)
        except StoreError as error:
            if resume and isinstance(error, NewerFormatError):
                raise
            if resume:
                raise StoreError(f"cannot resume: {error}; {discard}, and begin again") from None
            earlier = None
        if not resume and (earlier is None or earlier.state == "begun"):
            what = "the checkpoints of a training that did not end" if earlier is None else str(earlier)
            raise ModelError(
                f"{self.home} holds {what}: continue it with --resume (in Python, resume=True), or {discard}"
            )
        if resume and earlier is None:
            missing = f"{self.path} holds checkpoints, but no {STATE} to say of which training"
            raise ModelError(f"cannot resume: {missing}; {discard}, and begin again")
        if resume and earlier is not None and earlier.model != model:
            raise ModelError(f"cannot resume: {self.home} holds {earlier}, not one of {model}")
        return earlier

    def _write(self, state: Literal["begun", "finished"]) -> None:
        self._state.state = state
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None
        files.write_json(self.path / STATE, asdict(self._state))


def has_checkpoints(path: Path) -> bool:
    """Whether a training left something to continue from."""
    return next(path.glob(CHECKPOINTS), None) is not None


def read_state(path: Path) -> FolderState | None:
    """The state of the training in this folder, if there is one."""
    values = read_json(path / STATE)
    if values is None:
        return None
    if not isinstance(values, dict):
        raise StoreError(f"{path / STATE} does not describe a training: expected a JSON object, found {shown(values)}")
    version = values.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise NewerFormatError.of(path / STATE, version, FORMAT)
    try:
        return config.from_dict(FolderState, values)
    except (ConfigError, AttributeError, TypeError) as error:
        raise StoreError(f"{path / STATE} does not describe a training: {error}") from None


def _changed(part: str, name: str, was: Any, now: Any) -> ConfigError | ModelError:
    """The error of a training that continues with another setting or with other data."""
    if part == "settings":
        values = ["unset" if value is None else repr(value) for value in (was, now)]
        return ConfigError(
            f"cannot resume with another {name}: the training began with {values[0]}, now it is {values[1]}"
        )
    values = ["none" if value is None else value for value in (was, now)]
    return ModelError(
        f"cannot resume: the {name} differ from those that the training began with (then {values[0]}, now {values[1]})"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")


class CheckpointWarning(UserWarning):
    """A checkpoint was damaged: an earlier one is used instead, or training starts from the beginning."""


_KIND = "training checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved state: plain values, and arrays by part (weights, optimizer, average) and name."""

    stored: Stored

    @property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = self.stored.manifest.value("values", dict)
        return values

    def part(self, name: str) -> Stored:
        """The arrays of a part, by name."""
        prefix = f"{name}:"
        arrays = {key.removeprefix(prefix): a for key, a in self.stored.arrays.items() if key.startswith(prefix)}
        return Stored.of(self.stored.where, self.stored.kind, {}, arrays)


class Checkpoints:
    """The checkpoints of one training in one folder; the newest `keep` of them stay."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self._keep = folder, keep

    def steps(self) -> list[int]:
        """The steps of the existing checkpoints, the newest first."""
        numbers = (path.stem.rpartition("-")[2] for path in self.folder.glob(CHECKPOINTS))
        return sorted((int(number) for number in numbers if number.isdigit()), reverse=True)

    def save(self, step: int, values: Mapping[str, Any], parts: Mapping[str, Arrays]) -> None:
        """Write a checkpoint, and remove earlier ones."""
        arrays = {f"{part}:{name}": array for part, named in parts.items() for name, array in named.items()}
        try:
            store.save(self._path(step), _KIND, {"values": dict(values)}, arrays)
        except StoreError as error:
            hint = "; training can be resumed from the checkpoint before it" if self.steps() else ""
            raise StoreError(f"{error}{hint}") from None
        steps = self.steps()
        newest = [other for other in steps if other <= step][: self._keep]  # later ones are damaged
        for other in set(steps).difference(newest):
            self._path(other).unlink()

    def newest(self, read: Callable[[Checkpoint], T]) -> T | None:
        """The newest checkpoint that is whole, as `read` understands it, with a warning for each that is not."""
        steps = self.steps()
        for step in steps:
            try:
                return read(Checkpoint(store.load(self._path(step), _KIND)))
            except NewerFormatError:  # it is whole, and a training that began again would remove it
                raise
            except StoreError as error:
                if step == steps[-1]:
                    message = (
                        f"no checkpoint can be used, training starts from the beginning; that of step {step}: {error}"
                    )
                else:
                    message = f"checkpoint of step {step} cannot be used, going back to the one before it: {error}"
                warn(message, CheckpointWarning)
        return None

    def _path(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step:08d}.safetensors"


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that trains in a folder, and the time at which it took the lock."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@contextmanager
def locked(folder: Path, doing: str = "is training there") -> Iterator[None]:
    """Hold the lock of a folder; if another process holds it, the error names that one and what it is `doing`."""
    lock = _acquire(folder, doing)
    owner = Owner(os.getpid(), socket.gethostname(), _now())
    try:
        files.write_json(folder / OWNER, asdict(owner))
        yield
    finally:
        if os.getpid() == owner.pid:  # a forked child does not own it
            for name in (OWNER, LOCK):
                with suppress(OSError):
                    (folder / name).unlink()
            lock.release()


def owner_of(folder: Path) -> Owner | None:
    """The process that is training in the folder right now."""
    from filelock import FileLock, Timeout

    owner = _read_owner(folder)
    if owner is None:
        return None
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except (Timeout, OSError):
        return owner
    with suppress(OSError):
        (folder / LOCK).unlink()
    lock.release()
    return None


def _acquire(folder: Path, doing: str) -> BaseFileLock:
    from filelock import FileLock, SoftFileLock, Timeout

    for kind, name in ((FileLock, LOCK), (SoftFileLock, MARKER)):
        lock = kind(folder / name, timeout=0)
        try:
            lock.acquire()
            return lock
        except Timeout:
            owner = _read_owner(folder)
            who = "another process" if owner is None else f"{owner},"
            hint = f"; if that process is gone, remove {lock.lock_file}" if isinstance(lock, SoftFileLock) else ""
            raise ModelError(
                f"{folder} is in use: {who} {doing}; wait for it, or choose another folder{hint}"
            ) from None
        except OSError as error:
            if error.errno not in _UNABLE or kind is SoftFileLock:
                raise StoreError(f"{folder} cannot be locked: {error.strerror}") from None
    raise AssertionError("one of the two kinds of locks was tried last")


def _read_owner(folder: Path) -> Owner | None:
    """The owner that the file in the folder names, if any; its process may have ended."""
    try:
        values: Any = read_json(folder / OWNER)
        return None if values is None else Owner(**values)
    except (StoreError, TypeError):
        return None
