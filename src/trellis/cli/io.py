"""What commands read and write: files of sentences, what is said about them, and answers as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from trellis import corpus
from trellis.corpus import (
    CorpusError,
    OnError,
    Source,
    dumps,
    format_rows,
    get_format,
    guess_format,
    is_table,
    read_table,
    to_words,
    words_from_sentence,
)
from trellis.corpus import conll as corpus_conll
from trellis.corpus import conllu as corpus_conllu
from trellis.corpus import segmented as corpus_segmented
from trellis.corpus.tables import LONG, TableWriter, table_columns
from trellis.errors import DataError, shown
from trellis.models import Labelling, Tagged, folder
from trellis.models.data import Label
from trellis.tags import Scheme, Style
from trellis.text import Sentence, Splitter, hue, split_sentences, splitter

if TYPE_CHECKING:
    from rich.console import Console

TEXTS = ("text", "tokens")
"""Formats without annotations: one raw text or one tokenized sentence per line."""
WORDS = ("conllu", "wordtag")
"""Formats whose tokens are words."""
Piece = Sentence | CorpusError
_DIGITS = 6


def output(**options: Any) -> Console:
    """Rich's console, except that a reader who has seen enough, as ``head`` has, is not an error."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the one place where all commands end."""
            raise BrokenPipeError

    return Output(**options)


def tell_reading(path: str, report: corpus.ReadReport, *, given: bool = False, quiet: bool = False) -> None:
    """Say on standard error what a file was taken for and why, and what was left out or changed in reading it."""
    if quiet:
        return
    if not given:
        typer.echo(f"{path}: read as {report.format}, since {report.reason}", err=True)
    tell_notes(path, report.notes())


def tell_notes(path: str, notes: Iterable[str]) -> None:
    """Say what was changed; lines that go on are indented."""
    for note in notes:
        typer.echo(note if note.startswith(" ") else f"{path}: {note}", err=True)


@dataclass(frozen=True)
class Reader:
    """How the files of one command are read; `scheme` and `tokenizer` matter to the formats that need them."""

    format: str | None = None
    encoding: str = "utf-8"
    options: dict[str, object] = field(default_factory=dict)
    scheme: str | None = None
    tokenizer: str | Splitter | None = None
    remembered: dict[str, dict[str, object]] = field(default_factory=dict)
    """Options that a model's training files were read with, by their format."""
    spans: dict[str, object] = field(default_factory=dict)
    """Options of the reader of spans."""

    def read(self, path: str) -> corpus.Corpus:
        stream = self.open(path)
        sentences = list(stream)
        for sentence in sentences:
            if len(sentence) > LONG:
                what = f"sentences of more than {LONG:,} tokens (is a blank line missing, or a column of numbers?)"
                stream.report.change(what, f"{sentence.where}: {len(sentence):,} tokens")
        return corpus.Corpus(sentences, stream.report)

    def sentences(self, path: str) -> Iterable[Sentence]:
        if self.format is None and is_table(path):
            return read_table(path, **self.options)
        return self.open(path)

    def open(self, file: str | Source) -> corpus.Stream:
        source = Source(file, encoding=self.encoding) if isinstance(file, str) else file
        form, reason = guess_format(source) if self.format is None else (get_format(self.format), "it was asked for")
        source.report.format, source.report.reason = form.name, reason
        options: dict[str, Any] = self.remembered.get(form.name, {}) | self.options
        if form.name in ("segmented", "spans", "brat") and self.scheme is not None:
            options["scheme"] = self.scheme
        if form.name in ("spans", "brat"):
            options |= self.spans | ({} if self.tokenizer is None else {"tokenizer": self.tokenizer})
        return corpus.Stream.of(form, source, options)


def remembered_options(model: str) -> dict[str, dict[str, object]]:
    """The options that the training files of a model were read with, for files of the same format."""
    record = folder.read_record(model)
    file = record.get("data", {}).get("train", {})
    return {file["format"]: record.get("reading", {})} if file else {}


@dataclass(frozen=True)
class Inputs:
    """Files to tag: one raw text or one tokenized sentence per line, or any format of `trellis.corpus`."""

    reader: Reader
    tokenizer: Splitter
    form: str | None
    on_error: OnError
    column: str = "upos"
    """The column of CoNLL-U that gets the tags; all others stay."""
    respelled: bool = False
    """Whether the model makes words of characters: the words of a file are split into characters."""

    def pieces(self, path: str, *, quiet: bool = False) -> tuple[str, Iterator[Piece]]:
        """The format of a file, and its sentences with what is broken between them, in order."""
        source = self._open(path)
        form = self.form
        if form is None:
            guess, reason = guess_format(source)
            form = "text" if guess.name == "segmented" else guess.name  # lines of words are raw text to be tagged
            if not quiet:
                name = "text (one sentence per line)" if form == "text" else form
                typer.echo(f"{source.name}: read as {name}, since {reason}", err=True)
        sentences: Iterable[Sentence]
        if form in TEXTS:
            tokenizer = splitter("whitespace") if form == "tokens" else self.tokenizer
            sentences = (_tokenized(line, tokenizer, source.name, (number,)) for number, line in source.lines())
        else:
            options: dict[str, dict[str, object]] = {
                "conllu": {"tags": None if "." in self.column else self.column},
                "conll": {"gold": "tags" in self.reader.options},
                "csv": {"gold": False},
                "excel": {"gold": False},
                "jsonl": {"locate": True, "keep_fields": True},
            }
            options_given = options.get(form, {}) | self.reader.options
            spans: dict[str, object] = {"gold": False}
            reader = replace(self.reader, format=form, spans=spans, tokenizer=self.tokenizer, options=options_given)
            sentences = reader.open(source)
            if self.respelled and form in WORDS:
                sentences = (
                    _tokenized(one.text or "".join(one.tokens), self.tokenizer, one.path, tuple(one.lines)[:1])
                    for one in sentences
                )
        return form, source.relayed(sentences)

    def documents(self, path: str, whole: bool) -> tuple[str, Iterator[Piece]]:
        """A file of raw text as one document, whose sentences are found when it is tagged; or as its sentences."""
        source = self._open(path)
        text = "\n".join(line for _, line in source.lines())
        if whole:
            return "text", source.relayed([Document((), None, text, (), path=source.name, lines=(1,))])
        sentences = (_tokenized(text[a:b], self.tokenizer, source.name, ()) for a, b in split_sentences(text))
        return "text", source.relayed(sentences)

    def _open(self, path: str) -> Source:
        return Source(path, encoding=self.reader.encoding, on_error=self.on_error, keep_broken=True)


def _tokenized(text: str, tokenizer: Splitter, path: str | None, lines: Sequence[int]) -> Sentence:
    made = tokenizer.sentence(text)
    return Sentence(made.tokens, None, made.text, made.offsets, path=path, lines=lines)


class Document(Sentence):
    """A text of several sentences, not split yet."""


class Constraints:
    """Known labels of the sentences to be tagged, in the same order.

    A tag ``_`` says nothing about its token, and ``B-PER|B-ORG`` that it is one of these.
    """

    def __init__(self, path: str, reader: Reader) -> None:
        self._path = path
        self._sentences = iter(reader.open(path))

    def next_for(self, sentence: Sentence) -> Sequence[Label]:
        """The known labels of this sentence, which must be the next one of the file."""
        known = next(self._sentences, None)
        if known is None:
            raise DataError(f"{self._path}: no sentence is left for {sentence.where}; expected one for each")
        if known.tokens != sentence.tokens:
            raise DataError(
                f"{known.where}: other tokens than {sentence.where} has: "
                f"expected {shown(' '.join(sentence.tokens))}, got {shown(' '.join(known.tokens))}"
            )
        tags = known.tags or ["_"] * len(known)
        return [None if tag == "_" else tag.split("|") if "|" in tag else tag for tag in tags]

    def check_end(self) -> None:
        """Refuse a file that has more sentences: its labels belong to other sentences."""
        more = next(self._sentences, None)
        if more is not None:
            raise DataError(f"{more.where}: expected the end, since all sentences of the input are tagged")


@dataclass(frozen=True)
class Answer:
    """One sentence with its tags, with probabilities and the best labellings if they are wanted."""

    sentence: Sentence
    probable: Tagged | None = None
    labellings: Sequence[Labelling] = field(default=())
    fields: Mapping[str, object] = field(default_factory=dict)
    """Fields of the JSON record that the sentence was read from."""


@dataclass(frozen=True)
class Drawing:
    scheme: Scheme
    style: Style = Style.PREFIX
    probs: bool = False
    colour: bool = False
    words: bool = False
    """The labels have no types: what counts is where words begin and end."""
    tagged: bool = False
    """The labels say where words begin and end, and what they are: what counts is words with tags."""
    column: str | None = None
    """Where CoNLL-U gets the tags."""
    table: TableWriter = field(default_factory=TableWriter)
    """Writes the rows of CSV, and knows whether there is a header above them."""


def inline(answer: Answer, style: Drawing) -> str:
    """The text on one line with its spans marked, and the k best below one another."""
    assert answer.probable is not None
    labellings = answer.labellings if len(answer.sentence) else ()
    best = (f"  {item.probability:.4f}  {' '.join(item.tags)}" for item in labellings)
    return "\n".join([_marked(answer.probable, style), *best, ""])


def conll(answer: Answer, style: Drawing) -> str:
    """One token per line with further columns, tag, and probability if asked for; the k best with comments.

    Document marks and comments of the input are kept.
    """
    if not len(answer.sentence):
        return "\n"  # a blank line stays one
    columns = [answer.sentence.tokens, *answer.sentence.columns.values()]
    if answer.labellings:
        return _ranked(answer, "# {} {}\n", lambda one: format_rows(one, [*columns, one.tags or ()], "\t"))
    columns.append(answer.sentence.tags or ())
    if style.probs and answer.probable is not None:
        columns.append(tuple(f"{p:.{_DIGITS}f}" for p in answer.probable.probabilities))
    return corpus_conll.head_of(answer.sentence, len(columns), "\t") + format_rows(answer.sentence, columns, "\t")


def conllu(answer: Answer, style: Drawing) -> str:
    """CoNLL-U with all that the input had; probabilities go to MISC, the k best have a comment of their own."""

    def rows(sentence: Sentence) -> str:
        return "".join(corpus_conllu.write([sentence], tags=style.column))

    if not len(answer.sentence):
        return "\n"
    if answer.labellings:
        return _ranked(answer, "# kbest = {} {}\n", lambda one: rows(_in_words(one, style)))
    sentence, tagged = _in_words(answer.sentence, style), answer.probable
    if style.probs and tagged is not None:
        probabilities = [span.probability for span in tagged] if style.tagged else tagged.probabilities
        pairs = [f"Prob={p:.{_DIGITS}f}" for p in probabilities]
        cells = sentence.columns.get("misc", ("_",) * len(sentence))
        misc = [pair if cell == "_" else f"{cell}|{pair}" for cell, pair in zip(cells, pairs, strict=True)]
        sentence = replace(sentence, columns={**sentence.columns, "misc": misc})
    return rows(sentence)


def wordtag(answer: Answer, style: Drawing) -> str:
    """A line of word/TAG items; the k best one below the other with their probabilities."""

    def line(sentence: Sentence) -> str:
        return "".join(corpus_segmented.write_tagged_words([_in_words(sentence, style)]))

    return _ranked(answer, "{1}\t", line) if answer.labellings else line(answer.sentence)


def segmented(answer: Answer, style: Drawing) -> str:
    """A line of words separated by spaces; the k best one below the other with their probabilities."""

    def line(sentence: Sentence) -> str:
        return " ".join(words_from_sentence(sentence, scheme=style.scheme)) + "\n"

    return _ranked(answer, "{1}\t", line) if answer.labellings else line(answer.sentence)


def _ranked(answer: Answer, head: str, draw: Callable[[Sentence], str]) -> str:
    """The k best labellings, each drawn below or behind a head with its rank and probability."""
    return "".join(
        head.format(rank, f"{item.probability:.{_DIGITS}f}") + draw(answer.sentence.with_tags(item.tags))
        for rank, item in enumerate(answer.labellings, 1)
    )


def _in_words(sentence: Sentence, style: Drawing) -> Sentence:
    """The sentence in words, if its labels make words with tags."""
    if not style.tagged:
        return sentence
    words = to_words(sentence, scheme=style.scheme, style=style.style)
    return words.with_tags(words.tags or ())


def jsonl(answer: Answer, style: Drawing) -> str:
    """One object per line: text, tokens, offsets, tags, probabilities, spans, further columns, and the k best.

    What else was in the record of the input stays in it.
    """
    tagged, sentence = answer.probable, answer.sentence
    assert tagged is not None
    record = tagged.to_dict()
    if style.tagged:  # words are the tokens, each with its tag and how probable both are
        words = tagged.to_words()
        record |= {"tokens": list(words.tokens), "tags": list(words.tags or ())}
        record["offsets"] = list(map(list, words.offsets or ()))
        record["probabilities"] = [span.probability for span in tagged]
    record["probabilities"] = [round(p, _DIGITS) for p in record["probabilities"]]
    for span in record["spans"]:
        span["probability"] = round(span["probability"], _DIGITS)
    record |= {name: list(values) for name, values in sentence.columns.items() if name not in record}
    if answer.labellings:
        record["kbest"] = []
    for item in answer.labellings:
        words = _in_words(sentence.with_tags(item.tags), style)
        tokens = {"tokens": list(words.tokens)} if style.tagged else {}
        labelling = {"tags": list(words.tags or ()), "probability": round(item.probability, _DIGITS)}
        record["kbest"].append(tokens | labelling)
    return dumps({**answer.fields, **record})


def csv(answer: Answer, style: Drawing) -> str:
    """A row per token, with its probability if asked for, below a header that is written once."""
    columns = table_columns(answer.sentence)
    if style.probs and answer.probable is not None:
        columns["probability"] = [f"{p:.{_DIGITS}f}" for p in answer.probable.probabilities]
    return style.table.rows(answer.sentence, columns)


FORMS: dict[str, Callable[[Answer, Drawing], str]] = {
    "inline": inline,
    "conll": conll,
    "conllu": conllu,
    "jsonl": jsonl,
    "segmented": segmented,
    "wordtag": wordtag,
    "csv": csv,
}


def passed_on(error: CorpusError, form: str) -> str:
    """Text that could not be tagged, unchanged; in JSON Lines with the reason."""
    if form == "jsonl":
        return dumps({"error": str(error), "line": error.line, "raw": error.whole})
    return error.whole + ("\n\n" if form in ("conll", "conllu") else "\n")


def colour_of(label: str) -> int:
    """A light colour of a terminal's 256 for a type of span: the nearest to the one that notebooks and pages show."""
    return (210, 180, 150, 114, 159, 117, 147, 176)[round(hue(label) / 45) % 8]


def _marked(tagged: Tagged, style: Drawing) -> str:
    """The text with its spans marked; words alone are separated by spaces, or every other one is underlined."""
    if style.words and style.colour:
        return "".join(f"\x1b[4m{word}\x1b[24m" if i % 2 else word for i, word in enumerate(tagged.words))
    if style.words:
        return " ".join(tagged.words)
    parts, end = [], 0
    for span in tagged.spans:
        between = tagged.text[end : span.start]
        parts.append(" " if style.tagged and end and not style.colour and not between else between)
        label = span.label + (f" {span.probability:.2f}" if style.probs else "")
        if style.colour:  # ANSI: black on a light colour of 256, the label dim behind it
            parts.append(f"\x1b[30;48;5;{colour_of(span.label)}m {span.text} \x1b[0m\x1b[2m{label}\x1b[22m")
        else:
            parts.append(f"[{span.text}]({label})")
        end = span.end
    return "".join([*parts, tagged.text[end:]])
