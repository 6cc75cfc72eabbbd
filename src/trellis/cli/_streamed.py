"""Training data that are not held in memory: read once for a feature CRF, anew in each epoch for a neural model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from trellis.cli._reading import Reader, tell_notes
from trellis.cli._tasks import Setting, in_scheme, vocabulary
from trellis.corpus import ReadReport, Shards, Source, Stream, split_suffixes
from trellis.corpus.tables import TABLES, is_table
from trellis.errors import ConfigError, DataError
from trellis.models.families import FAMILIES, get_family
from trellis.models.streams.epochs import SentenceStream, stream_of
from trellis.tags import OnBadTags
from trellis.text import Sentence
from trellis.training.process_group import ProcessGroup

_CHUNK = 4096  # sentences
_SAMPLE, _AT_ONCE = 10_000, 2_000  # sentences
_STDIN = "-"


def stream_settings(model: str) -> list[str]:
    """What ``--stream`` sets for this family; one that learns from sentences in memory is refused."""
    if get_family(model).neural:
        return []
    if not _reads_once(model):
        able = ", ".join(name for name, family in FAMILIES.items() if family.neural or _reads_once(name))
        raise ConfigError(f"--stream: {model} learns from sentences in memory: leave it out, or use one of {able}")
    return ["out_of_core=true"]


def _reads_once(model: str) -> bool:
    return hasattr(get_family(model).defaults(), "out_of_core")


@dataclass(frozen=True)
class StreamedInEpochs:
    """A file or a folder of them that a neural model reads anew in each epoch, after a first pass."""

    stream: SentenceStream
    report: ReadReport
    notes: dict[str, list[str]]
    """What the first pass left out or changed, by file."""

    @classmethod
    def read(cls, reader: Reader, path: str, how: OnBadTags) -> StreamedInEpochs:
        """Go through all shards once."""
        if path == _STDIN:
            raise ConfigError("--stream reads files again and again, which standard input cannot be")
        first = _FirstReading(reader)
        shards = Shards(path, read=first.sentences)
        report = _report(reader, shards)
        stream = stream_of(shards, None, None, how)
        return cls(stream, report, {name: own.notes() for name, own in first.reports.items()})

    @property
    def sample(self) -> list[Sentence]:
        """Some of its sentences: with every label, and every pair of labels."""
        return list(self.stream.sample.inputs)

    def check(self, setting: Setting, how: OnBadTags) -> None:
        """Refuse sentences that a training in memory would convert first."""
        before = self.sample
        after, _ = in_scheme(before, setting, how, setting.found)
        if [(s.tokens, s.tags) for s in before] != [(s.tokens, s.tags) for s in after]:
            raise DataError(
                f"{before[0].where}: --stream learns from sentences as they are, and these are not {setting.task} with "
                f"{setting.scheme.value} tags: write shards that are with trellis convert, or leave out --stream"
            )

    def described(self) -> dict[str, Any]:
        """For the record."""
        return {"format": self.report.format, "sentences": sum(self.stream.counts), "tokens": self.stream.tokens}

    def vocabulary(self, setting: Setting) -> set[str]:
        """Its words."""
        words: set[str] = set()
        for window in self.stream.windows(_CHUNK):
            words |= vocabulary(list(window.inputs), setting)
        return words


@dataclass(frozen=True)
class _FirstReading:
    """Reads files, and keeps the report of the first time that each was read."""

    reader: Reader
    reports: dict[str, ReadReport] = field(default_factory=dict)

    def sentences(self, path: str) -> Iterable[Sentence]:
        """The sentences of a shard, one by one."""
        found = self.reader.sentences(path)
        if isinstance(found, Stream):
            self.reports.setdefault(path, found.report)
        return found


class StreamedOnce:
    """A file, a folder of them or standard input, prepared and counted as it is read; `sample` is its beginning."""

    def __init__(self, reader: Reader, path: str, team: ProcessGroup, *, quiet: bool) -> None:
        self._reader, self._path, self._team, self._quiet = reader, path, team, quiet
        self.notes: dict[str, list[str]] = {}
        """What was left out or changed, by file, as far as they were read."""
        self._shards = None if path == _STDIN else Shards(path, read=self._prepared)
        if self._shards is None:
            opened = reader.open(Source(path, encoding=reader.encoding))
            self.report, self._rest = opened.report, iter(opened)
        else:
            self.report = _report(reader, self._shards)
            self._rest = chain.from_iterable(map(reader.sentences, self._shards.paths))
        self.sample = list(islice(self._rest, _SAMPLE))
        self._how: tuple[Setting, OnBadTags] | None = None
        self._counts: dict[str, tuple[int, int]] = {}
        self._known: set[str] = set()

    def check(self, setting: Setting, how: OnBadTags) -> None:
        """Sentences get tags in this setting when they are read; those that do not fit it are treated then."""
        self._how = setting, how

    @property
    def stream(self) -> Iterable[Sentence]:
        """The sentences with tags in the scheme of the model; files are opened again by whoever reads them."""
        if self._shards is None:
            return self._treated(_STDIN, chain(self._take_sample(), self._rest), self.report)
        self.sample, self._rest = [], iter(())
        return self._shards

    def _prepared(self, path: str) -> Iterator[Sentence]:
        found = self._reader.sentences(path)
        return self._treated(path, found, found.report if isinstance(found, Stream) else ReadReport())

    def _treated(self, path: str, sentences: Iterable[Sentence], report: ReadReport) -> Iterator[Sentence]:
        assert self._how is not None
        setting, how = self._how
        rest, self._counts[path], self.notes[path] = iter(sentences), (0, 0), []
        while block := list(islice(rest, _AT_ONCE)):
            treated, notes = in_scheme(block, setting, how, setting.found)
            self._add(path, notes)
            count, tokens = self._counts[path]
            self._counts[path] = count + len(treated), tokens + sum(map(len, treated))
            self._known |= vocabulary(treated, setting)
            yield from treated
        self._add(path, report.notes())

    def join(self) -> None:
        """What all processes have read: each of them its own files, or all the same."""
        for counts, notes, known in self._team.gather((self._counts, self.notes, self._known)):
            for path in sorted(counts.keys() - self._counts.keys()):
                self._tell(path, notes[path])
            self._counts |= counts
            self._known |= known

    def _add(self, path: str, notes: list[str]) -> None:
        """Tell and keep notes; one that is neither a list nor in one (how tags are spelled) once per file."""
        listed = [note for note in notes if note.startswith(" ") or note.endswith(":") or note not in self.notes[path]]
        self.notes[path] += listed
        self._tell(path, listed)

    def _tell(self, path: str, notes: list[str]) -> None:
        if not self._quiet:
            tell_notes(path, notes)

    def described(self) -> dict[str, Any]:
        """For the record: what was read so far."""
        sentences, tokens = (sum(count[i] for count in self._counts.values()) for i in (0, 1))
        return {"format": self.report.format, "sentences": sentences, "tokens": tokens}

    def vocabulary(self, setting: Setting) -> set[str]:
        """Words that were read."""
        return self._known

    def _take_sample(self) -> Iterator[Sentence]:
        """The first sentences, of which none stays here."""
        self.sample.reverse()
        while self.sample:
            yield self.sample.pop()


Streamed = StreamedInEpochs | StreamedOnce


def _report(reader: Reader, shards: Shards) -> ReadReport:
    """What the files are taken for, each by itself: one file of each suffix is looked at.

    Text that says nothing but where words end has no tags that go with those of another file.
    """
    first_of = {split_suffixes(path)[0]: path for path in reversed(shards.paths)}
    found = {_format(reader, path): path for path in sorted(first_of.values(), reverse=True)}
    form = _format(reader, shards.paths[0])
    others = {name: path for name, path in found.items() if name != form}
    if others and "segmented" in found:
        other = next(iter(others))
        raise DataError(
            f"the folder mixes formats: {shards.paths[0]} is {form}, {others[other]} is {other}; move elsewhere what "
            "is no training data, or give the format of all with --format"
        )
    return ReadReport(form, "its first file is" + "".join(f", {name} since {own} is" for name, own in others.items()))


def _format(reader: Reader, path: str) -> str:
    if reader.format is None and is_table(path):
        return TABLES[split_suffixes(path)[0]].lower()
    found: Iterable[Sentence] = reader.sentences(path)
    return str(getattr(found, "format", reader.format))
