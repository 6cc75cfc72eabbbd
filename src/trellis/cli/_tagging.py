"""Blocks of sentences answered by a model, and written in the form that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, Literal

import typer

from trellis.cli._inputs import TEXTS, WORDS, Constraints, Document, Piece, blocks
from trellis.cli._lexicons import ReportFile
from trellis.cli._outputs import FORMS, Answer, Drawing, passed_on
from trellis.cli._progress import Tell
from trellis.corpus import CorpusError, RecordFields
from trellis.errors import ConfigError, DataError, TrellisError
from trellis.lexicon import Lexicon
from trellis.lexicon.report import LexiconReport
from trellis.models import Pipeline, Tagger
from trellis.models.raw_text import segments
from trellis.tags import Scheme
from trellis.text import Sentence, splitter

# Sentences and tokens answered at a time: enough for the kernels, little enough for memory and for people who wait.
_SENTENCES, _TOKENS = 512, 20_000


@dataclass
class Job:
    """The model and what is asked of it."""

    tagger: Tagger[Any]
    probs: bool
    kbest: int
    known: Constraints | None
    forgiving: bool
    column: str = "upos"
    raw: bool = False
    """Whether the sentences are lines of raw text."""
    pipeline: Pipeline | None = None
    """The models that make the tokens of the last, which is the tagger."""
    lexicon: Lexicon | Literal["own"] | None = "own"
    report: ReportFile | None = None

    def style(self, form: str, file: IO[bytes]) -> Drawing:
        """How to draw in this form."""
        colour = form == "inline" and file.isatty() and not os.environ.get("NO_COLOR")
        own = self.tagger.tagset_
        return Drawing(own.scheme, own.style, self.probs, colour, self.segments(), self.tags_words(), self.column)

    def segments(self) -> bool:
        """Whether the labels only say where words begin and end."""
        return segments(self.tagger.tagset_)

    def tags_words(self) -> bool:
        """Whether the labels say where words begin and end, and what they are."""
        return self.tagger.makes_words and not self.segments()

    @property
    def makes_words(self) -> bool:
        """Whether characters come in, and words are made of them."""
        return (self.tagger if self.pipeline is None else self.pipeline.taggers[0]).makes_words

    def answer(self, block: list[Piece]) -> list[Answer | CorpusError]:
        """Answers in the order of the pieces; a sentence that the model refuses is named, or becomes an error."""
        sentences = [piece for piece in block if isinstance(piece, Sentence)]
        known = None if self.known is None else [self.known.next_for(sentence) for sentence in sentences]
        try:
            found: list[Answer | CorpusError] = list(self._answers(sentences, known))
        except TrellisError:
            found = [self._alone(s, None if known is None else known[i]) for i, s in enumerate(sentences)]
        answers = iter(found)
        return [_in_record(next(answers), piece) if isinstance(piece, Sentence) else piece for piece in block]

    def _answers(self, sentences: list[Sentence], known: Any) -> list[Answer]:
        if any(isinstance(sentence, Document) for sentence in sentences):
            texts = [sentence.text or "" for sentence in sentences]
            if self.pipeline is not None:
                documents = self.pipeline.annotate(texts, sentences=True)
            else:
                documents = self.tagger.annotate(texts, sentences=True, lexicon=self.lexicon)
            return [Answer(one.sentence, one) for one in documents]
        if self.pipeline is not None:
            sentences = self.pipeline.words(sentences, raw=self.raw)
        raw = self.raw and self.pipeline is None
        posterior = self.tagger.posterior(sentences, known=known, raw=raw, lexicon=self.lexicon)
        if self.probs:
            separator = splitter(self.tagger.tokenizer_).separator
            answers = [Answer(one.sentence, one) for one in posterior.annotate(separator=separator)]
        else:  # tags alone need no probabilities, and come several times faster
            tagged = zip(sentences, posterior.best(), strict=True)
            answers = [Answer(sentence.with_tags(tags)) for sentence, tags in tagged]
        if self.kbest:
            paths = posterior.kbest(self.kbest)
            answers = [replace(one, labellings=own) for one, own in zip(answers, paths, strict=True)]
        if self.report is not None:  # last: sentences that are refused together are asked about one by one
            found = LexiconReport() if posterior.occurrences is None else posterior.lexicon_report()
            self.report.add(found, len(sentences))
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
                found = f"a lone surrogate U+{ord(error.object[error.start]):04X}, which UTF-8 cannot hold"
                answer = self._refused(answer.sentence, DataError(found))
            except TrellisError as error:
                answer = self._refused(answer.sentence, error)
        return answer, _as_it_came(passed_on(answer, form))

    def _refused(self, sentence: Sentence, error: TrellisError) -> CorpusError:
        """The error of a sentence with its place, raised unless such sentences are passed on."""
        text = sentence.text or " ".join(sentence.tokens)
        problem = str(error).removeprefix(f"{sentence.where}: ")
        wrapped = CorpusError(problem, path=sentence.path or "", line=sentence.line_of(0) or 0, text=text)
        if not self.forgiving:
            raise wrapped from error
        return wrapped


def _in_record(answer: Answer | CorpusError, sentence: Sentence) -> Answer | CorpusError:
    """An answer with the fields of the record that the sentence was read from, if it was."""
    if isinstance(answer, CorpusError) or not isinstance(sentence.frame, RecordFields):
        return answer
    return replace(answer, fields=sentence.frame)


def write(job: Job, source: str, pieces: Iterator[Piece], to: str | None, file: IO[bytes], tell: Tell) -> None:
    """The answers to all pieces, in their order."""
    form = to or usual_form(job, source, file)
    style = job.style(form, file)
    job = replace(
        job,
        probs=job.probs or form in ("inline", "jsonl"),
        raw=source == "text" or (source in WORDS and job.makes_words),
    )
    if form == "segmented" and style.scheme is Scheme.PLAIN:
        raise ConfigError("--to segmented: the labels of this model do not say where words begin and end")
    for block in blocks(pieces, _SENTENCES, _TOKENS):
        answers = []
        for found in job.answer(block):
            answer, data = job.drawn(found, form, style)
            if isinstance(answer, CorpusError):
                typer.echo(f"trellis: {answer}", err=True)
            answers.append(answer)
            file.write(data)
        file.flush()
        tagged = [len(answer.sentence) for answer in answers if not isinstance(answer, CorpusError)]
        tell(len(tagged), sum(tagged))


def _as_it_came(text: str) -> bytes:
    """The bytes of a text that was read, also of those that did not decode."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def usual_form(job: Job, source: str, file: IO[bytes]) -> str:
    """Inline for people, the form of the input for programs."""
    if file.isatty():
        return "inline"
    if source in ("jsonl", "spans"):
        return "jsonl"
    if source in WORDS and not job.segments():
        return source
    if source in (*TEXTS, *WORDS) and job.tagger.makes_words:
        return "segmented" if job.segments() else "wordtag"
    return "conll"
