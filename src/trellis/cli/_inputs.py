"""What ``trellis tag`` reads: sentences as they come, and the broken pieces between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import typer

from trellis.cli._reading import Reader
from trellis.corpus import CorpusError, OnError, RelayingSource, Source, guess_format
from trellis.errors import DataError, shown
from trellis.models.data import Label
from trellis.text import Sentence, Splitter, split_sentences, splitter

UNKNOWN, OR = "_", "|"
TEXTS = ("text", "tokens")
WORDS = ("conllu", "wordtag")
"""Formats whose tokens are words."""
Piece = Sentence | CorpusError


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
    """What all commands guess; lines of words are raw text here, since they are there to be tagged."""
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
        """What is known about this sentence, which must be the next one of the file."""
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
