"""One training per folder: a lock that names its owner and ends with it.

If the system can lock a folder (flock), the kernel releases the lock when its owner dies for any reason; the file
``.lock`` only says who the owner is. Elsewhere, as on some network file systems, the file itself is the lock. It is
stale if its process, identified by host, number and start time, is gone; nothing is known about a process on another
host, so its lock has to be removed by hand.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

from trellis.errors import ModelError, StoreError
from trellis.training.record import read_json, write_json

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
# The error of flock if the file system has no locks, or none for folders.
_UNABLE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL}
_held: set[int] = set()


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, distinguished from a later one with the same number."""

    pid: int
    host: str
    started: str | None
    """When the process began, as the kernel counts; None if it does not say."""
    since: str
    """When it took the lock."""

    @classmethod
    def here(cls) -> Self:
        """The current process."""
        now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        return cls(os.getpid(), socket.gethostname(), _started(os.getpid()), now)

    @classmethod
    def of(cls, folder: Path) -> Owner | None:
        """The owner that the file in the folder names, if any."""
        try:
            values: Any = read_json(folder / LOCK)
            return None if values is None else cls(**values)
        except (StoreError, TypeError):
            return None

    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
        if os.name != "posix" or self.host != socket.gethostname() or type(self.pid) is not int:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return self.started is not None and _started(self.pid) not in (None, self.started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@contextmanager
def locked(folder: Path, doing: str = "is training there") -> Iterator[None]:
    """Hold the lock of a folder; if another process holds it, the error names it and what it is `doing`."""
    handle = _flock(folder, doing)
    if handle is None:
        _claim(folder, doing)
    owner = Owner.here()
    try:
        write_json(folder / LOCK, asdict(owner))
        yield
    finally:
        if os.getpid() == owner.pid:  # a forked child does not own it
            with suppress(OSError):
                (folder / LOCK).unlink()
            _release(handle)


def owner_of(folder: Path) -> Owner | None:
    """Who is training in the folder right now; a process on another host may have ended."""
    owner = Owner.of(folder)
    return None if owner is None or owner.is_gone() else owner


def _flock(folder: Path, doing: str) -> int | None:
    """A handle of the folder that holds its lock; None if the system cannot lock it."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(f"{folder} cannot be locked: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in _UNABLE:
            return None
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise _refusal(folder, Owner.of(folder), doing) from None
        raise StoreError(f"{folder} cannot be locked: {error.strerror}") from None
    _forget_in_children()
    _held.add(handle)
    return handle


def _release(handle: int | None) -> None:
    if handle is not None and fcntl is not None:
        _held.discard(handle)
        fcntl.flock(handle, fcntl.LOCK_UN)  # also for a child that was forked just now
        os.close(handle)


def _claim(folder: Path, doing: str) -> None:
    """Make the lock file, in place of one whose owner is gone."""
    for _ in range(2):
        try:
            os.close(os.open(folder / LOCK, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            return
        except FileExistsError:
            owner = Owner.of(folder)
            if owner is None or not owner.is_gone():
                break
            (folder / LOCK).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{folder / LOCK} cannot be written: {error.strerror}") from None
    hint = f"; if that process is gone, remove {folder / LOCK}"
    raise _refusal(folder, Owner.of(folder), doing, hint)


def _refusal(folder: Path, owner: Owner | None, doing: str, hint: str = "") -> ModelError:
    who = "another process" if owner is None else f"{owner},"
    return ModelError(f"{folder} is in use: {who} {doing}; wait for it, or choose another folder{hint}")


def _started(pid: int) -> str | None:
    """The start of a process, in ticks since the boot of the machine, which has its own id."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The name of the program, in brackets, may hold spaces; the 20th field after it is the start time.
        return f"{boot} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return None


@cache
def _forget_in_children() -> None:
    """A forked child that outlives us must not hold our locks."""
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()
