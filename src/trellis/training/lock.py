"""One training per folder: a lock that names its owner and ends with it.

The lock is that of the package filelock: the kernel releases it when its owner dies for any reason. On file systems
without such locks, the existence of a file is the lock. The file ``.owner.json`` says who the owner is.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trellis import files
from trellis.errors import ModelError, StoreError
from trellis.untrusted import read_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK, MARKER, OWNER = ".lock", ".lock.held", ".owner.json"
# The error of flock if the file system has no locks.
_UNABLE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that trains in a folder."""

    pid: int
    host: str
    since: str
    """When it took the lock."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@contextmanager
def locked(folder: Path, doing: str = "is training there") -> Iterator[None]:
    """Hold the lock of a folder; if another process holds it, the error names it and what it is `doing`."""
    lock = _acquire(folder, doing)
    owner = Owner(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(sep=" ", timespec="seconds"))
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
    """Who is training in the folder right now."""
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
