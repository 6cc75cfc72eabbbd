"""``trellis train``: from files to a model folder."""

from __future__ import annotations

import datetime
import sys
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import trellis
from trellis.cli._console import Output
from trellis.cli._lexicons import IgnoreCaseOption, LexiconFormatOption, LexiconOption, StrengthOption, read_lexicon
from trellis.cli._reading import (
    AlignOption,
    AnnotatorOption,
    ColumnsOption,
    EncodingOption,
    FormatOption,
    MajorityOption,
    OnBadTagsOption,
    QuietOption,
    Reader,
    TagsOption,
    TokensOption,
    UnapprovedOption,
    bad_tags_option,
    quoted,
    reading_options,
    span_options,
    tell_notes,
    tell_unseen,
)
from trellis.cli._settings import ModelOption, SetOption, TaskOption, start_settings
from trellis.cli._signals import Stop, StoppableLine, stoppable
from trellis.cli._tasks import Setting, Task, headline, in_scheme, scores, training_setting, vocabulary
from trellis.corpus import Corpus
from trellis.errors import ConfigError, DataError, DataWarning, ModelError
from trellis.lexicon import Lexicon
from trellis.metrics.report import percent
from trellis.models import Tagger, folder
from trellis.models.classes import make_tagger
from trellis.models.families import get_family
from trellis.models.raw_text import tokenizer_for
from trellis.tags import OnBadTags, Scheme, detect
from trellis.text import Sentence, splitter
from trellis.training import History
from trellis.training.processes import ALONE, Team, leads, together
from trellis.training.progress import LiveLine

_REASONS = {
    "converged": "converged",
    "max_iterations": "reached the limit of iterations",
    "no_progress": "stopped, since no step lowers the loss",
    "early_stopping": "stopped, since the held-out score no longer rises",
    "interrupted": "interrupted",
    "diverged": "stopped, since the loss is NaN or infinite",
}


def train(
    context: typer.Context,
    model: ModelOption,
    train: Annotated[str, typer.Option("--train", help="File to learn from; - is standard input.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the model; made if it does not exist.")],
    dev: Annotated[str | None, typer.Option("--dev", help="Held-out file: the best model on it is kept.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="File to report figures of at the end.")] = None,
    task: TaskOption = None,
    config: Annotated[str | None, typer.Option("--config", help="TOML file of settings; see trellis init.")] = None,
    set: SetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the training in the folder that was killed or interrupted.")
    ] = False,
    warm_start: Annotated[
        str | None,
        typer.Option("--warm-start", metavar="DIR", help="Start from the weights of another model, a folder or file."),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Discard an unfinished training in the folder, or a model of another family."),
    ] = False,
    scheme: Annotated[str | None, typer.Option(help="Scheme of the tags, e.g. bio; detected if not given.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="How the model splits raw text: words, english, characters, whitespace, regex:PATTERN, "
            "module:function or a tokenizers file (.json); otherwise like the data."
        ),
    ] = None,
    lexicon: LexiconOption = None,
    lexicon_format: LexiconFormatOption = None,
    strength: StrengthOption = None,
    lexicon_ignore_case: IgnoreCaseOption = False,
    format: FormatOption = None,
    tokens: TokensOption = None,
    tags: TagsOption = None,
    columns: ColumnsOption = None,
    encoding: EncodingOption = "utf-8",
    on_bad_tags: OnBadTagsOption = None,
    align: AlignOption = None,
    annotator: AnnotatorOption = None,
    majority: MajorityOption = False,
    unapproved: UnapprovedOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a tagger and leave it in a folder.

    Formats and the tag scheme are detected and reported. The folder gets the model, its settings (config.toml), the
    steps of its training (history.json, learning-curve.svg) and a record of it (training.json).

    Ctrl-C and SIGTERM keep the best model so far and give exit code 130 and 143. A training that was interrupted or
    killed continues with --resume: that of a neural model to the same model as if nothing had happened, also with more
    epochs; the CRF (lbfgs, owlqn) and Baum-Welch from the weights of the last minute. --resume continues one training;
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
      trellis train -m crf --train more.conll -o newer --warm-start model
      trellis train -m crf --train train.conll --dev dev.conll -o model --lexicon names.tsv
      torchrun --nproc-per-node 4 -m trellis train -m crf --train train.conll -o model
    """  # noqa: D301 - \b tells click to keep the lines
    quiet = quiet or not leads()  # of several processes, one speaks
    say = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    family = get_family(model)
    _check_options(tokenizer, resume, overwrite)
    reader = Reader(
        format,
        encoding,
        reading_options(tokens, tags, columns),
        scheme,
        tokenizer,
        spans=span_options(align, annotator, majority, unapproved),
    )
    how = bad_tags_option(on_bad_tags)
    words = read_lexicon(
        lexicon or (),
        lexicon_format,
        strength or "feature",
        ignore_case=lexicon_ignore_case,
        given=strength is not None,
        quiet=quiet,
    )
    # The folder comes first: nobody wants to hear of its errors after an hour of reading.
    with (
        stoppable() as stop,
        nullcontext(ALONE) if family.neural else together() as team,
        folder.training(out, model, family.kind, resume=resume, overwrite=overwrite) as place,
    ):
        if resume and not place.training.resuming:
            say.print(f"{escape(out)}: no checkpoint to resume from, training starts from the beginning")
        start = None if warm_start is None else _loaded(warm_start, model)
        data = _read(reader, {"train": train, "dev": dev, "test": test}, task, scheme, how, quiet, say)
        settings = start_settings(model, data.setting.task, config, set or [], data.setting.scheme)
        command = quoted(["trellis", *(sys.argv[1:] if context.obj is None else context.obj)])
        run = Run(model, data, settings, command, words, team)
        if team.count > 1:
            say.print(f"{team.count} processes, each with its share of the sentences")
        tagger = run.fit(make_tagger(family, settings) if start is None else start, place, start is not None, stop, say)
        if tokenizer is not None:
            tagger.tokenizer_ = splitter(tokenizer)
        with stop.deferred():
            is_saved = place.save(tagger, run.record(tagger, {}))
        if not is_saved:
            say.print("Training was interrupted before there was anything to keep; no model was written.")
            raise typer.Exit(stop.code)
        if not leads():
            return
        figures = _figures(tagger, data)
        place.save_record(run.record(tagger, figures))
    if not quiet:
        _print(figures, data, out)
    interrupted = tagger.history_.reason == "interrupted"
    if interrupted:
        hint = " --resume continues the training." if place.training.can_go_on else ""
        say.print(f"Training was interrupted; the best model so far was kept.{hint}")
    if interrupted or stop.was_asked:
        raise typer.Exit(stop.code)


def _check_options(tokenizer: str | None, resume: bool, overwrite: bool) -> None:
    if tokenizer is not None:
        splitter(tokenizer)
    if resume and overwrite:
        raise ConfigError(
            "--resume continues the training in the folder, and --overwrite discards it: give one of them"
        )


def _loaded(path: str, model: str) -> Tagger[Any]:
    """The model to start from."""
    tagger = trellis.load(path)
    if tagger.kind != get_family(model).kind:
        raise ModelError(f"--warm-start: {path} holds a model of kind {tagger.kind!r}, which {model} cannot start from")
    return tagger


@dataclass(frozen=True)
class Data:
    """The files, by what they are for, with sentences prepared for the task."""

    files: dict[str, Corpus]
    paths: dict[str, str]
    setting: Setting
    options: dict[str, object]
    """How their columns are read, for the commands that use the model."""

    def sentences(self, role: str) -> list[Sentence] | None:
        """The sentences of a file, if it was given."""
        return self.files[role].sentences if role in self.files else None

    def described(self, role: str) -> dict[str, Any]:
        """A file for the record."""
        file = self.files[role]
        tokens = sum(map(len, file.sentences))
        return {
            "path": self.paths[role],
            "format": file.format,
            "sentences": len(file),
            "tokens": tokens,
        }


def _read(
    reader: Reader,
    paths: dict[str, str | None],
    task: Task | None,
    scheme: str | None,
    how: OnBadTags,
    quiet: bool,
    say: Console,
) -> Data:
    given = {role: path for role, path in paths.items() if path is not None}
    raw = {}
    for role, path in given.items():
        raw[role] = reader.read(path)
        say.print(f"{role}: {escape(path)}, {raw[role].format} since {raw[role].report.reason}")
        if not quiet:
            tell_notes(path, raw[role].report.notes())
    if not raw["train"].sentences:
        raise DataError(f"{given['train']}: there is no sentence to learn from")
    setting = _setting(raw, task, scheme)
    files = {}
    for role, file in raw.items():
        sentences, notes = in_scheme(file.sentences, setting, how, setting.found if role == "train" else None)
        files[role] = replace(file, sentences=sentences)
        if not quiet:
            tell_notes(given[role], notes)
    if not files["train"].sentences:
        raise DataError(f"{given['train']}: there is no sentence left to learn from")
    data = Data(files, given, setting, reader.options)
    for role in files:
        about = data.described(role)
        say.print(f"{role}: {about['sentences']:,} sentences, {about['tokens']:,} tokens")
    guessed = "" if task is not None else " (guessed from the tags)"
    say.print(f"task {setting.task}{guessed}, scheme {setting.scheme.value}{'' if scheme else ' (detected)'}")
    return data


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
    team: Team = ALONE
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
            tagger.fit(
                sentences[self.team.rank :: self.team.count],
                dev=dev,
                warm_start=warm_start,
                progress=StoppableLine(line, stop),
                folder=place,
                lexicon=self.lexicon,
                tokenizer=None if self.team.count == 1 else tokenizer_for(self.settings.tokenizer, sentences),
            )
        self.seconds = time.perf_counter() - begin
        for role in ("dev", "test"):
            if role in self.data.files and not say.quiet:
                tell_unseen(self.data.paths[role], self.data.sentences(role) or [], tagger.labels_)
        say.print(f"{self.model}: {_ending(tagger.history_)}, {self.seconds:.1f} s")
        return tagger

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
    return f"{_REASONS[history.reason]} after {len(history.steps)} iterations{kept}"


def _figures(tagger: Tagger[Any], data: Data) -> dict[str, dict[str, float]]:
    """The figures of the held-out files; words of the training file are the known ones."""
    known = vocabulary(data.sentences("train") or [], data.setting)
    found = {}
    for role in data.files:
        truth = data.sentences(role)
        if role != "train" and truth:
            found[role] = headline(scores(truth, tagger.tag(truth), data.setting, known))
    return found


def _print(figures: dict[str, dict[str, float]], data: Data, out: str) -> None:
    """Results, where the model is, and how to use it."""
    console = Output(highlight=False, soft_wrap=True)
    if figures:
        console.print(_table(figures, data))
    console.print(f"The model is in {escape(out)}. To use it:")
    example = data.paths.get("test") or data.paths.get("dev") or "FILE"
    for command in (["tag", out, "text.txt"], ["eval", out, example], ["inspect", out]):
        console.print(f"  trellis {escape(quoted(command))}")


def _table(figures: dict[str, dict[str, float]], data: Data) -> Table:
    table = Table(title="Results", title_justify="left")
    table.add_column("file", overflow="fold")
    names = dict.fromkeys(name for found in figures.values() for name in found)
    for name in (*names, "sentences", "tokens"):
        table.add_column(name, justify="right")
    for role, found in figures.items():
        about = data.described(role)
        cells = [percent(found.get(name)) for name in names]
        table.add_row(role, *cells, f"{about['sentences']:,}", f"{about['tokens']:,}")
    return table
