"""The one place that writes files: a file appears under its name only once it is whole and on the disk.

Content goes to a temporary file in the same folder, ``.NAME.XXXXXXXX.partial``, which is flushed to the disk and then
renamed. If anything goes wrong (a full disk, a kill), the file that was there before stays unchanged; `remove_partial`
removes what a killed process left behind. Folders are removed in the same way: renamed first, then emptied. Only
`AppendedLines` writes into a file that is there already: at its end, one whole line at a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trellis.errors import StoreError, TrellisError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".partial"


@contextmanager
def replacing(path: str | os.PathLike[str], error: type[TrellisError] = StoreError) -> Iterator[Path]:
    """A temporary path next to `path`; what the block writes there replaces `path` if it succeeds.

    An `OSError` of the block becomes `error` with the path and the reason; the temporary file is removed. A symbolic
    link stays one: the file that it leads to is replaced. A device or a pipe is never replaced by a file.
    """
    target = _resolved(path, error)
    partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}{_SUFFIX}")
    try:
        # Created by open, so that the permissions follow the user's umask.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield partial
        _sync(partial)
        os.replace(partial, target)
        _sync(target.parent)
    except OSError as problem:
        raise error(f"{path} cannot be written: {problem.strerror or problem}") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def _resolved(path: str | os.PathLike[str], error: type[TrellisError]) -> Path:
    """The file that a path leads to, which is a regular one or does not exist yet."""
    try:
        target = Path(os.path.realpath(path))
        usable, is_folder = target.is_file() or not target.exists(), target.is_dir()
    except (OSError, ValueError) as problem:  # a name that is too long, or no name
        raise error(f"{os.fspath(path)!r} cannot be written: {problem}") from None
    if not usable:
        raise error(f"{path} cannot be written: it is {'a folder' if is_folder else 'not a regular file'}")
    return target


def write_text(path: str | os.PathLike[str], text: str, error: type[TrellisError] = StoreError) -> None:
    """Write a text file, all or nothing; it may contain paths that are not Unicode."""
    with replacing(path, error) as partial:
        partial.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")


def write_bytes(path: str | os.PathLike[str], data: bytes, error: type[TrellisError] = StoreError) -> None:
    """Write a file of bytes, all or nothing."""
    with replacing(path, error) as partial:
        partial.write_bytes(data)


def remove_folder(folder: str | os.PathLike[str], error: type[TrellisError] = StoreError) -> None:
    """Remove a folder with everything in it, if it exists: others see either the whole folder or none."""
    target = Path(folder)
    partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}{_SUFFIX}")
    try:
        os.replace(target, partial)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise error(f"{target} cannot be removed: {problem.strerror or problem}") from None
    shutil.rmtree(partial, ignore_errors=True)


def remove_partial(folder: str | os.PathLike[str]) -> None:
    """Remove what killed processes left in a folder; only the process that may write there calls this."""
    for path in Path(folder).glob(f".*{_SUFFIX}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _sync(path: Path) -> None:
    """Make the system write a file, or the names in a folder, to the disk."""
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class AppendedLines:
    """A file that grows by lines and has one writer: a line is on the disk when `append` returns.

    What a killed writer left of a line, it never said was written: opening the file removes it.
    """

    def __init__(self, path: str | os.PathLike[str], error: type[TrellisError] = StoreError) -> None:
        """Open the file, made if it does not exist; another process that has it open is an error."""
        self._path, self._error = Path(path), error
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as problem:
            raise self._refusal(problem) from None
        try:
            _lock(self._handle)
            whole = self._path.read_bytes()
            os.ftruncate(self._handle, whole.rfind(b"\n") + 1)
        except OSError as problem:
            os.close(self._handle)
            raise self._refusal(problem) from None

    def lines(self) -> list[bytes]:
        """All lines, without their ends."""
        return self._path.read_bytes().split(b"\n")[:-1]

    def append(self, line: bytes) -> None:
        """Write one line."""
        assert b"\n" not in line
        try:
            left = memoryview(line + b"\n")
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError as problem:
            raise self._refusal(problem) from None

    def close(self) -> None:
        """Let others write."""
        os.close(self._handle)

    def _refusal(self, problem: OSError) -> TrellisError:
        if isinstance(problem, BlockingIOError):
            return self._error(f"{self._path} is in use: another process writes to it")
        return self._error(f"{self._path} cannot be written: {problem.strerror or problem}")


def _lock(handle: int) -> None:
    """Lock an open file for this process, where the system can."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
