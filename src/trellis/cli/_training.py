"""One training of ``trellis train``: its files, the learning, and the record of it."""

from __future__ import annotations

import datetime
import os
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

import trellis
from trellis.cli._reading import Reader, tell_notes, tell_unseen
from trellis.cli._signals import Stop, StoppableLine
from trellis.cli._streamed import Streamed, StreamedOnce
from trellis.cli._tasks import Setting, Task, in_scheme, training_setting
from trellis.corpus import Corpus
from trellis.corpus.spans import SPAN_FIELDS
from trellis.errors import DataError, DataWarning, number_of
from trellis.lexicon import Lexicon
from trellis.models import Tagger, folder
from trellis.models.raw_text import tokenizer_for
from trellis.tags import OnBadTags, Scheme, detect
from trellis.text import Sentence, Splitter, splitter
from trellis.training import History
from trellis.training.process_group import SINGLE, ProcessGroup
from trellis.training.progress import LiveLine

_REASONS = {
    "converged": "converged",
    "max_iterations": "reached the limit of iterations",
    "no_progress": "stopped, since no step lowers the loss",
    "early_stopping": "stopped, since the held-out score no longer rises",
    "interrupted": "interrupted",
    "diverged": "stopped, since the loss is NaN or infinite",
}


@dataclass(frozen=True)
class Data:
    """The files, by what they are for, with sentences prepared for the task."""

    files: dict[str, Corpus]
    paths: dict[str, str]
    setting: Setting
    options: dict[str, object]
    """How their columns are read, for the commands that use the model."""
    streamed: Streamed | None = None
    """The training data, if they are not in memory; their file then has some of the sentences."""

    def sentences(self, role: str) -> list[Sentence] | None:
        """The sentences of a file, if it was given."""
        return self.files[role].sentences if role in self.files else None

    def described(self, role: str) -> dict[str, Any]:
        """A file for the record."""
        if role == "train" and self.streamed is not None:
            return {"path": self.paths[role], **self.streamed.described()}
        file = self.files[role]
        tokens = sum(map(len, file.sentences))
        return {
            "path": self.paths[role],
            "format": file.format,
            "sentences": len(file),
            "tokens": tokens,
        }


def read(
    reader: Reader,
    paths: dict[str, str | None],
    task: Task | None,
    scheme: str | None,
    how: OnBadTags,
    quiet: bool,
    say: Console,
    streamed: Streamed | None,
) -> Data:
    """Read the files, and say what they are taken for."""
    given = {role: path for role, path in paths.items() if path is not None}
    raw = {}
    for role, path in given.items():
        if role == "train" and streamed is not None:
            raw[role], notes = Corpus(list(streamed.sample), streamed.report), streamed.notes
        else:
            raw[role] = _read_file(reader, path)
            notes = {path: raw[role].report.notes()}
        say.print(f"{role}: {escape(path)}, {raw[role].format} since {raw[role].report.reason}")
        for name in notes if not quiet else ():
            tell_notes(name, notes[name])
    if not raw["train"].sentences:
        raise DataError(f"{given['train']}: there is no sentence to learn from")
    if task is None:
        _check_tagged(given["train"], raw["train"])
    setting = _setting(raw, task, scheme)
    if streamed is not None:
        streamed.check(setting, how)
    files = {}
    for role, file in raw.items():
        sentences, mended = in_scheme(file.sentences, setting, how, setting.found if role == "train" else None)
        files[role] = replace(file, sentences=sentences)
        if not quiet and not (role == "train" and isinstance(streamed, StreamedOnce)):  # which tells it as it is read
            tell_notes(given[role], mended)
    if not files["train"].sentences:
        raise DataError(f"{given['train']}: there is no sentence left to learn from")
    if isinstance(streamed, StreamedOnce):
        say.print(f"train: read as it is learned from; task and scheme by its first {len(raw['train']):,} sentences")
        files["train"] = replace(files["train"], sentences=[])
    data = Data(files, given, setting, reader.options, streamed)
    for role in files if not isinstance(streamed, StreamedOnce) else files.keys() - {"train"}:
        about = data.described(role)
        say.print(f"{role}: {number_of(about['sentences'], 'sentence')}, {number_of(about['tokens'], 'token')}")
    guessed = "" if task is not None else " (guessed from the tags)"
    say.print(f"task {setting.task}{guessed}, scheme {setting.scheme.value}{'' if scheme else ' (detected)'}")
    return data


def _read_file(reader: Reader, path: str) -> Corpus:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder, expected a file: --stream learns from the files of a folder")
    return reader.read(path)


def _check_tagged(path: str, file: Corpus) -> None:
    """Words without tags can teach a segmentation, but so would be taken annotations that a reader does not know."""
    beside = Path(path).with_suffix(".ann")
    if file.format == "segmented" and beside.suffix != Path(path).suffix and beside.is_file():
        raise DataError(
            f"{path}: expected words between spaces, found a text whose annotations, of brat, are beside it in "
            f"{beside}, which is not read; if its words are those of a segmentation, give --task seg"
        )
    if any(sentence.tags is not None for sentence in file):
        return
    found = "texts without spans" if file.format == "spans" else "tokens without tags"
    fields = "fields " + ", ".join(SPAN_FIELDS) if file.format == "spans" else "a column or field that --tags names"
    raise DataError(
        f"{path}: expected tags to learn, found {found}, which are read from {fields}; if its tokens are the words of "
        "a segmentation, give --task seg"
    )


def _setting(raw: dict[str, Corpus], task: Task | None, scheme: str | None) -> Setting:
    """How tags are read: as those of the training file; where it never needs a B and another file does, with B."""
    setting = training_setting(task, scheme, raw["train"].sentences)
    if scheme is not None or setting.scheme is not Scheme.IO:
        return setting
    others = (detect([s.tags for s in file if s.tags]).scheme for role, file in raw.items() if role != "train")
    return replace(setting, scheme=Scheme.IOB1) if Scheme.IOB1 in others else setting


@dataclass
class Run:
    """One training: its inputs, and the record of it."""

    model: str
    data: Data
    settings: Any
    command: str
    lexicon: Lexicon | None = None
    team: ProcessGroup = SINGLE
    started: str = ""
    seconds: float = 0.0

    def fit(
        self, tagger: Tagger[Any], place: folder.ModelFolder, warm_start: bool, stop: Stop, say: Console
    ) -> Tagger[Any]:
        """Train, with a live line if someone watches."""
        tagger.config = self.settings
        self.started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        begin = time.perf_counter()
        sentences, dev = self.data.sentences("train") or [], self.data.sentences("dev")
        with LiveLine(say) as line, warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # said already, file by file
            streamed = self.data.streamed
            tagger.fit(
                self.team.share(sentences) if streamed is None else streamed.stream,
                dev=dev,
                warm_start=warm_start,
                progress=StoppableLine(line, stop),
                folder=place,
                lexicon=self.lexicon,
                tokenizer=self._tokenizer(),
            )
        self.seconds = time.perf_counter() - begin
        if isinstance(streamed, StreamedOnce):
            streamed.join()
        for role in ("dev", "test"):
            if role in self.data.files and not say.quiet:
                tell_unseen(self.data.paths[role], self.data.sentences(role) or [], tagger.labels_)
        say.print(f"{self.model}: {_ending(tagger.history_)}, {self.seconds:.1f} s")
        return tagger

    def _tokenizer(self) -> Splitter | None:
        """That of all sentences, if this process does not have all of them."""
        if self.team.count == 1 or self.data.streamed is not None:
            return None
        return tokenizer_for(self.settings.tokenizer, self.data.sentences("train") or [])

    def record(self, tagger: Tagger[Any], figures: dict[str, dict[str, float]]) -> dict[str, Any]:
        """What training.json holds."""
        setting, history = self.data.setting, tagger.history_
        return {
            "trellis": trellis.__version__,
            "command": self.command,
            "model": self.model,
            "task": setting.task.value,
            "scheme": setting.scheme.value,
            "labels": list(tagger.labels_),
            "tokenizer": splitter(tagger.tokenizer_).name,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "iterations": len(history.steps),
            "reason": history.reason,
            "reading": self.data.options,
            "data": {role: self.data.described(role) for role in self.data.files},
            "figures": figures,
        }


def _ending(history: History) -> str:
    if not history.steps:
        return "nothing was learned"
    kept = "" if history.kept == len(history.steps) - 1 else f", the best was {history.steps[history.kept].iteration}"
    return f"{_REASONS[history.reason]} after {number_of(len(history.steps), 'iteration')}{kept}"
