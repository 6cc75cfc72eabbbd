"""Which files are to be tagged: all of some folders, of one format, each with a name of its own in the output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trellis.corpus import FORMATS, format_of_path, split_suffixes
from trellis.errors import ConfigError, DataError

PARQUET, TEXT, TOKENS, JSONL = "parquet", "text", "tokens", "jsonl"
SUFFIXES = {".parquet": PARQUET, ".txt": TEXT, ".text": TEXT, ".seg": TEXT}
# Of the formats of corpora, those whose files are read piece by piece; texts with spans are JSON Lines like others.
SHARD_FORMATS = (PARQUET, JSONL, TEXT, TOKENS, *(name for name in FORMATS if name in ("conll", "conllu", "wordtag")))


@dataclass(frozen=True)
class Shard:
    """One file to be tagged."""

    path: str
    name: str
    """Of the output, without its suffix: the path within its folder."""
    size: int
    """In bytes, as it lies on the disk."""
    time: int
    """When it was last changed, in nanoseconds."""


def find_shards(inputs: Iterable[str | os.PathLike[str]]) -> list[Shard]:
    """The files of folders, at any depth, and files that are named themselves; sorted, so that every run has the same.

    What begins with a dot or an underscore in a folder is no data, as for Spark and Hive.
    """
    shards = [shard for given in inputs for shard in _found(Path(given))]
    if not shards:
        raise DataError(f"there is nothing to tag in {', '.join(map(str, inputs))}: expected files in it")
    shards.sort(key=lambda shard: shard.name)
    _check_names(shards)
    return shards


def _found(given: Path) -> Iterator[Shard]:
    try:
        if not given.is_dir():
            yield _shard(given, Path(given.name))
            return
        for folder, below, files in os.walk(given, onerror=_refuse):
            below[:] = [name for name in below if not name.startswith((".", "_"))]
            linked = next((name for name in below if os.path.islink(os.path.join(folder, name))), None)
            if linked is not None:  # it may lead anywhere, and round in circles
                raise DataError(f"{Path(folder, linked)} is a link to a folder: name that folder itself")
            for name in files:
                if not name.startswith((".", "_")):
                    path = Path(folder, name)
                    yield _shard(path, path.relative_to(given))
    except OSError as error:
        raise DataError(f"{given}: {error.strerror or error}") from None


def _refuse(error: OSError) -> None:
    raise error


def _shard(path: Path, inside: Path) -> Shard:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_file():
        raise DataError(f"{path}: expected a file with data, found what is not a regular file")
    suffix, packing = split_suffixes(path)
    name, about = inside.as_posix(), path.stat()
    stem = name[: len(name) - len(suffix) - len(packing)]
    return Shard(os.path.abspath(path), stem or name, about.st_size, about.st_mtime_ns)


def _check_names(shards: list[Shard]) -> None:
    for one, other in pairwise(shards):
        if one.name == other.name:
            raise DataError(f"{one.path} and {other.path} would both be written as {one.name}: rename one of them")


def common_format(shards: list[Shard], asked: str | None) -> str:
    """The format of all shards: the one that is asked for, or what their names say, which must be the same for all."""
    if asked is not None:
        if asked not in SHARD_FORMATS:
            raise ConfigError(f"unknown format {asked!r} of shards, expected one of {', '.join(SHARD_FORMATS)}")
        return asked
    first = _format_of(shards[0])
    other = next((shard for shard in shards if _format_of(shard) != first), None)
    if other is not None:
        raise DataError(
            f"the folder mixes formats: {shards[0].path} is {first}, {other.path} is {_format_of(other)}; tag them in "
            "runs of their own, or give the format of all with --from (in Python format=)"
        )
    return first


def _format_of(shard: Shard) -> str:
    suffix, _ = split_suffixes(shard.path)
    found = SUFFIXES.get(suffix) or _corpus_format(shard)
    if found not in SHARD_FORMATS:
        raise DataError(f"{shard.path}: shards cannot be {found}, only {', '.join(SHARD_FORMATS)}")
    return found


def _corpus_format(shard: Shard) -> str:
    try:
        return format_of_path(shard.path).name
    except DataError:
        raise DataError(
            f"{shard.path}: its name tells no format; give --from (in Python format=) with one of "
            f"{', '.join(SHARD_FORMATS)}, or move it elsewhere if it is no data"
        ) from None
