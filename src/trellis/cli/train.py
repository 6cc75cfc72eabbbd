"""``trellis train``: from files to a model folder; ``trellis init``: the settings that it takes."""

from __future__ import annotations

import datetime
import os
import shlex
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from trellis import __version__, config
from trellis.cli import StoppableLine, program, stoppable
from trellis.cli.io import Reader, output, tell_notes
from trellis.cli.options import (
    Annotations,
    Columns,
    FormatOption,
    Lexicons,
    QuietOption,
    SchemeOption,
    Settings,
    TokenizerOption,
    large_option,
    model_option,
)
from trellis.cli.tasks import Setting, Task, headline, in_scheme, scores, training_setting, vocabulary
from trellis.corpus import Corpus, OnBadTags, ReadReport, Shards, Stream, split_suffixes
from trellis.corpus.annotation_tools import SPAN_FIELDS
from trellis.corpus.rows import TABLES, is_table
from trellis.corpus.sniff import LINES_OF_WORDS
from trellis.corpus.source import is_brat_folder
from trellis.errors import ConfigError, DataError, DataWarning, ModelError, number_of
from trellis.metrics.prf import percent
from trellis.models import Tagger, folder, load
from trellis.models.data import tokenizer_for, unseen_labels
from trellis.models.families import FAMILIES, get_family, make_tagger
from trellis.models.neural.stream import SentenceStream, stream_of
from trellis.tags import Scheme, detect
from trellis.text import Sentence, splitter
from trellis.training import History, LiveLine
from trellis.training.process_group import SINGLE, ProcessGroup, is_first_process, together

_REASONS = {
    "converged": "converged",
    "max_iterations": "reached the limit of iterations",
    "no_progress": "stopped, since no step lowers the loss",
    "early_stopping": "stopped, since the held-out score no longer rises",
    "interrupted": "interrupted",
    "diverged": "stopped, since the loss is NaN or infinite",
}
_CHUNK = 4096  # sentences
_SAMPLE, _AT_ONCE = 10_000, 2_000  # sentences
_STDIN = "-"

Scores = dict[str, dict[str, float]]
"""Figures by name, by the role of a file."""


def train(
    context: typer.Context,
    settings: Settings,
    train: Annotated[
        str, typer.Option("--train", help="File to learn from, - is standard input; with --stream also a folder.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the model; made if it does not exist.")],
    dev: Annotated[str | None, typer.Option("--dev", help="Held-out file: the best model on it is kept.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="File to report figures of at the end.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the training in the folder that was killed or interrupted.")
    ] = False,
    stream: Annotated[
        bool,
        large_option(
            "--stream",
            help="Do not hold the training data in memory: a file, or a folder of JSON Lines, Parquet, Arrow, CoNLL or "
            "another format. Neural models read it anew in each epoch, training.window sentences at a time; crf reads "
            "it once and keeps what it needs on disk (out_of_core).",
        ),
    ] = False,
    warm_start: Annotated[
        str | None,
        model_option("--warm-start", metavar="DIR", help="Start from the weights of another model, a folder or file."),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Discard an unfinished training in the folder, or a model of another family."),
    ] = False,
    scheme: SchemeOption = None,
    tokenizer: TokenizerOption = None,
    lexicons: Lexicons = Lexicons(),
    format: FormatOption = None,
    columns: Columns = Columns(),
    annotations: Annotations = Annotations(),
    quiet: QuietOption = False,
) -> None:
    """Train a tagger and leave it in a folder.

    Formats and the tag scheme are detected and reported. The folder gets the model, its settings (config.toml), the
    steps of its training (history.json, learning-curve.svg) and a record of it (training.json).

    Ctrl-C and SIGTERM keep the best model so far and give exit code 130 and 143. A training that was interrupted or
    killed continues with --resume to the same model as if nothing had happened, a neural one also with more epochs; the
    CRF (lbfgs, owlqn) and Baum-Welch continue from the last minute. --resume continues one training;
    --warm-start begins another one with what a model has learned.

    Several processes train one model if torchrun starts them: sentences are dealt out for crf and hmm, batches for
    neural models.

    \b
    Examples:
      trellis train --model crf --train train.conll --dev dev.conll --test test.conll --out model
      trellis train -m hmm --task pos --train en-train.conllu --dev en-dev.conllu -o model
      trellis train -m crf --task seg --train train.seg --test test.seg -o model --set c2=0.5
      trellis train -m bilstm-crf --train train.conll --dev dev.conll -o model --config ner.toml
      trellis train -m bilstm-crf --train train.conll --dev dev.conll -o model --config ner.toml --resume
      trellis train -m bilstm-crf --train shards --stream --dev dev.conll -o model
      trellis train -m crf --train more.conll -o newer --warm-start model
      trellis train -m crf --train train.conll --dev dev.conll -o model --lexicon names.tsv
      trellis train -m crf --train large.conll --stream -o model
      torchrun --nproc-per-node 4 -m trellis train -m crf --train train.conll -o model
      torchrun --nproc-per-node 4 -m trellis train -m crf --train shards --stream -o model
    """  # noqa: D301 - \b tells click to keep the lines
    quiet = quiet or not is_first_process()  # of several processes, one speaks
    say = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    model, family = settings.model, get_family(settings.model)
    if stream and not family.neural:
        out_of_core = [name for name, other in FAMILIES.items() if hasattr(other.defaults(), "out_of_core")]
        if model not in out_of_core:
            able = ", ".join(name for name, other in FAMILIES.items() if other.neural or name in out_of_core)
            raise ConfigError(f"--stream: {model} learns from sentences in memory: leave it out, or use one of {able}")
        settings = replace(settings, set=[*(settings.set or []), "out_of_core=true"])
    if resume and overwrite:
        raise ConfigError(
            "--resume continues the training in the folder, and --overwrite discards it: give one of them"
        )
    reader = Reader(format, columns.encoding, columns.given, scheme, tokenizer, spans=annotations.spans)
    words = lexicons.read("feature", quiet=quiet)
    early = settings.settled(settings.task)  # mistakes in the settings are told at once
    if warm_start is None:
        family.check(early)
    # The folder comes before the data: nobody wants to hear of its errors after an hour of reading.
    with (
        stoppable() as stop,
        nullcontext(SINGLE) if family.neural else together() as group,
        folder.training(out, model, family.kind, resume=resume, overwrite=overwrite) as target,
    ):
        if resume and not target.training.resuming:
            say.print(f"{escape(out)}: no checkpoint to resume from, training starts from the beginning")
        start: Tagger[Any] | None = None
        if warm_start is not None:
            start = load(warm_start)
            if start.kind != family.kind:
                problem = f"{warm_start} holds a model of kind {start.kind!r}, which {model} cannot start from"
                raise ModelError(f"--warm-start: {problem}")
            if start.tagset_.scheme is not Scheme.PLAIN:
                scheme = scheme or start.tagset_.scheme.value
        streamed: Streamed | None = None
        if getattr(early, "out_of_core", False):
            streamed = StreamedOnce(reader, train, group, quiet=quiet)
        elif stream:
            streamed = StreamedInEpochs.read(reader, train, annotations.bad_tags)
        files = {"train": train, "dev": dev, "test": test}
        paths = {role: path for role, path in files.items() if path is not None}
        data = Data.read(reader, paths, settings.task, scheme, annotations.bad_tags, streamed, say)
        if start is not None and start.tagset_.scheme is not data.setting.scheme:
            # Labels of spans beside labels that stand alone would all be labels that stand alone.
            raise ModelError(
                f"--warm-start: the labels of {warm_start} are {start.tagset_.scheme.value}, those of {train} are "
                f"{data.setting.scheme.value}: expected labels of one kind"
            )
        if group.count > 1:
            say.print(f"{group.count} processes, each with its share of the sentences")
        settled = settings.settled(data.setting.task, data.setting.scheme)
        tagger = make_tagger(family, settled) if start is None else start
        tagger.config = settled
        command = shlex.join(["trellis", *(sys.argv[1:] if context.obj is None else context.obj)])
        convention = None
        if group.count > 1 and streamed is None:  # learned from all sentences; each process trains on a part of them
            convention = tokenizer_for(settled.tokenizer, data.files["train"].sentences)
        started, begin = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.perf_counter()
        with LiveLine(say) as line, warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # said already, file by file
            tagger.fit(
                group.share(data.files["train"].sentences) if streamed is None else streamed.stream,
                dev=None if dev is None else data.files["dev"].sentences,
                warm_start=start is not None,
                progress=StoppableLine(line, stop),
                folder=target,
                lexicon=words,
                tokenizer=convention,
            )
        seconds = time.perf_counter() - begin
        if isinstance(streamed, StreamedOnce):
            streamed.join()
        for role in ("dev", "test"):
            if role in data.files and not quiet:
                tags = (one.tags or () for one in data.files[role])
                tell_notes(paths[role], unseen_labels(paths[role], tags, tagger.labels_))
        say.print(f"{model}: {_ending(tagger.history_)}, {seconds:.1f} s")
        if tokenizer is not None:
            tagger.tokenizer_ = splitter(tokenizer)
        say.print(f"raw text will be split into tokens by the tokenizer {splitter(tagger.tokenizer_).name}")
        record = {
            "trellis": __version__,
            "command": command,
            "model": model,
            "task": data.setting.task.value,
            "scheme": data.setting.scheme.value,
            "labels": list(tagger.labels_),
            "tokenizer": splitter(tagger.tokenizer_).name,
            "started": started,
            "seconds": round(seconds, 3),
            "iterations": len(tagger.history_.steps),
            "reason": tagger.history_.reason,
            "reading": reader.options,
            "data": {role: data.described(role) for role in data.files},
            "figures": {},
        }
        with stop.deferred():
            is_saved = target.save(tagger, record)
        if not is_saved:
            say.print("Training was interrupted before there was anything to keep; no model was written.")
            raise typer.Exit(stop.code)
        if not is_first_process():
            return
        figures = data.figures(tagger)
        target.save_record({**record, "figures": figures})
    if not quiet:
        _print(figures, data, out)
    interrupted = tagger.history_.reason == "interrupted"
    if interrupted:
        hint = " --resume continues the training." if target.training.can_go_on else ""
        say.print(f"Training was interrupted; the best model so far was kept.{hint}")
    if interrupted or stop.was_asked:
        raise typer.Exit(stop.code)


def init(settings: Settings) -> None:
    """Print all settings of a model as TOML, each with its explanation.

    Change what you like and give the file to [bold]trellis train --config[/bold].

    \b
    Examples:
      trellis init --model crf > crf.toml
      trellis init --model crf --task seg --set c2=0.5
      trellis init --model bilstm-crf --set training.epochs=20 > ner.toml
    """  # noqa: D301 - \b tells click to keep the lines
    text = config.to_toml(settings.settled(settings.task))
    typer.echo(f"# trellis train --model {settings.model} --config THIS_FILE --train ... --dev ... --out ...\n")
    typer.echo(text, nl=False)


@dataclass(frozen=True)
class Data:
    """The files by what they are for (train, dev, test), with sentences prepared for the task."""

    files: dict[str, Corpus]
    paths: dict[str, str]
    setting: Setting
    streamed: Streamed | None
    """The training data, if they are not in memory; their file then has some of the sentences."""

    @classmethod
    def read(
        cls,
        reader: Reader,
        paths: dict[str, str],
        task: Task | None,
        scheme: str | None,
        how: OnBadTags,
        streamed: Streamed | None,
        say: Console,
    ) -> Data:
        raw, is_read_once = {}, isinstance(streamed, StreamedOnce)
        for role, path in paths.items():
            if role == "train" and streamed is not None:
                raw[role], notes = Corpus(list(streamed.sample), streamed.report), streamed.notes
            else:
                if os.path.isdir(path) and not is_brat_folder(path):
                    raise DataError(
                        f"{path} is a folder, expected a file or a folder of brat: --stream learns from the files of a "
                        "folder"
                    )
                raw[role] = reader.read(path)
                notes = {path: raw[role].report.notes()}
            say.print(f"{role}: {escape(path)}, {raw[role].format} since {raw[role].report.reason}")
            for name in notes if not say.quiet else ():
                tell_notes(name, notes[name])
        if not raw["train"].sentences:
            raise DataError(f"{paths['train']}: there is no sentence to learn from")
        if task is None:
            _check_tagged(paths["train"], raw["train"])
        setting = training_setting(task, scheme, raw["train"].sentences)
        if scheme is None and setting.scheme is Scheme.IO:  # it never needs a B; another file may
            others = (detect([s.tags for s in file if s.tags]).scheme for role, file in raw.items() if role != "train")
            setting = replace(setting, scheme=Scheme.IOB1) if Scheme.IOB1 in others else setting
        if streamed is not None:
            streamed.check(setting, how)
        data = cls({}, paths, setting, streamed)
        for role, file in raw.items():
            is_train = role == "train"
            sentences, mended = in_scheme(file.sentences, setting, how, setting.detection if is_train else None)
            data.files[role] = replace(file, sentences=sentences)
            if not say.quiet and not (is_train and is_read_once):  # which tells it as it is read
                tell_notes(paths[role], mended)
        if not data.files["train"].sentences:
            raise DataError(f"{paths['train']}: there is no sentence left to learn from")
        known = list(dict.fromkeys(tag for one in data.files["train"] for tag in one.tags or ()))
        for role, file in data.files.items():  # a file of another task is refused now
            unseen_labels(paths[role], (one.tags or () for one in file), known)
        if is_read_once:
            say.print(
                f"train: read as it is learned from; task and scheme by its first {len(raw['train']):,} sentences"
            )
            data.files["train"] = replace(data.files["train"], sentences=[])
        for role in data.files:
            if role != "train" or not is_read_once:
                about = data.described(role)
                say.print(f"{role}: {number_of(about['sentences'], 'sentence')}, {number_of(about['tokens'], 'token')}")
        guessed = "" if task is not None else " (guessed from the tags)"
        say.print(f"task {setting.task}{guessed}, scheme {setting.scheme.value}{'' if scheme else ' (detected)'}")
        if known and all(map(str.isdecimal, known)):
            say.print("train: the tags are numbers, to which --names O,B-PER,... gives names")
        return data

    def described(self, role: str) -> dict[str, Any]:
        if role == "train" and self.streamed is not None:
            return {"path": self.paths[role], **self.streamed.described()}
        file = self.files[role]
        tokens = sum(map(len, file.sentences))
        return {"path": self.paths[role], "format": file.format, "sentences": len(file), "tokens": tokens}

    def figures(self, tagger: Tagger[Any]) -> Scores:
        """The figures of the held-out files; words of the training file are the known ones."""
        held_out = {role: file.sentences for role, file in self.files.items() if role != "train" and file.sentences}
        if not held_out:
            return {}
        if self.streamed is None:
            known = vocabulary(self.files["train"].sentences, self.setting)
        else:
            known = self.streamed.vocabulary(self.setting)
        predicted = {role: tagger.tag(truth) for role, truth in held_out.items()}
        return {role: headline(scores(held_out[role], predicted[role], self.setting, known)) for role in held_out}


def _check_tagged(path: str, file: Corpus) -> None:
    """Refuse a file without tags: it may be a segmentation, but also have annotations that no reader knows."""
    annotations = Path(path).with_suffix(".ann")
    if file.format == "segmented" and annotations.suffix != Path(path).suffix and annotations.is_file():
        raise DataError(
            f"{path}: expected words between spaces, found a text whose annotations, of brat, are beside it: give "
            f"{annotations} or its folder instead; if its words are those of a segmentation, give --task seg"
        )
    if file.format == "segmented" and file.report.reason == LINES_OF_WORDS:  # only guessed
        raise DataError(
            f"{path}: expected tags to learn, found lines of words; if these are the words of a segmentation with "
            "spaces between, give --task seg"
        )
    if any(sentence.tags is not None for sentence in file):
        return
    problem = "tokens without tags, which are read from a column or field that --tags names"
    if file.format == "spans":
        problem = f"texts without spans, which are read from fields {', '.join(SPAN_FIELDS)}"
    raise DataError(
        f"{path}: expected tags to learn, found {problem}; if its tokens are the words of a segmentation, give "
        "--task seg"
    )


def _ending(history: History) -> str:
    if not history.steps:
        return "nothing was learned"
    best = "" if history.kept == len(history.steps) - 1 else f", the best was {history.steps[history.kept].iteration}"
    return f"{_REASONS[history.reason]} after {number_of(len(history.steps), 'iteration')}{best}"


def _print(figures: Scores, data: Data, out: str) -> None:
    """Results, where the model is, and how to use it."""
    console = output(highlight=False, soft_wrap=True)
    if figures:
        names = dict.fromkeys(name for row in figures.values() for name in row)
        columns = (Column(name, justify="right") for name in (*names, "sentences", "tokens"))
        table = Table(Column("file", overflow="fold"), *columns, title="Results", title_justify="left")
        for role, row in figures.items():
            about = data.described(role)
            cells = [percent(row.get(name)) for name in names]
            table.add_row(role, *cells, f"{about['sentences']:,}", f"{about['tokens']:,}")
        console.print(table)
    console.print(f"The model is in {escape(out)}. To use it:")
    example = data.paths.get("test") or data.paths.get("dev") or "FILE"
    for command in (["tag", out, "text.txt"], ["eval", out, example], ["inspect", out]):
        console.print(escape(f"  {program()} {shlex.join(command)}"))


@dataclass(frozen=True)
class StreamedInEpochs:
    """A file or a folder of them that a neural model reads anew in each epoch, after a first pass."""

    stream: SentenceStream
    report: ReadReport
    notes: dict[str, list[str]]
    """What the first pass left out or changed, by file."""

    @classmethod
    def read(cls, reader: Reader, path: str, how: OnBadTags) -> StreamedInEpochs:
        if path == _STDIN:
            raise ConfigError("--stream reads files again and again, which standard input cannot be")
        reports: dict[str, ReadReport] = {}

        def sentences(path: str) -> Iterable[Sentence]:
            opened = reader.sentences(path)
            if isinstance(opened, Stream):
                reports.setdefault(path, opened.report)  # of the first time that it is read
            return opened

        shards = Shards(path, read=sentences)
        report = _report(reader, shards)
        stream = stream_of(shards, None, None, how)
        return cls(stream, report, {name: one.notes() for name, one in reports.items()})

    @property
    def sample(self) -> list[Sentence]:
        """Sentences that have every label, and every pair of labels, of the data."""
        return list(self.stream.sample.inputs)

    def check(self, setting: Setting, how: OnBadTags) -> None:
        """Refuse sentences that a training in memory would convert first."""
        converted, _ = in_scheme(self.sample, setting, how, setting.detection)
        if [(s.tokens, s.tags) for s in self.sample] != [(s.tokens, s.tags) for s in converted]:
            raise DataError(
                f"{self.sample[0].where}: --stream learns from sentences as they are, and these are not {setting.task} "
                f"with {setting.scheme.value} tags: write shards that are with trellis convert, or leave out --stream"
            )

    def described(self) -> dict[str, Any]:
        return {"format": self.report.format, "sentences": sum(self.stream.counts), "tokens": self.stream.tokens}

    def vocabulary(self, setting: Setting) -> set[str]:
        words: set[str] = set()
        for window in self.stream.windows(_CHUNK):
            words |= vocabulary(list(window.inputs), setting)
        return words


class StreamedOnce:
    """A file, a folder of them or standard input, prepared and counted as it is read; `sample` is its beginning."""

    def __init__(self, reader: Reader, path: str, group: ProcessGroup, *, quiet: bool) -> None:
        self._reader, self._group, self._quiet = reader, group, quiet
        self.notes: dict[str, list[str]] = {}
        """What was left out or changed, by file, as far as they were read."""
        self._shards = None if path == _STDIN else Shards(path, read=self._open)
        if self._shards is None:
            opened = reader.open(path)
            self.report, self._rest = opened.report, iter(opened)
        else:
            self.report = _report(reader, self._shards)
            self._rest = chain.from_iterable(map(reader.sentences, self._shards.paths))
        self.sample = list(islice(self._rest, _SAMPLE))
        self._how: tuple[Setting, OnBadTags] | None = None
        self._counts: dict[str, Counter[str]] = {}
        self._words: set[str] = set()

    def check(self, setting: Setting, how: OnBadTags) -> None:
        """Remember how tags are to be read; sentences are prepared, or refused, when they are read."""
        self._how = setting, how

    @property
    def stream(self) -> Iterable[Sentence]:
        """The sentences with tags in the scheme of the model; files are opened again by whoever reads them."""
        if self._shards is None:
            first = self.sample[::-1]
            self.sample = []
            return self._prepared(_STDIN, chain((first.pop() for _ in range(len(first))), self._rest), self.report)
        self.sample, self._rest = [], iter(())
        return self._shards

    def _open(self, path: str) -> Iterator[Sentence]:
        opened = self._reader.sentences(path)
        return self._prepared(path, opened, opened.report if isinstance(opened, Stream) else ReadReport())

    def _prepared(self, path: str, sentences: Iterable[Sentence], report: ReadReport) -> Iterator[Sentence]:
        assert self._how is not None
        setting, how = self._how
        rest, self._counts[path], self.notes[path] = iter(sentences), Counter(), []
        while block := list(islice(rest, _AT_ONCE)):
            prepared, notes = in_scheme(block, setting, how, setting.detection)
            self._add(path, notes)
            self._counts[path].update(sentences=len(prepared), tokens=sum(map(len, prepared)))
            self._words |= vocabulary(prepared, setting)
            yield from prepared
        self._add(path, report.notes())

    def join(self) -> None:
        """Add counts, notes and words of the files that other processes have read."""
        for counts, notes, words in self._group.gather((self._counts, self.notes, self._words)):
            for path in sorted(counts.keys() - self._counts.keys()) if not self._quiet else ():
                tell_notes(path, notes[path])
            self._counts |= counts
            self._words |= words

    def _add(self, path: str, notes: list[str]) -> None:
        """Tell and keep notes; one that is neither a list nor in one (how tags are spelled) once per file."""
        listed = [note for note in notes if note.startswith(" ") or note.endswith(":") or note not in self.notes[path]]
        self.notes[path] += listed
        if not self._quiet:
            tell_notes(path, listed)

    def described(self) -> dict[str, Any]:
        total = sum(self._counts.values(), Counter())
        return {"format": self.report.format, "sentences": total["sentences"], "tokens": total["tokens"]}

    def vocabulary(self, setting: Setting) -> set[str]:
        return self._words


Streamed = StreamedInEpochs | StreamedOnce


def _report(reader: Reader, shards: Shards) -> ReadReport:
    """The formats of the files; one file of each suffix is looked at.

    Text that says nothing but where words end has no tags that go with those of another file.
    """
    first_of = {split_suffixes(path)[0]: path for path in reversed(shards.paths)}
    paths = {_format(reader, path): path for path in sorted(first_of.values(), reverse=True)}
    form = _format(reader, shards.paths[0])
    others = {name: path for name, path in paths.items() if name != form}
    if others and "segmented" in paths:
        other = next(iter(others))
        raise DataError(
            f"the folder mixes formats: {shards.paths[0]} is {form}, {others[other]} is {other}; move elsewhere what "
            "is no training data, or give the format of all with --format"
        )
    return ReadReport(form, "its first file is" + "".join(f", {name} since {path} is" for name, path in others.items()))


def _format(reader: Reader, path: str) -> str:
    if reader.format is None and is_table(path):
        return TABLES[split_suffixes(path)[0]].lower()
    return str(getattr(reader.sentences(path), "format", reader.format))
