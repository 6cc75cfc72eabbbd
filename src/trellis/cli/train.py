"""``trellis train``: from files to a model folder."""

from __future__ import annotations

import sys
from contextlib import nullcontext
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
)
from trellis.cli._settings import ModelOption, SetOption, TaskOption, start_settings
from trellis.cli._signals import stoppable
from trellis.cli._streamed import Streamed, StreamedInEpochs, StreamedOnce, stream_settings
from trellis.cli._tasks import headline, scores, vocabulary
from trellis.cli._training import Data, Run, read
from trellis.errors import ConfigError, ModelError
from trellis.metrics.report import percent
from trellis.models import Tagger, folder
from trellis.models.classes import make_tagger
from trellis.models.families import get_family
from trellis.tags import Scheme
from trellis.text import splitter
from trellis.training.process_group import SINGLE, is_first_process, together


def train(
    context: typer.Context,
    model: ModelOption,
    train: Annotated[
        str, typer.Option("--train", help="File to learn from, - is standard input; with --stream also a folder.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the model; made if it does not exist.")],
    dev: Annotated[str | None, typer.Option("--dev", help="Held-out file: the best model on it is kept.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="File to report figures of at the end.")] = None,
    task: TaskOption = None,
    config: Annotated[str | None, typer.Option("--config", help="TOML file of settings; see trellis init.")] = None,
    set: SetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the training in the folder that was killed or interrupted.")
    ] = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Do not hold the training data in memory: a file, or a folder of JSON Lines, Parquet, Arrow, CoNLL or "
            "another format. Neural models read it anew in each epoch, training.window sentences at a time; crf reads "
            "it once and keeps what it needs on disk (out_of_core).",
        ),
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
    family = get_family(model)
    assignments = [*(set or []), *(stream_settings(model) if stream else [])]
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
        nullcontext(SINGLE) if family.neural else together() as team,
        folder.training(out, model, family.kind, resume=resume, overwrite=overwrite) as place,
    ):
        if resume and not place.training.resuming:
            say.print(f"{escape(out)}: no checkpoint to resume from, training starts from the beginning")
        start = None if warm_start is None else _loaded(warm_start, model)
        streamed: Streamed | None = None
        if getattr(start_settings(model, task, config, assignments), "out_of_core", False):
            streamed = StreamedOnce(reader, train, team, quiet=quiet)
        elif stream:
            streamed = StreamedInEpochs.read(reader, train, how)
        paths = {"train": train, "dev": dev, "test": test}
        data = read(reader, paths, task, scheme or _scheme_of(start), how, quiet, say, streamed)
        if start is not None:
            _check_start(start, f"{warm_start}", data)
        settings = start_settings(model, data.setting.task, config, assignments, data.setting.scheme)
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
        if not is_first_process():
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


def _scheme_of(start: Tagger[Any] | None) -> str | None:
    """The scheme of spans that a training goes on with."""
    scheme = Scheme.PLAIN if start is None else start.tagset_.scheme
    return None if scheme is Scheme.PLAIN else scheme.value


def _check_start(start: Tagger[Any], path: str, data: Data) -> None:
    """Labels of spans beside labels that stand alone would all be labels that stand alone."""
    own, new = start.tagset_.scheme, data.setting.scheme
    if own is not new:
        raise ModelError(
            f"--warm-start: the labels of {path} are {own.value}, those of {data.paths['train']} are {new.value}: "
            "expected labels of one kind"
        )


def _figures(tagger: Tagger[Any], data: Data) -> dict[str, dict[str, float]]:
    """The figures of the held-out files; words of the training file are the known ones."""
    found: dict[str, dict[str, float]] = {}
    if set(data.files) == {"train"}:
        return found
    streamed, setting = data.streamed, data.setting
    known = vocabulary(data.sentences("train") or [], setting) if streamed is None else streamed.vocabulary(setting)
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
