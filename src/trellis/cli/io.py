"""What commands read and write: files of sentences, what is said about them, and answers as text."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from trellis import corpus
from trellis.corpus import (
    CorpusError,
    OnError,
    RelayingSource,
    Source,
    dumps,
    format_rows,
    get_format,
    guess_format,
    to_words,
    words_from_sentence,
)
from trellis.corpus import conll as corpus_conll
from trellis.corpus import conllu as corpus_conllu
from trellis.corpus import wordtag as corpus_wordtag
from trellis.corpus.tables import is_table, read_table
from trellis.errors import DataError, shown
from trellis.models import Labelling, Tagged
from trellis.models.data import Label
from trellis.tags import Scheme, Style
from trellis.text import Sentence, Splitter, hue, split_sentences, splitter

if TYPE_CHECKING:
    from rich.console import Console

TEXTS = ("text", "tokens")
"""Formats without annotations: one raw text or one tokenized sentence per line."""
WORDS = ("conllu", "wordtag")
"""Formats whose tokens are words."""
UNKNOWN, OR = "_", "|"
Piece = Sentence | CorpusError
_SHOWN = 10
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


def tell_unseen(path: str, sentences: Iterable[Sentence], labels: Iterable[str]) -> None:
    """Say which labels of a file a model does not know: they count as missed."""
    known = set(labels)
    unseen = Counter(tag for sentence in sentences for tag in sentence.tags or () if tag not in known)
    if unseen:
        typer.echo(
            f"{path}: tokens with labels that the training data lack, which count as missed: {unseen.total():,}, "
            f"with {some(unseen)}",
            err=True,
        )


def some(labels: Counter[str]) -> str:
    """The most frequent labels with their counts."""
    listed = ", ".join(f"{label} ({count:,})" for label, count in labels.most_common(_SHOWN))
    return f"{listed}, ..." if len(labels) > _SHOWN else listed


def quoted(paths: Iterable[str]) -> str:
    """Arguments as a shell takes them."""
    return " ".join(map(shlex.quote, paths))


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
        """All sentences of a file."""
        stream = self.open(Source(path, encoding=self.encoding))
        return corpus.Corpus(list(stream), stream.report)

    def sentences(self, path: str) -> Iterable[Sentence]:
        """The sentences of a shard, one by one."""
        if self.format is None and is_table(path):
            return read_table(path, **self.options)
        return self.open(Source(path, encoding=self.encoding))

    def open(self, source: Source) -> corpus.Stream:
        """The sentences of an opened file, one by one."""
        form, reason = guess_format(source) if self.format is None else (get_format(self.format), "it was asked for")
        source.report.format, source.report.reason = form.name, reason
        own: dict[str, Any] = self.remembered.get(form.name, {}) | self.options
        if form.name in ("segmented", "spans") and self.scheme is not None:
            own["scheme"] = self.scheme
        if form.name == "spans":
            own |= self.spans | ({} if self.tokenizer is None else {"tokenizer": self.tokenizer})
        return corpus.Stream.of(form, source, own)


def remembered_options(record: dict[str, Any]) -> dict[str, dict[str, object]]:
    """The options in the record of a training, for files of the same format."""
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
    """Whether the model makes words of characters: those of a file are taken apart."""

    def pieces(self, path: str, *, quiet: bool = False) -> tuple[str, Iterator[Piece]]:
        """The format of a file, and its sentences with what is broken between them, in order."""
        source = RelayingSource(path, encoding=self.reader.encoding, on_error=self.on_error)
        form = self.form or _guess(source, quiet)
        if form not in TEXTS:
            reader = replace(self.reader, format=form, spans={"gold": False}, tokenizer=self.tokenizer)
            if form == "conllu":
                reader = replace(reader, options={"tags": None if "." in self.column else self.column} | reader.options)
            if form == "conll":
                reader = replace(reader, options={"gold": "tags" in reader.options} | reader.options)
            if form == "jsonl":
                reader = replace(reader, options={"locate": True, "keep_fields": True} | reader.options)
            sentences: Iterable[Sentence] = reader.open(source)
            if self.respelled and form in WORDS:
                sentences = map(self._respelled, sentences)
            return form, source.relayed(sentences)
        tokenizer = splitter("whitespace") if form == "tokens" else self.tokenizer
        return form, source.relayed(_lines(source, tokenizer))

    def documents(self, path: str, whole: bool) -> tuple[str, Iterator[Piece]]:
        """A file of raw text as one document, whose sentences are found when it is tagged; or as its sentences."""
        source = RelayingSource(path, encoding=self.reader.encoding, on_error=self.on_error)
        text = "\n".join(line for _, line in source.lines())
        if whole:
            return "text", source.relayed([Document((), None, text, (), path=source.name, lines=(1,))])
        return "text", source.relayed((self._sentence(text[a:b], source) for a, b in split_sentences(text)))

    def _sentence(self, text: str, source: RelayingSource) -> Sentence:
        made = self.tokenizer.sentence(text)
        return Sentence(made.tokens, None, made.text, made.offsets, path=source.name)

    def _respelled(self, sentence: Sentence) -> Sentence:
        """The characters of the text, or of the words joined."""
        made = self.tokenizer.sentence(sentence.text or "".join(sentence.tokens))
        return replace(made, path=sentence.path, lines=tuple(sentence.lines)[:1])


class Document(Sentence):
    """A text of several sentences, not split yet."""


def _guess(source: RelayingSource, quiet: bool) -> str:
    """The format that all commands guess, except that lines of words are raw text here: they are to be tagged."""
    form, reason = guess_format(source)
    name = "text" if form.name == "segmented" else form.name
    if not quiet:
        shown_as = "text (one sentence per line)" if name == "text" else name
        typer.echo(f"{source.name}: read as {shown_as}, since {reason}", err=True)
    return name


def _lines(source: RelayingSource, tokenizer: Splitter) -> Iterator[Sentence]:
    for number, line in source.lines():
        made = tokenizer.sentence(line)
        yield Sentence(made.tokens, None, made.text, made.offsets, path=source.name, lines=(number,))


def blocks(pieces: Iterable[Piece], sentences: int, tokens: int) -> Iterator[list[Piece]]:
    """Pieces in blocks of this many sentences, or fewer if they are long."""
    block: list[Piece] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece) if isinstance(piece, Sentence) else 0
        if len(block) >= sentences or size >= tokens:
            yield block
            block, size = [], 0
    if block:
        yield block


class Constraints:
    """Known labels of the sentences to be tagged, in the same order.

    A tag ``_`` says nothing about its token, and ``B-PER|B-ORG`` that it is one of these.
    """

    def __init__(self, path: str, reader: Reader) -> None:
        self._path = path
        self._sentences = iter(reader.open(Source(path, encoding=reader.encoding)))

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
        return [_label(tag) for tag in known.tags or [UNKNOWN] * len(known)]

    def check_end(self) -> None:
        """Refuse a file that has more sentences: its labels belong to other sentences."""
        more = next(self._sentences, None)
        if more is not None:
            raise DataError(f"{more.where}: expected the end, since all sentences of the input are tagged")


def _label(tag: str) -> Label:
    if tag == UNKNOWN:
        return None
    return tag.split(OR) if OR in tag else tag


@dataclass(frozen=True)
class Answer:
    """One sentence with its tags, with probabilities and the best labellings if they are wanted."""

    sentence: Sentence
    probable: Tagged | None = None
    labellings: Sequence[Labelling] = field(default=())
    fields: Mapping[str, object] = field(default_factory=dict)
    """Those of the record that it was read from."""


@dataclass(frozen=True)
class Drawing:
    """How answers are drawn."""

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


def inline(answer: Answer, style: Drawing) -> str:
    """The text on one line with its spans marked, and the k best below one another."""
    assert answer.probable is not None
    lines = [_marked(answer.probable, style)]
    if not len(answer.sentence):
        return f"{lines[0]}\n"
    lines += [f"  {item.probability:.4f}  {' '.join(item.tags)}" for item in answer.labellings]
    return "\n".join(lines) + "\n"


def conll(answer: Answer, style: Drawing) -> str:
    """One token per line with further columns, tag, and probability if asked for; the k best with comments.

    Document marks and comments of the input are kept.
    """
    sentence = answer.sentence
    if not len(sentence):
        return "\n"  # a blank line stays one
    if answer.labellings:
        parts = []
        for rank, item in enumerate(answer.labellings, 1):
            rows = format_rows(sentence, [sentence.tokens, *sentence.columns.values(), item.tags], "\t")
            parts.append(f"# {rank} {item.probability:.{_DIGITS}f}\n{rows}")
        return "".join(parts)
    columns: list[Sequence[str]] = [sentence.tokens, *sentence.columns.values(), sentence.tags or ()]
    if style.probs and answer.probable is not None:
        columns.append([f"{p:.{_DIGITS}f}" for p in answer.probable.probabilities])
    return corpus_conll.head_of(sentence, len(columns), "\t") + format_rows(sentence, columns, "\t")


def conllu(answer: Answer, style: Drawing) -> str:
    """CoNLL-U with all that the input had; probabilities go to MISC, the k best have a comment of their own."""
    if not len(answer.sentence):
        return "\n"
    if not answer.labellings:
        return "".join(corpus_conllu.write([_with_probabilities(answer, style)], tags=style.column))
    parts = []
    for rank, item in enumerate(answer.labellings, 1):
        rows = corpus_conllu.write([_worded(answer.sentence.with_tags(item.tags), style)], tags=style.column)
        parts.append(f"# kbest = {rank} {item.probability:.{_DIGITS}f}\n{''.join(rows)}")
    return "".join(parts)


def _with_probabilities(answer: Answer, style: Drawing) -> Sentence:
    sentence = _worded(answer.sentence, style)
    if not style.probs or answer.probable is None:
        return sentence
    before = sentence.columns.get("misc", ("_",) * len(sentence))
    found = [span.probability for span in answer.probable] if style.tagged else answer.probable.probabilities
    pairs = [f"Prob={p:.{_DIGITS}f}" for p in found]
    misc = [pair if cell == "_" else f"{cell}|{pair}" for cell, pair in zip(before, pairs, strict=True)]
    return replace(sentence, columns={**sentence.columns, "misc": misc})


def wordtag(answer: Answer, style: Drawing) -> str:
    """A line of word/TAG items; the k best one below the other with their probabilities."""
    if not answer.labellings:
        return "".join(corpus_wordtag.write([_worded(answer.sentence, style)]))
    found = [(item, _worded(answer.sentence.with_tags(item.tags), style)) for item in answer.labellings]
    lines = [(item, corpus_wordtag.write([sentence])) for item, sentence in found]
    return "".join(f"{item.probability:.{_DIGITS}f}\t{''.join(line)}" for item, line in lines)


def jsonl(answer: Answer, style: Drawing) -> str:
    """One object per line: text, tokens, offsets, tags, probabilities, spans, further columns, and the k best.

    What else was in the record of the input stays in it.
    """
    assert answer.probable is not None
    record = _rounded(_in_words(answer.probable) if style.tagged else answer.probable.to_dict())
    record |= {name: list(values) for name, values in answer.sentence.columns.items() if name not in record}
    if answer.labellings:
        record["kbest"] = [_way(answer.sentence, item, style) for item in answer.labellings]
    return dumps({**answer.fields, **record})


def _way(sentence: Sentence, item: Labelling, style: Drawing) -> dict[str, object]:
    """One of the k best: its tags, with the words that they make where that is what tags do."""
    about = {"tags": item.tags, "probability": round(item.probability, _DIGITS)}
    if not style.tagged:
        return about
    words = _worded(sentence.with_tags(item.tags), style)
    return {"tokens": list(words.tokens), **about, "tags": list(words.tags or ())}


def _in_words(tagged: Tagged) -> dict[str, object]:
    """The fields of a tagged text with words as its tokens, each with its tag and how probable both are."""
    words = tagged.to_words()
    return {
        "text": tagged.text,
        "tokens": list(words.tokens),
        "offsets": [list(pair) for pair in words.offsets or ()],
        "tags": list(words.tags or ()),
        "probabilities": [span.probability for span in tagged],
        "spans": tagged.to_records(),
    }


def _worded(sentence: Sentence, style: Drawing) -> Sentence:
    """The sentence in words, if its labels make words with tags."""
    if not style.tagged:
        return sentence
    words = to_words(sentence, scheme=style.scheme, style=style.style)
    return words.with_tags(words.tags or ())


def segmented(answer: Answer, style: Drawing) -> str:
    """A line of words separated by spaces; the k best one below the other with their probabilities."""
    if not answer.labellings:
        return " ".join(words_from_sentence(answer.sentence, scheme=style.scheme)) + "\n"
    lines = []
    for item in answer.labellings:
        words = words_from_sentence(answer.sentence.with_tags(item.tags), scheme=style.scheme)
        lines.append(f"{item.probability:.{_DIGITS}f}\t{' '.join(words)}\n")
    return "".join(lines)


FORMS: dict[str, Callable[[Answer, Drawing], str]] = {
    "inline": inline,
    "conll": conll,
    "conllu": conllu,
    "jsonl": jsonl,
    "segmented": segmented,
    "wordtag": wordtag,
}


def passed_on(error: CorpusError, form: str) -> str:
    """Text that could not be tagged, unchanged; in JSON Lines with the reason."""
    if form == "jsonl":
        return dumps({"error": str(error), "line": error.line, "raw": error.whole})
    return error.whole + ("\n\n" if form in ("conll", "conllu") else "\n")


def _marked(tagged: Tagged, style: Drawing) -> str:
    if style.words:
        return _alternating(tagged, style)
    parts, end = [], 0
    for span in tagged.spans:
        between = tagged.text[end : span.start]
        parts.append(" " if style.tagged and end and not style.colour and not between else between)
        label = span.label + (f" {span.probability:.2f}" if style.probs else "")
        parts.append(_coloured(span.text, label, hue(span.label)) if style.colour else f"[{span.text}]({label})")
        end = span.end
    return "".join([*parts, tagged.text[end:]])


def _alternating(tagged: Tagged, style: Drawing) -> str:
    """Words: every other one underlined in a terminal, spaces between them elsewhere."""
    if not style.colour:
        return " ".join(tagged.words)
    words = [f"\x1b[4m{word}\x1b[24m" if i % 2 else word for i, word in enumerate(tagged.words)]
    return "".join(words)


def _coloured(text: str, label: str, angle: int) -> str:
    """ANSI: black on a light colour of 256, the label dim behind it."""
    colour = (114, 117, 147, 176, 180, 150, 215, 159)[angle * 8 // 360]
    return f"\x1b[30;48;5;{colour}m {text} \x1b[0m\x1b[2m{label}\x1b[22m"


def _rounded(record: dict[str, object]) -> dict[str, object]:
    def shorter(value: object) -> object:
        if isinstance(value, float):
            return round(value, _DIGITS)
        if isinstance(value, list):
            return [shorter(item) for item in value]
        if isinstance(value, dict):
            return {key: shorter(item) for key, item in value.items()}
        return value

    return {key: shorter(value) for key, value in record.items()}
