"""Which files are to be tagged: all of some folders, of one format, each with a name of its own in the output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trellis.corpus import FORMATS, find_files, format_of_path, split_suffixes
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
    inputs = list(inputs)
    shards = [_shard(path, inside) for path, inside in find_files(inputs)]
    if not shards:
        raise DataError(f"there is nothing to tag in {', '.join(map(str, inputs))}: expected files in it")
    shards.sort(key=lambda shard: shard.name)
    _check_names(shards)
    return shards


def _shard(path: Path, inside: Path) -> Shard:
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
