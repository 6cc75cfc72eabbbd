"""The records of a shard, in chunks: what is to be tagged, what else a record has, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from trellis.corpus import RelayingSource, Source, Stream, get_format, records
from trellis.distributed.answering import Item
from trellis.distributed.shards import JSONL, PARQUET, TEXT, TOKENS
from trellis.distributed.tables import checked_sentence, checked_text
from trellis.errors import CorpusError, DataError, TrellisError, shown
from trellis.text import Sentence, splitter

_ROWS = 4096
_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Record:
    """One text or sentence of a shard."""

    line: int
    item: Item | TrellisError
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be kept: the fields of a JSON record, the further columns of a sentence."""
    raw: str = ""
    """As it stands in the file, for the list of bad records."""


@dataclass(frozen=True)
class ShardReader:
    """How shards are read."""

    format: str
    text: str | None = None
    tokens: str | None = None
    encoding: str = "utf-8"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the reader of the format, such as the column of the tokens."""

    def chunks(self, path: str) -> Iterator[list[Record]]:
        """The records of a file that is not Parquet."""
        assert self.format != PARQUET
        yield from _chunked(self._records(path))

    def _records(self, path: str) -> Iterator[Record]:
        source = RelayingSource(path, encoding=self.encoding, on_error="skip")
        for found in source.relayed(self._readable(source)):
            if isinstance(found, CorpusError):
                yield Record(found.line, DataError(found.problem), raw=found.whole)
            else:
                yield found

    def _readable(self, source: Source) -> Iterator[Record]:
        if self.format == JSONL:
            return (self._of_json(number, raw, value) for number, raw, value in records(source))
        if self.format == TEXT:
            return (Record(number, line, raw=line) for number, line in source.lines())
        if self.format == TOKENS:
            split = splitter("whitespace").split
            return (Record(number, Sentence(split(line)), raw=line) for number, line in source.lines())
        sentences = Stream.of(get_format(self.format), source, dict(self.options))
        return (
            Record(one.line_of(0) or 0, one.with_tags(None), one.columns, " ".join(one.tokens)) for one in sentences
        )

    def _of_json(self, line: int, raw: str, value: Any) -> Record:
        if not isinstance(value, dict):
            return Record(line, DataError(f"expected a JSON object, found {shown(value)}"), raw=raw)
        if self.text is None and (self.tokens is not None or "tokens" in value):
            return Record(line, checked_sentence(value, self.tokens or "tokens"), value, raw)
        name = self.text or "text"
        if name not in value:
            problem = f"expected a field {name!r}, found {', '.join(map(shown, islice(value, 10))) or 'none'}"
            return Record(line, DataError(problem), raw=raw)
        return Record(line, checked_text(value[name], name), value, raw)


def _chunked(found: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in lists, of which none is long: by their number, and by their characters."""
    chunk: list[Record] = []
    size = 0
    for record in found:
        chunk.append(record)
        size += len(record.raw)
        if len(chunk) >= _ROWS or size >= _CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
