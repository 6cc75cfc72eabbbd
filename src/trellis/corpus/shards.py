"""A corpus in several files, which is read anew each time that somebody goes through it.

    corpus = Shards("shards/")                   # JSON Lines, Parquet, Arrow, CoNLL ...: whatever can be read
    tagger.fit(corpus)                           # never holds all of it: a neural tagger reads it once per epoch,
                                                 # a feature CRF once

The files of folders are taken at any depth; what begins with a dot or an underscore is no data, as for Spark and Hive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trellis.corpus.formats import iterate
from trellis.corpus.rows import is_table, read_table
from trellis.corpus.source import StrPath
from trellis.errors import DataError
from trellis.text import Sentence


def find_files(inputs: Iterable[StrPath]) -> Iterator[tuple[Path, Path]]:
    """The files of folders, at any depth, and files that are named themselves: each, and its path in its folder."""
    for source in map(Path, inputs):
        try:
            for path, inside in _files_in(source) if source.is_dir() else [(source, Path(source.name))]:
                if not path.exists():
                    raise DataError(f"{path}: no such file or folder")
                if not path.is_file():
                    raise DataError(f"{path}: expected a file with data, found what is not a regular file")
                yield path, inside
        except OSError as error:
            raise DataError(f"{source}: {error.strerror or error}") from None


def _files_in(source: Path) -> Iterator[tuple[Path, Path]]:
    def refuse(error: OSError) -> None:
        raise error

    for folder, below, files in os.walk(source, onerror=refuse):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        linked = next((name for name in below if os.path.islink(os.path.join(folder, name))), None)
        if linked is not None:  # it may lead anywhere, and round in circles
            raise DataError(f"{Path(folder, linked)} is a link to a folder: name that folder itself")
        for name in files:
            if not name.startswith((".", "_")):
                yield Path(folder, name), Path(folder, name).relative_to(source)


@dataclass(frozen=True)
class Shards:
    """Files of sentences in the order of their names; iterating gives their sentences, from the disk each time."""

    inputs: StrPath | Iterable[StrPath]
    """A folder, a file, or several of them."""
    format: str | None = None
    encoding: str = "utf-8"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reader, as `corpus.iterate` takes them: ``{"tags": "ner_tags"}``."""
    read: Callable[[str], Iterable[Sentence]] | None = None
    """Reads a file in a way of its own."""
    paths: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        inputs = [self.inputs] if isinstance(self.inputs, str | os.PathLike) else list(self.inputs)
        files = sorted((inside.as_posix(), str(path)) for path, inside in find_files(inputs))
        if not files:
            raise DataError(f"there is no file in {', '.join(map(str, inputs))}: expected shards of a corpus")
        object.__setattr__(self, "paths", tuple(path for _, path in files))

    def __iter__(self) -> Iterator[Sentence]:
        """All sentences, shard by shard."""
        for path in self.paths:
            yield from self.sentences(path)

    def sizes(self) -> list[int]:
        """The bytes of each file."""
        return [os.path.getsize(path) for path in self.paths]

    @staticmethod
    def version(path: str) -> tuple[int, int]:
        """The size of a file and when it was last written: other ones mean that it changed."""
        try:
            about = os.stat(path)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None
        return about.st_size, about.st_mtime_ns

    def runs(self, least: int) -> list[list[str]]:
        """Neighbouring files together, so that each run but the last has this many bytes or more."""
        runs: list[list[str]] = []
        size = least
        for path, bytes_of_file in zip(self.paths, self.sizes(), strict=True):
            if size >= least:
                runs.append([])
                size = 0
            runs[-1].append(path)
            size += bytes_of_file
        return runs

    def sentences(self, path: str) -> Iterable[Sentence]:
        """The sentences of one of the files."""
        if self.read is not None:
            return self.read(path)
        if self.format is None and is_table(path):
            return read_table(path, **self.options)
        return iterate(path, format=self.format, encoding=self.encoding, **self.options)
