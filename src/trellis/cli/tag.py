"""``trellis tag``: a model applied to files or standard input, in a stream, or to folders of shards."""

from __future__ import annotations

import enum
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from trellis.cli import stoppable
from trellis.cli.io import (
    FORMS,
    TEXTS,
    WORDS,
    Answer,
    Constraints,
    Document,
    Drawing,
    Inputs,
    Piece,
    Reader,
    passed_on,
    remembered_options,
)
from trellis.cli.options import (
    Columns,
    Lexicons,
    ModelArgument,
    OutOption,
    QuietOption,
    TokenizerOption,
    check_order,
    data_option,
    large_option,
    lexicon_option,
    names_in,
    one_of,
)
from trellis.corpus import FORMATS, CorpusError, RecordFields, dumps, format_of_path, open_output
from trellis.corpus.source import is_brat_folder
from trellis.corpus.tables import TableWriter
from trellis.errors import ConfigError, DataError, TrellisError, number_of
from trellis.lexicon import Lexicon
from trellis.lexicon.report import LexiconReport
from trellis.models import Pipeline, Tagger, load
from trellis.models.data import segments
from trellis.ragged import in_blocks
from trellis.tags import Scheme
from trellis.text import Sentence, split_sentences, splitter

if TYPE_CHECKING:
    from trellis.distributed import FolderProgress

# Sentences and tokens answered at a time: enough for the kernels, little enough for memory and for people who wait.
_SENTENCES, _TOKENS = 512, 20_000
_MOST_LOST = 10_000  # occurrences that lost, listed in a report for people
_MOST_FAILED = 10  # shards that failed, listed in an error
_EVERY = 10.0  # seconds between lines about folders where nobody watches

Tell = Callable[[int, int], None]
"""Called with how many more sentences and tokens are done."""


class OnError(enum.StrEnum):
    """Stop at a line that cannot be tagged, or report it and pass it on."""

    STOP = "stop"
    PASS = "pass"


@dataclass(frozen=True)
class FolderOptions:
    engine: Annotated[
        str | None, large_option(help="Folders: who does the work: local (default), ray or spark.", metavar="ENGINE")
    ] = None
    workers: Annotated[
        int | None, large_option(min=1, help="Folders: shards that are tagged at a time; default: as many as cores.")
    ] = None
    resume: Annotated[bool, large_option("--resume", help="Folders: go on with a run; what is done stays.")] = False
    outputs: Annotated[
        str | None,
        large_option(
            help="Folders: columns to add: tags, spans, probabilities. Default: tags, and spans if there are."
        ),
    ] = None
    text: Annotated[str | None, large_option(help="Folders: column or field of the texts; default: text.")] = None
    prefix: Annotated[str, large_option(help="Folders: what stands before the names of added columns.")] = ""

    def columns_to_add(self, probs: bool) -> list[str] | None:
        """The names in --outputs, with probabilities if they are asked for."""
        names = None if self.outputs is None else names_in(self.outputs)
        if not probs:
            return names
        return list(dict.fromkeys([*(names or ["tags", "spans"]), "probabilities"]))


@dataclass(frozen=True)
class LexiconUse(Lexicons):
    """Lexicons that are given, the one that is saved with the model, and a report about both."""

    lexicon_report: Annotated[
        str | None,
        lexicon_option(
            metavar="FILE",
            help="Write which entries fired, which lost, and by how much probability: .jsonl has every occurrence, "
            "any other name a table.",
        ),
    ] = None
    no_lexicon: Annotated[
        bool, lexicon_option("--no-lexicon", help="Switch off the lexicon that is saved with the model.")
    ] = False


def tag(
    model: ModelArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders to tag, or texts in quotes; - or nothing is standard input."),
    ] = None,
    pipe: Annotated[
        bool,
        typer.Option(
            "--pipe", help="Several models come before the files: the words of the first are the tokens of the next."
        ),
    ] = False,
    source: Annotated[
        str | None,
        data_option(
            "--from",
            callback=one_of((*TEXTS, *FORMATS, "parquet")),
            help=f"Format of the input: {', '.join((*TEXTS, *FORMATS))}, parquet. Guessed; what is unclear is text.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            callback=one_of((*FORMS, "parquet")),
            help=f"Form of the output: {', '.join(FORMS)}; of folders parquet (default) or jsonl. By default what the "
            "name of the file to write says, in a terminal inline, else like the input.",
        ),
    ] = None,
    out: OutOption = "-",
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
        data_option(
            "--sentences",
            help="Raw text: each file is one document, split into sentences; offsets are those of the document.",
        ),
    ] = False,
    tokenizer: TokenizerOption = None,
    lexicons: LexiconUse = LexiconUse(),
    on_error: Annotated[
        OnError | None,
        typer.Option(
            help="At a line that cannot be tagged: stop (default), or report it and pass it on. Folders list such "
            "records in _trellis/bad and go on, unless it is stop."
        ),
    ] = None,
    shards: FolderOptions = FolderOptions(),
    columns: Columns = Columns(),
    quiet: QuietOption = False,
) -> None:
    """Tag raw text, tokens, CoNLL columns or JSON Lines.

    Raw text has one sentence per line, and is split as the training data were; an argument with blanks that names no
    file is such a text. What the input is taken for, and why, is said on standard error. CoNLL-U stays CoNLL-U with all
    that is in it, and blank lines stay. Order is kept, memory does not grow with the input, and JSON Lines come with
    spans, character offsets and exact probabilities.

    Folders of shards (Parquet, JSON Lines, text, CoNLL; compressed or not) become folders with a file for each, tagged
    by several processes or an engine. A shard is done or it is not: after a kill of anything, --resume goes on.

    \b
    Examples:
      trellis tag model text.txt
      trellis tag model "Ada Lovelace lived in London."
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
    paths = files or []
    check_order(model, paths)
    # After --pipe, folders are models. A folder or Parquet, or what only folders have, means shards.
    folders = (path for path in paths if os.path.isdir(path) and not is_brat_folder(path))
    in_shards = not pipe and any(chain(folders, (path for path in paths if path.endswith(".parquet"))))
    if in_shards or "parquet" in (source, to) or shards != FolderOptions():
        for name, given in {
            "--pipe": pipe,
            "--kbest": kbest,
            "--constrain": constrain,
            "--tokenizer": tokenizer,
            "--lexicon": lexicons.lexicon,
            "--no-lexicon": lexicons.no_lexicon,
            "--lexicon-report": lexicons.lexicon_report,
        }.items():
            if given:
                raise ConfigError(
                    f"{name} is for single files: leave it out, or tag the files of the folder one by one"
                )
        _tag_shards(
            model,
            paths,
            out,
            quiet,
            to=to or "parquet",
            engine=shards.engine or "local",
            workers=shards.workers,
            resume=shards.resume,
            format=source,
            text=shards.text,
            tokens=columns.tokens,
            outputs=shards.columns_to_add(probs),
            sentences=sentences,
            prefix=shards.prefix,
            encoding=columns.encoding,
            reading=remembered_options(model).get(source or "conll", {}) | columns.given,
            strict=on_error is OnError.STOP,
        )
        return
    with suppress(DataError):  # the name tells no format
        name = format_of_path(out).name
        to = to or (name if name in FORMS else None)
    if sentences and (source not in (None, "text") or kbest or constrain is not None):
        raise ConfigError("--sentences is for raw text, without --kbest and --constrain")
    if lexicons.strength is not None and not lexicons.lexicon:
        raise ConfigError("--strength is that of a lexicon: give one with --lexicon")
    if lexicons.lexicon and lexicons.no_lexicon:
        raise ConfigError("--no-lexicon switches lexicons off, and --lexicon gives one: give one of them")
    if lexicons.lexicon_report is not None and (lexicons.no_lexicon or sentences or pipe):
        raise ConfigError(
            "--lexicon-report is about the sentences and the lexicon of one model: leave out --no-lexicon, --sentences "
            "and --pipe"
        )
    known_words = lexicons.read("prefer", quiet=quiet)
    models, paths = _models_and_files([model, *paths]) if pipe else ([model], paths)
    for path in paths:
        if path != "-" and not os.path.exists(path) and not (_is_text(path) and source in (None, *TEXTS)):
            hint = ""
            if not Path(path).suffix and os.sep not in path:
                hint = (
                    f". A text is given in quotes, or as in echo {shlex.quote(path)} | trellis tag {shlex.quote(model)}"
                )
            raise DataError(f"{path}: No such file or directory{hint}")
    if pipe and constrain is not None:
        raise ConfigError("--constrain gives labels for the tokens of the input, and --pipe makes other tokens of it")
    pipeline = Pipeline(models) if pipe else None
    taggers = (load(model),) if pipeline is None else pipeline.taggers
    first, tagger = taggers[0], taggers[-1]
    if tokenizer is not None:
        first.tokenizer_ = splitter(tokenizer)
    reader = Reader(encoding=columns.encoding, options=columns.given, remembered=remembered_options(model))
    # The column of CoNLL-U is the one asked for or learned from; tags of spans do not replace those of words.
    column = "upos" if tagger.tagset_.scheme is Scheme.PLAIN or tagger.makes_words else "misc.NER"
    if columns.tags is not None or "conllu" in reader.remembered:
        column = columns.tags or str(reader.remembered.get("conllu", {}).get("tags", "upos"))
    forgiving = on_error is OnError.PASS
    inputs = Inputs(
        reader, splitter(first.tokenizer_), source, "skip" if forgiving else "raise", column, first.makes_words
    )
    known = None if constrain is None else Constraints(constrain, reader)
    job = Job(tagger, probs, kbest, known, forgiving, column, pipeline=pipeline)
    if lexicons.no_lexicon:
        job.lexicon = None
        for one in taggers if pipe else ():
            one.lexicon_ = None
    elif known_words is not None and not pipe:
        job.lexicon = known_words or "own"
    elif known_words is not None:  # words are for the model that makes words, if there is one, names for the last
        target = first if first.makes_words else tagger
        target.lexicon_ = known_words if target.lexicon_ is None else target.lexicon_ | known_words
    watched = sys.stderr.isatty() and not (out == "-" and sys.stdout.isatty())
    telling = counted() if watched else nullcontext(lambda sentences, tokens: None)
    with open_output(out) as file, report_file(lexicons.lexicon_report) as job.report, telling as tell:
        if not paths and source in (None, *TEXTS) and sys.stdin.isatty():
            typer.echo("reading from the keyboard: one sentence per line, Ctrl-D ends it", err=True)
            paths = [sys.stdin.read() or "\n"]
        for path in paths or ["-"]:
            whole = (to or usual_form(job, "text", file)) in ("inline", "jsonl")
            if _is_text(path):
                form, pieces = source or "text", _pieces_of_text(inputs, path, sentences, whole)
            else:
                form, pieces = inputs.documents(path, whole) if sentences else inputs.pieces(path, quiet=quiet)
            write(job, form, pieces, to, file, tell)
        if known is not None:
            known.check_end()


def _is_text(argument: str) -> bool:
    """Whether an argument is text: it has blanks, and no file has that name."""
    return any(map(str.isspace, argument)) and not os.path.exists(argument)


def _pieces_of_text(inputs: Inputs, text: str, sentences: bool, whole: bool) -> Iterator[Piece]:
    """The lines of an argument that is text; with `sentences` its sentences, or the text as a document of them."""
    if sentences and whole:
        return iter([Document((), None, text, ())])
    lines = [text[a:b] for a, b in split_sentences(text)] if sentences else text.removesuffix("\n").split("\n")
    return map((splitter("whitespace") if inputs.form == "tokens" else inputs.tokenizer).sentence, lines)


def _tag_shards(model: str, paths: list[str], out: str, quiet: bool, **settings: Any) -> None:
    """Tag folders with the settings of `tag_folder`; say what was done, and what went wrong."""
    from trellis.distributed import tag_folder

    if not paths or "-" in paths:
        raise ConfigError("shards are files: name the folder to tag, and with --out the folder to write")
    if out == "-":
        raise ConfigError(f"{paths[0]} is tagged into a folder of tagged files: name it with --out")
    with stoppable(), folder_progress(quiet) as progress:
        report = tag_folder(model, paths, out, progress=progress, **settings)
    if not quiet:
        done = f"{report.shards - len(report.failed):,} of {number_of(report.shards, 'shard')} done"
        earlier = f", {report.before:,} of them before" if report.before else ""
        counts = f"{number_of(report.rows, 'row')}, {number_of(report.tokens, 'token')}"
        typer.echo(f"{out}: {done}{earlier}: {counts}", err=True)
    if report.bad:
        bad = Path(out, "_trellis", "bad")
        typer.echo(f"{out}: {number_of(report.bad, 'record')} could not be tagged: see {bad}", err=True)
    if report.failed:
        lines = [f"{number_of(len(report.failed), 'shard')} failed; --resume tries them again:"]
        lines += [f"  {reason}" for reason in list(report.failed.values())[:_MOST_FAILED]]
        if len(report.failed) > _MOST_FAILED:
            lines.append(f"  and {len(report.failed) - _MOST_FAILED:,} more")
        raise DataError("\n".join(lines))


def _models_and_files(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The models, which are folders or files that end in .safetensors, and the files to tag."""
    missing = next(
        (path for path in arguments if path != "-" and not os.path.exists(path) and not _is_text(path)), None
    )
    if missing is not None:
        raise ConfigError(f"--pipe: {missing} does not exist; expected two or more models, then the files to tag")
    are_models = [path != "-" and (Path(path).is_dir() or path.endswith(".safetensors")) for path in arguments]
    count = [*are_models, False].index(False)
    if any(are_models[count:]):
        late = arguments[are_models.index(True, count)]
        raise ConfigError(f"--pipe: the model {late} comes after the file {arguments[count]}: give all models first")
    if count < 2:
        raise ConfigError(f"--pipe: expected two or more models, then the files to tag; found {count} model(s)")
    return list(arguments[:count]), list(arguments[count:])


@dataclass
class Job:
    tagger: Tagger[Any]
    probs: bool
    kbest: int
    known: Constraints | None
    forgiving: bool
    column: str = "upos"
    raw: bool = False
    """Whether the sentences are lines of raw text."""
    pipeline: Pipeline | None = None
    """All models, if there are several: they make the tokens of the last, which is the tagger."""
    lexicon: Lexicon | Literal["own"] | None = "own"
    report: ReportFile | None = None
    table: TableWriter = field(default_factory=TableWriter)

    def style(self, form: str, file: IO[bytes]) -> Drawing:
        colour = form == "inline" and file.isatty() and not os.environ.get("NO_COLOR")
        tags, only_words = self.tagger.tagset_, segments(self.tagger.tagset_)
        words_with_tags = self.tagger.makes_words and not only_words
        style = tags.style, self.probs, colour, only_words, words_with_tags
        return Drawing(tags.scheme, *style, self.column, self.table)

    def answer(self, block: list[Piece]) -> list[Answer | CorpusError]:
        """Answers in the order of the pieces; a sentence that the model refuses is named, or becomes an error."""
        sentences = [piece for piece in block if isinstance(piece, Sentence)]
        known = None if self.known is None else [self.known.next_for(sentence) for sentence in sentences]
        answers: Iterable[Answer | CorpusError]
        try:
            answers = self._answers(sentences, known)
        except TrellisError:
            answers = [self._alone(s, None if known is None else known[i]) for i, s in enumerate(sentences)]
        answers = (
            replace(answer, fields=sentence.frame)
            if isinstance(answer, Answer) and isinstance(sentence.frame, RecordFields)
            else answer
            for sentence, answer in zip(sentences, answers, strict=True)
        )
        return [next(answers) if isinstance(piece, Sentence) else piece for piece in block]

    def _answers(self, sentences: list[Sentence], known: Any) -> list[Answer]:
        if any(isinstance(sentence, Document) for sentence in sentences):
            texts = [sentence.text or "" for sentence in sentences]
            if self.pipeline is not None:
                documents = self.pipeline.annotate(texts, sentences=True)
            else:
                documents = self.tagger.annotate(texts, sentences=True, lexicon=self.lexicon)
            return [Answer(document.sentence, document) for document in documents]
        raw = self.raw
        if self.pipeline is not None:
            sentences, raw = self.pipeline.words(sentences, raw=raw), False
        posterior = self.tagger.posterior(sentences, known=known, raw=raw, lexicon=self.lexicon)
        if self.probs:
            separator = splitter(self.tagger.tokenizer_).separator
            answers = [Answer(tagged.sentence, tagged) for tagged in posterior.annotate(separator=separator)]
        else:  # tags alone need no probabilities, and come several times faster
            best = zip(sentences, posterior.best(), strict=True)
            answers = [Answer(sentence.with_tags(tags)) for sentence, tags in best]
        if self.kbest:
            pairs = zip(answers, posterior.kbest(self.kbest), strict=True)
            answers = [replace(answer, labellings=labellings) for answer, labellings in pairs]
        if self.report is not None:  # last: sentences that are refused together are asked about one by one
            occurrences = LexiconReport() if posterior.occurrences is None else posterior.lexicon_report()
            self.report.add(occurrences, len(sentences))
        return answers

    def _alone(self, sentence: Sentence, known: Any) -> Answer | CorpusError:
        try:
            return self._answers([sentence], None if known is None else [known])[0]
        except TrellisError as error:
            if self.report is not None:
                self.report.add(LexiconReport(), 1)  # it has a number all the same
            return self._refused(sentence, error)

    def drawn(self, answer: Answer | CorpusError, form: str, style: Drawing) -> tuple[Answer | CorpusError, bytes]:
        """An answer in its form, or the error that it cannot be written in that form."""
        if isinstance(answer, Answer):
            try:
                return answer, FORMS[form](answer, style).encode("utf-8")
            except UnicodeEncodeError as error:
                problem = f"a lone surrogate U+{ord(error.object[error.start]):04X}, which UTF-8 cannot hold"
                answer = self._refused(answer.sentence, DataError(problem))
            except TrellisError as error:
                answer = self._refused(answer.sentence, error)
        text = passed_on(answer, form)
        try:
            return answer, text.encode("utf-8", "surrogateescape")  # bytes that did not decode come out as they were
        except UnicodeEncodeError:
            return answer, text.encode("utf-8", "backslashreplace")

    def _refused(self, sentence: Sentence, error: TrellisError) -> CorpusError:
        """The error of a sentence with its place, raised unless such sentences are passed on."""
        text = sentence.text or " ".join(sentence.tokens)
        problem = str(error).removeprefix(f"{sentence.where}: ")
        wrapped = CorpusError(problem, path=sentence.path or "", line=sentence.line_of(0) or 0, text=text)
        if not self.forgiving:
            raise wrapped from error
        return wrapped


def write(job: Job, source: str, pieces: Iterator[Piece], to: str | None, file: IO[bytes], tell: Tell) -> None:
    form = to or usual_form(job, source, file)
    style = job.style(form, file)
    first = job.tagger if job.pipeline is None else job.pipeline.taggers[0]
    raw = source == "text" or (source in WORDS and first.makes_words)
    job = replace(job, probs=job.probs or form in ("inline", "jsonl"), raw=raw)
    if form == "segmented" and style.scheme is Scheme.PLAIN:
        raise ConfigError("--to segmented: the labels of this model do not say where words begin and end")
    if form == "csv" and job.kbest:
        raise ConfigError("--to csv has a row per token, and no place for --kbest: expected --to conll or jsonl")
    sized = in_blocks(pieces, lambda piece: len(piece) if isinstance(piece, Sentence) else 0, _TOKENS, _SENTENCES)
    for block in sized:
        sizes = []
        for answer in job.answer(block):
            written, data = job.drawn(answer, form, style)
            if isinstance(written, CorpusError):
                typer.echo(f"trellis: {written}", err=True)
            else:
                sizes.append(len(written.sentence))
            file.write(data)
        file.flush()
        tell(len(sizes), sum(sizes))


def usual_form(job: Job, source: str, file: IO[bytes]) -> str:
    """Inline for people, the form of the input for programs."""
    only_words = segments(job.tagger.tagset_)
    if file.isatty():
        return "inline"
    if source in ("jsonl", "spans"):
        return "jsonl"
    if source in ("csv", "excel") and not job.tagger.makes_words:
        return "csv"
    if source in WORDS and not only_words:
        return source
    if source in (*TEXTS, *WORDS) and job.tagger.makes_words:
        return "segmented" if only_words else "wordtag"
    return "conll"


class ReportFile:
    """A report that is written as sentences are tagged: JSON Lines with every occurrence, or tables for people."""

    def __init__(self, file: IO[bytes], as_records: bool) -> None:
        self._file, self._as_records = file, as_records
        self._sentences = 0
        self._all = LexiconReport()

    def add(self, report: LexiconReport, sentences: int) -> None:
        numbered = tuple(replace(one, sentence=one.sentence + self._sentences) for one in report.occurrences)
        self._sentences += sentences
        if self._as_records:
            self._write("".join(map(dumps, LexiconReport(numbered).to_records())))
        else:
            self._all = self._all + LexiconReport(numbered)

    def finish(self) -> None:
        """Write what had to wait for the end: the entries as a table, then each occurrence that lost, with what won."""
        if self._as_records:
            return
        lines = [self._all.grid().to_text()]
        if self._all.lost:
            lines.append("\nLost:")
        for one in self._all.lost[:_MOST_LOST]:
            where = one.where or f"sentence {one.sentence}"
            winners = " ".join(
                f"{span.start}-{span.end}{f' {span.label}' if span.label else ''} {p:.3f}" for span, p in one.instead
            )
            lines.append(
                f"{where}, tokens {one.start}-{one.end}: {one.text} {one.probability:.3f} (alone {one.alone:.3f})"
                + (f" against {winners}" if winners else "")
            )
        self._write("\n".join([*lines, ""]))

    def _write(self, text: str) -> None:
        self._file.write(text.encode("utf-8", "backslashreplace"))


@contextmanager
def report_file(path: str | None) -> Iterator[ReportFile | None]:
    """The report at this path, if one is asked for; it appears once it is whole."""
    if path is None:
        yield None
        return
    with open_output(path) as file:
        report = ReportFile(file, path.endswith((".jsonl", ".ndjson")))
        yield report
        report.finish()


@contextmanager
def _live_line(text: str) -> Iterator[Callable[[str], None]]:
    """A line on standard error that changes; standard output is left alone, since the tagged text may go there."""
    # Imported here, since most runs show nothing and should not wait for rich.
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns, console = TextColumn("{task.description}"), Console(stderr=True)
    # Without a thread that refreshes the line: workers of folders are copies of a process that has none.
    with Progress(columns, console=console, redirect_stdout=False, auto_refresh=False) as display:
        line = display.add_task(text)
        yield lambda text: display.update(line, description=text, refresh=True)


@contextmanager
def counted() -> Iterator[Tell]:
    begin, done = time.monotonic(), Counter[str]()
    with _live_line("0 sentences") as show:

        def tell(sentences: int, tokens: int) -> None:
            done.update(sentence=sentences, token=tokens)
            rate = done["token"] / max(time.monotonic() - begin, 1e-9)
            show(", ".join([*(number_of(done[noun], noun) for noun in done), f"{rate:,.0f} tokens/s"]))

        yield tell


@contextmanager
def folder_progress(quiet: bool) -> Iterator[Callable[[FolderProgress], None]]:
    """A line that changes as the tagging of folders goes on; a line now and then where it is no terminal."""
    begin = last = time.monotonic()

    def print_rarely(progress: FolderProgress) -> None:
        nonlocal last
        now = time.monotonic()
        if not quiet and now - last >= _EVERY:
            last = now
            typer.echo(described(progress, now - begin), err=True)

    if quiet or not sys.stderr.isatty():
        yield print_rarely
        return
    with _live_line("starting") as show:
        yield lambda progress: show(described(progress, time.monotonic() - begin))


def described(progress: FolderProgress, seconds: float) -> str:
    """Shards, tokens, the rate, and how long the rest will take at it; the rest has as many tokens per byte."""
    rate = progress.tokens / max(seconds, 1e-9)
    shards = f"{progress.shards:,} of {number_of(progress.all_shards, 'shard')}"
    text = f"{shards}, {number_of(progress.tokens, 'token')}, {rate:,.0f} tokens/s"
    if not progress.bytes or not progress.done_tokens:
        return text
    expected = progress.left * progress.done_tokens / progress.bytes
    under_way = progress.tokens - progress.done_tokens
    minutes, whole = divmod(round(max(expected - under_way, 0) / max(rate, 1e-9)), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min {whole:02} s" if minutes else f"{whole} s"
    return f"{text}, about {left} left"
