"""The one place that writes files: a file appears under its name only once it is whole and on the disk.

Content goes to a temporary file in the same folder, ``.NAME.XXXXXXXX.partial``, which is flushed to the disk and then
renamed. If anything goes wrong (a full disk, a kill), the file that was there before stays unchanged; `remove_partial`
removes what a killed process left behind. Folders are removed in the same way: renamed first, then emptied. Only
`AppendedLines` writes into a file that is there already: at its end, one whole line at a time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
    partial = _beside(target)
    try:
        _create(partial)
        yield partial
        _sync(partial)
        os.replace(partial, target)
        _sync(target.parent)
    except OSError as problem:
        raise _unwritable(path, problem, error) from None
    finally:
        _remove(partial)


def write_together(contents: Mapping[Path, str | Callable[[Path], object]]) -> None:
    """Write several files, given as texts or as functions that write to a path: all of them, or if one fails none.

    Only a kill at the very moment when they get their names may leave some of them as they were.
    """
    targets = {path: _resolved(path, StoreError) for path in contents}
    partials = {path: _beside(target) for path, target in targets.items()}
    old: dict[Path, Path] = {}  # the old files, under another name, while the new ones take their places
    path = next(iter(contents))
    try:
        for path, content in contents.items():
            _create(partials[path])
            if isinstance(content, str):
                _write_text(partials[path], content)
            else:
                try:
                    content(partials[path])
                except StoreError as problem:  # which names the temporary file
                    raise StoreError(str(problem).replace(str(partials[path]), str(path))) from None
            _sync(partials[path])
        for path, target in targets.items():
            if target.exists():
                old[path] = _beside(target)
                try:
                    os.link(target, old[path])
                except OSError:  # not every file system has a second name for a file
                    shutil.copyfile(target, old[path])
        done: list[Path] = []
        try:
            for path, target in targets.items():
                os.replace(partials[path], target)
                done.append(path)
        except BaseException:
            for changed in done:
                with suppress(OSError):
                    if changed in old:
                        os.replace(old[changed], targets[changed])
                    else:
                        targets[changed].unlink()
            raise
        for folder in {target.parent for target in targets.values()}:
            _sync(folder)
    except OSError as problem:
        raise _unwritable(path, problem, StoreError) from None
    finally:
        for left in (*partials.values(), *old.values()):
            _remove(left)


def _beside(target: Path) -> Path:
    """A name for a temporary file in the same folder."""
    return target.with_name(f".{target.name}.{os.urandom(4).hex()}{_SUFFIX}")


def _create(partial: Path) -> None:
    """Make the file by open, so that its permissions follow the user's umask."""
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


def _remove(partial: Path) -> None:
    with suppress(OSError):
        partial.unlink()


def _unwritable(path: str | os.PathLike[str], problem: OSError, error: type[TrellisError]) -> TrellisError:
    return error(f"{path} cannot be written: {problem.strerror or problem}")


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
        _write_text(partial, text)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")


def write_bytes(path: str | os.PathLike[str], data: bytes, error: type[TrellisError] = StoreError) -> None:
    """Write a file of bytes, all or nothing."""
    with replacing(path, error) as partial:
        partial.write_bytes(data)


def remove_folder(folder: str | os.PathLike[str]) -> None:
    """Remove a folder with everything in it, if it exists: others see either the whole folder or none."""
    target = Path(folder)
    partial = _beside(target)
    try:
        os.replace(target, partial)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise StoreError(f"{target} cannot be removed: {problem.strerror or problem}") from None
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

    What a failed `append` wrote is removed at once. A killed writer may leave a line without an end: opening changes
    nothing, and the owner has to `set_aside` what is no line of its own before it appends.
    """

    def __init__(self, path: str | os.PathLike[str], error: type[TrellisError] = StoreError) -> None:
        """Open the file, made if it does not exist; another process that has it open is an error."""
        self._path, self._error = Path(path), error
        self._whole_size: int | None = None  # after a failed append that could not be removed yet
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as problem:
            raise self._refusal(problem) from None
        try:
            _lock(self._handle)
            if not os.path.samestat(os.fstat(self._handle), os.stat(self._path)):
                raise BlockingIOError  # another process has just replaced it
        except OSError as problem:
            os.close(self._handle)
            raise self._refusal(problem) from None

    def lines(self) -> tuple[list[bytes], bool]:
        """All lines, without their ends, and whether the last one has an end."""
        try:
            *whole, rest = self._path.read_bytes().split(b"\n")
        except OSError as problem:
            raise self._error(f"{self._path} cannot be read: {problem.strerror or problem}") from None
        return [*whole, rest] if rest else whole, not rest

    def append(self, line: bytes) -> None:
        """Write one line."""
        assert b"\n" not in line
        try:
            self._remove_half_a_line()
            size = os.fstat(self._handle).st_size
        except OSError as problem:
            raise self._refusal(problem) from None
        try:
            left = memoryview(line + b"\n")
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except BaseException as problem:
            self._whole_size = size
            with suppress(OSError):  # else the next append removes it, or the next process
                self._remove_half_a_line()
            raise self._refusal(problem) if isinstance(problem, OSError) else problem from None

    def set_aside(self, good: Sequence[bytes], bad: Sequence[bytes]) -> Path:
        """Leave only the good lines in the file; the bad ones go to the end of ``NAME.bad``, which is returned."""
        aside = self._path.with_name(f"{self._path.name}.bad")
        try:
            earlier = aside.read_bytes() if aside.exists() else b""
        except OSError as problem:
            raise self._refusal(problem) from None
        if bad:
            write_bytes(aside, earlier + b"".join(line + b"\n" for line in bad), self._error)
        with replacing(self._path, self._error) as partial:
            partial.write_bytes(b"".join(line + b"\n" for line in good))
            handle = os.open(partial, os.O_RDWR | os.O_APPEND)
            _lock(handle)  # before anybody sees it
        os.close(self._handle)
        self._handle = handle
        return aside

    def close(self) -> None:
        """Let others write."""
        os.close(self._handle)

    def _remove_half_a_line(self) -> None:
        if self._whole_size is not None:
            os.ftruncate(self._handle, self._whole_size)
            self._whole_size = None

    def _refusal(self, problem: OSError) -> TrellisError:
        if isinstance(problem, BlockingIOError):
            return self._error(f"{self._path} is in use: another process writes to it")
        return _unwritable(self._path, problem, self._error)


def _lock(handle: int) -> None:
    """Lock an open file for this process, where the system can."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values, all or nothing."""
    write_text(path, json_text(values))


def json_text(values: Mapping[str, Any]) -> str:
    """Plain values as indented JSON."""
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"
