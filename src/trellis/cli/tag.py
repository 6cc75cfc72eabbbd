"""``trellis tag``: a model applied to files or standard input, in a stream."""

from __future__ import annotations

import enum
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import trellis
from trellis.cli._bulk import (
    EngineOption,
    FolderOptions,
    OutputsOption,
    PrefixOption,
    ResumeOption,
    TextOption,
    WorkersOption,
    tag_shards,
)
from trellis.cli._inputs import TEXTS, Constraints, Inputs
from trellis.cli._lexicons import (
    IgnoreCaseOption,
    LexiconFormatOption,
    LexiconOption,
    StrengthOption,
    read_lexicon,
    report_file,
)
from trellis.cli._outputs import FORMS
from trellis.cli._pipes import models_and_files
from trellis.cli._progress import counted
from trellis.cli._reading import (
    ColumnsOption,
    EncodingOption,
    QuietOption,
    Reader,
    TagsOption,
    TokensOption,
    reading_options,
    remembered_options,
)
from trellis.cli._tagging import Job, usual_form, write
from trellis.corpus import FORMATS, open_output
from trellis.errors import ConfigError
from trellis.lexicon import Lexicon
from trellis.models import Pipeline, Tagger, folder
from trellis.tags import Scheme
from trellis.text import splitter


class OnError(enum.StrEnum):
    """What to do about a line that cannot be tagged."""

    STOP = "stop"
    PASS = "pass"


def tag(
    model: Annotated[str, typer.Argument(metavar="DIR", help="Model folder or file.")],
    files: Annotated[
        list[str] | None, typer.Argument(help="Files or folders to tag; - or none is standard input.")
    ] = None,
    pipe: Annotated[
        bool,
        typer.Option(
            "--pipe", help="Several models come before the files: the words of the first are the tokens of the next."
        ),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help=f"Format of the input: {', '.join((*TEXTS, *FORMATS))}. Guessed; what is unclear is text."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help=f"Form of the output: {', '.join(FORMS)}; of folders parquet (default) or jsonl. In a terminal "
            "inline; else like the input."
        ),
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="File or folder to write; - is standard output.")] = "-",
    probs: Annotated[bool, typer.Option("--probs", help="Say how probable each tag or span is.")] = False,
    kbest: Annotated[int, typer.Option(min=0, help="Also give this many of the most probable labellings.")] = 0,
    constrain: Annotated[
        str | None,
        typer.Option(
            help="File of the same sentences with known labels, which are kept: _ is unknown, B-PER|B-ORG one of these."
        ),
    ] = None,
    sentences: Annotated[
        bool,
        typer.Option(
            "--sentences",
            help="Raw text: each file is one document, split into sentences; offsets are those of the document.",
        ),
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Split raw text otherwise than the model does, e.g. whitespace, regex:PATTERN, module:function."
        ),
    ] = None,
    lexicon: LexiconOption = None,
    lexicon_format: LexiconFormatOption = None,
    strength: StrengthOption = None,
    lexicon_ignore_case: IgnoreCaseOption = False,
    lexicon_report: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write which entries fired, which lost, and by how much probability: .jsonl has every occurrence, "
            "any other name a table.",
        ),
    ] = None,
    no_lexicon: Annotated[
        bool, typer.Option("--no-lexicon", help="Switch off the lexicon that is saved with the model.")
    ] = False,
    on_error: Annotated[
        OnError | None,
        typer.Option(
            help="At a line that cannot be tagged: stop (default), or report it and pass it on. Folders list such "
            "records in _trellis/bad and go on, unless it is stop."
        ),
    ] = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    resume: ResumeOption = False,
    outputs: OutputsOption = None,
    text: TextOption = None,
    prefix: PrefixOption = "",
    tokens: TokensOption = None,
    tags: TagsOption = None,
    columns: ColumnsOption = None,
    encoding: EncodingOption = "utf-8",
    quiet: QuietOption = False,
) -> None:
    """Tag raw text, tokens, CoNLL columns or JSON Lines.

    Raw text has one sentence per line, and is split as the training data were; what the input is taken for, and why,
    is said on standard error. CoNLL-U stays CoNLL-U with all that is in it, and blank lines stay. Order is kept, memory
    does not grow with the input, and JSON Lines come with spans, character offsets and exact probabilities.

    Folders of shards (Parquet, JSON Lines, text, CoNLL; compressed or not) become folders with a file for each, tagged
    by several processes or an engine. A shard is done or it is not: after a kill of anything, --resume goes on.

    \b
    Examples:
      trellis tag model text.txt
      echo "Ada Lovelace lived in London." | trellis tag model --probs
      trellis tag model test.conll --to conll --probs > tagged.conll
      cat big.txt | trellis tag model --to jsonl --on-error pass > tagged.jsonl
      trellis tag seg-model zh.txt --to segmented
      trellis tag --pipe seg-model pos-model ner-model zh.txt --to jsonl
      trellis tag model partly.conll --constrain partly.conll --to conll
      trellis tag seg-model zh.txt --lexicon userdict.txt --strength prefer=2.0 --to segmented
      trellis tag model text.txt --lexicon names.tsv --strength must --lexicon-report report.txt
      trellis tag model shards/ --out tagged/ --workers 8
      trellis tag model shards/ --out tagged/ --workers 8 --resume
      trellis tag model pages/ --text body --sentences --to jsonl --out tagged/ --engine ray
    """  # noqa: D301 - \b tells click to keep the lines
    folders = FolderOptions(engine, workers, resume, outputs, text, prefix)
    if folders.is_meant([] if pipe else files or [], to):  # after --pipe, folders are models
        single: dict[str, object] = {
            "--pipe": pipe,
            "--kbest": kbest,
            "--constrain": constrain,
            "--tokenizer": tokenizer,
        }
        single |= {"--lexicon": lexicon, "--no-lexicon": no_lexicon, "--lexicon-report": lexicon_report}
        tag_shards(
            model,
            files or [],
            folders,
            to=to,
            out=out,
            source=source,
            sentences=sentences,
            probs=probs,
            tokens=tokens,
            encoding=encoding,
            reading=reading_options(tokens, tags, columns),
            strict=on_error is OnError.STOP,
            quiet=quiet,
            refused=single,
        )
        return
    _check_names(source, to)
    if sentences and (source not in (None, "text") or kbest or constrain is not None):
        raise ConfigError("--sentences is for raw text, without --kbest and --constrain")
    _check_lexicon(lexicon, strength, lexicon_report, no_lexicon, pipe, sentences)
    known_words = read_lexicon(
        lexicon or (),
        lexicon_format,
        strength or "prefer",
        ignore_case=lexicon_ignore_case,
        given=strength is not None,
        quiet=quiet,
    )
    given = None if tokenizer is None else splitter(tokenizer)  # before the model, which may need its module
    models, paths = models_and_files([model, *(files or ())]) if pipe else ([model], files or [])
    if pipe and constrain is not None:
        raise ConfigError("--constrain gives labels for the tokens of the input, and --pipe makes other tokens of it")
    pipeline = Pipeline(models) if pipe else None
    taggers = (trellis.load(model),) if pipeline is None else pipeline.taggers
    first, tagger = taggers[0], taggers[-1]
    if given is not None:
        first.tokenizer_ = given
    remembered = remembered_options(folder.read_record(model))
    reader = Reader(encoding=encoding, options=reading_options(tokens, tags, columns), remembered=remembered)
    column = _column(tagger, reader, tags)
    how, strict = splitter(first.tokenizer_), on_error is not OnError.PASS
    inputs = Inputs(reader, how, source, "raise" if strict else "skip", column, first.makes_words)
    known = None if constrain is None else Constraints(constrain, reader)
    job = Job(tagger, probs, kbest, known, not strict, column, pipeline=pipeline)
    job.lexicon = None if no_lexicon else "own" if pipe else known_words or "own"
    if pipe:
        _give_lexicon(taggers, known_words, off=no_lexicon)
    watched = sys.stderr.isatty() and not (out == "-" and sys.stdout.isatty())
    with open_output(out) as file, report_file(lexicon_report) as job.report, counted(watched) as tell:
        for path in paths or ["-"]:
            whole = (to or usual_form(job, "text", file)) in ("inline", "jsonl")
            form, pieces = inputs.documents(path, whole) if sentences else inputs.pieces(path, quiet=quiet)
            write(job, form, pieces, to, file, tell)
        if known is not None:
            known.check_end()


def _check_names(source: str | None, to: str | None) -> None:
    if source is not None and source not in (*TEXTS, *FORMATS):
        raise ConfigError(f"--from: unknown format {source!r}, expected one of {', '.join((*TEXTS, *FORMATS))}")
    if to is not None and to not in FORMS:
        raise ConfigError(f"--to: unknown form {to!r}, expected one of {', '.join(FORMS)}")


def _check_lexicon(
    lexicon: list[str] | None, strength: str | None, report: str | None, off: bool, pipe: bool, sentences: bool
) -> None:
    if strength is not None and not lexicon:
        raise ConfigError("--strength is that of a lexicon: give one with --lexicon")
    if lexicon and off:
        raise ConfigError("--no-lexicon switches lexicons off, and --lexicon gives one: give one of them")
    if report is not None and (off or sentences or pipe):
        raise ConfigError(
            "--lexicon-report is about the sentences and the lexicon of one model: leave out --no-lexicon, --sentences "
            "and --pipe"
        )


def _give_lexicon(taggers: Sequence[Tagger[Any]], lexicon: Lexicon | None, *, off: bool) -> None:
    """A lexicon for models in a chain: words are for the one that makes words, if there is one, names for the last."""
    if off:
        for tagger in taggers:
            tagger.lexicon_ = None
    if lexicon is not None:
        target = taggers[0] if taggers[0].makes_words else taggers[-1]
        target.lexicon_ = lexicon if target.lexicon_ is None else target.lexicon_ | lexicon


def _column(tagger: Tagger[Any], reader: Reader, tags: str | None) -> str:
    """The column of CoNLL-U for the tags: the one asked for or learned from; tags of spans do not replace another."""
    learned = reader.remembered.get("conllu")
    if tags is not None or learned is not None:
        return tags or str((learned or {}).get("tags", "upos"))
    return "upos" if tagger.tagset_.scheme is Scheme.PLAIN or tagger.makes_words else "misc.NER"
