"""Taggers as components of spaCy: batches of documents in, annotations on them out.

spaCy reads the types of `initialize`, so they are not strings here.
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Optional, Self

import numpy as np

from trellis import config
from trellis.arrays import AnyArray, IntArray
from trellis.compat.spacy.documents import (
    PARTS_OF_SPEECH,
    Batch,
    Spans,
    Strings,
    add_extensions,
    bounds_of,
    tagged_texts,
    words_and_spaces,
)
from trellis.corpus import sentence_from_words
from trellis.corpus.spacy import sentences_of, tagged_sentence
from trellis.errors import ConfigError, DataError, ModelError, number_of, warn
from trellis.models import Tagger, load
from trellis.models.data import segments
from trellis.models.folder import prepare, save_model
from trellis.models.registry import get_family, make_tagger
from trellis.optional import needed
from trellis.ragged import ranges
from trellis.text import Sentence, splitter

_BATCH = 1000  # documents that are tagged at a time, as many as a pipeline of spaCy takes
_NOTHING = np.empty(0)
_INSIDE, _OUTSIDE, _BEGIN = 1, 2, 3  # spaCy's numbers for the place of a token in an entity


class StoredTagger:
    """A tagger that is opened from where the settings say, and stored and opened again as spaCy asks.

    Settings may name a folder of another machine: spaCy makes a component before it reads what was stored. So a folder
    that does not exist is an error only when the tagger is needed.
    """

    def __init__(self, name: str, model: str | None) -> None:
        self.name, self.model = name, model
        self._tagger = load(model) if model is not None and Path(model).exists() else None

    @property
    def tagger(self) -> Tagger[Any]:
        """The tagger; an error if there is none."""
        if self._tagger is None:
            where = "names no model" if self.model is None else f"names {self.model!r}, which does not exist"
            raise ModelError(f"{self.name} has no model: its setting `model` {where}")
        return self._tagger

    @tagger.setter
    def tagger(self, tagger: Tagger[Any]) -> None:
        self._tagger = tagger

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tagger as a folder of Trellis."""
        save_model(prepare(path), self.tagger)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Open what `to_disk` wrote."""
        self._tagger = load(path)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The tagger as the bytes of its file."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            self.tagger.save(file)
            return file.read_bytes()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Open what `to_bytes` gave."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            file.write_bytes(data)
            self._tagger = load(file)
        return self


class _Component(StoredTagger, ABC):
    """What the components share: documents are taken in batches, and their sentences tagged together.

    ``spacy train`` trains a component in `initialize`, by the trainer of the family. spaCy's loop over batches has
    nothing left to do: there is no `update`, so that it passes the component over.
    """

    def __init__(self, nlp: Any, name: str, model: str | None, train: dict[str, Any]) -> None:
        super().__init__(name, model)
        self.train = train
        _untrained(name, train)  # refuses wrong settings
        self.vocab, self._strings = nlp.vocab, Strings(nlp.vocab.strings)
        add_extensions()

    def __call__(self, doc: Any) -> Any:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = _BATCH) -> Iterator[Any]:
        """The documents, annotated; those of a batch are tagged in one call."""
        for docs in needed("spacy", "spacy", self.name).util.minibatch(stream, batch_size):
            tagger = self.tagger
            self._check(tagger)
            self._annotate(docs, tagger)
            yield from docs

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]],
        *,
        nlp: Any = None,
        dev: Optional[str] = None,  # noqa: UP045
    ) -> None:
        """Learn from the examples' references, unless the setting `model` names a model; `dev` is held-out data."""
        if self.model is not None:
            return
        sentences = list(self._labelled(example.reference for example in get_examples()))
        held_out = None if dev is None else list(self._labelled(_documents(nlp, dev)))
        self.tagger = _untrained(self.name, self.train).fit(sentences, dev=held_out)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model; none if there is no model yet."""
        return () if self._tagger is None else tuple(self._tagger.labels_)

    def _labelled(self, docs: Iterable[Any]) -> Iterator[Sentence]:
        """The sentences of documents that have what is to be learned; those that lack it are counted."""
        found, missing = 0, 0
        for span in (span for doc in docs for span in sentences_of(doc) if span.text.strip()):
            sentence = self._tagged_sentence(span)
            if sentence is None or sentence.tags is None:
                missing += 1
            else:
                found += 1
                yield sentence
        if not found:
            raise DataError(
                f"{self.name}: there is nothing to learn from: {number_of(missing, 'sentence')}, none annotated"
            )
        if missing:
            warn(f"{self.name}: left out since they are not annotated: {number_of(missing, 'sentence')}", UserWarning)

    def _tagged_sentence(self, span: Any) -> Sentence | None:
        """A sentence with what is to be learned as its tags; without tags if it is not annotated."""
        return tagged_sentence(span, "ent")

    @abstractmethod
    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        """How well the predictions of the examples agree with their references, by spaCy's own scorer."""

    def _check(self, tagger: Tagger[Any]) -> None:
        """Refuse a tagger that is for something else."""

    @abstractmethod
    def _annotate(self, docs: Sequence[Any], tagger: Tagger[Any]) -> None:
        """Tag the documents, and write what was found to them."""

    def _number(self, label: str) -> int:
        """A label as spaCy's number."""
        return int(self.vocab.strings.add(label))


class EntityComponent(_Component):
    """``trellis_ner``: entities of documents, and the probability of each."""

    def __init__(self, nlp: Any, name: str, model: str | None, train: dict[str, Any], spans_key: str) -> None:
        super().__init__(nlp, name, model, train)
        self.spans_key = spans_key

    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        """Precision, recall and F1 of entities."""
        found: dict[str, Any] = needed("spacy.scorer", "spacy", self.name).get_ner_prf(examples)
        return found

    def _check(self, tagger: Tagger[Any]) -> None:
        if segments(tagger.tagset_):
            raise ModelError(f"{self.name}: this model finds words and no names: use trellis_segmenter")

    def _annotate(self, docs: Sequence[Any], tagger: Tagger[Any]) -> None:
        if _reads_characters(tagger):
            bounds = bounds_of(docs)
            self._write(docs, bounds, Spans.of_texts(docs, bounds, tagger))
        else:
            batch = Batch.of(docs, self._strings)
            answers = tagger.answers(batch.sentences, token_probabilities=False)
            self._write(docs, batch.bounds, Spans.of_tokens(batch, answers))

    def _write(self, docs: Sequence[Any], bounds: IntArray, spans: Spans) -> None:
        """Tokens get their entities by arrays; there are objects only for what was found."""
        library = needed("spacy", "spacy", self.name)
        attributes = [library.attrs.IDS[name] for name in ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID")]
        group, key = library.tokens.SpanGroup, self.spans_key
        numbers = np.array([self._number(kind) for kind in spans.kinds], dtype=np.uint64)
        tokens = _entities_by_token(int(bounds[-1]), spans, numbers)
        owned = np.searchsorted(spans.first, bounds).tolist()
        for doc, (begin, end), (low, high) in zip(docs, pairwise(bounds.tolist()), pairwise(owned), strict=True):
            if end > begin:
                doc.from_array(attributes, tokens[begin:end])
            found = spans.objects(doc, begin, low, high) if low < high else ()
            scores = spans.probability[low:high].copy() if low < high else _NOTHING
            doc.spans[key] = group(doc, name=key, spans=found, attrs={"scores": scores})


def _entities_by_token(count: int, spans: Spans, numbers: AnyArray) -> AnyArray:
    """For each token the place in an entity, its label and its (unknown) id in a knowledge base."""
    tokens = np.zeros((count, 3), dtype=np.uint64)
    tokens[:, 0] = _OUTSIDE
    lengths = spans.stop - spans.first
    inside = ranges(spans.first, lengths)
    tokens[inside, 0] = _INSIDE
    tokens[spans.first, 0] = _BEGIN
    tokens[inside, 1] = np.repeat(numbers[spans.kind], lengths)
    return tokens


class TagComponent(_Component):
    """``trellis_tagger``: one tag per token, and the probability of each."""

    def __init__(self, nlp: Any, name: str, model: str | None, train: dict[str, Any], attribute: str | None) -> None:
        if attribute not in (None, "tag", "pos"):
            raise ConfigError(f"{name}: attribute must be tag, pos or nothing, got {attribute!r}")
        super().__init__(nlp, name, model, train)
        self.attribute = attribute

    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        """The share of tokens with the right tag."""
        scorer = needed("spacy.scorer", "spacy", self.name).Scorer
        found: dict[str, Any] = scorer.score_token_attr(examples, self._attribute(), **settings)
        return found

    def _tagged_sentence(self, span: Any) -> Sentence | None:
        if self.attribute is None:
            raise ConfigError(f"{self.name}: to be trained, it needs the setting attribute: tag or pos")
        return tagged_sentence(span, self.attribute)

    def _check(self, tagger: Tagger[Any]) -> None:
        if _reads_characters(tagger):
            raise ModelError(f"{self.name}: this model tags characters; spaCy's tokens are words")

    def _annotate(self, docs: Sequence[Any], tagger: Tagger[Any]) -> None:
        attribute = needed("spacy", "spacy", self.name).attrs.IDS[self._attribute().upper()]
        batch = Batch.of(docs, self._strings)
        answers, count = tagger.answers(batch.sentences), int(batch.bounds[-1])
        numbers = np.array([self._number(label) for label in tagger.labels_], dtype=np.uint64)
        tags, scores = np.zeros(count, dtype=np.uint64), np.full(count, np.nan)
        tags[batch.places], scores[batch.places] = numbers[answers.ids], answers.probabilities
        for doc, (begin, end) in zip(docs, pairwise(batch.bounds.tolist()), strict=True):
            if end > begin:
                doc.from_array(attribute, tags[begin:end])
            doc.user_data["trellis_tags"] = scores[begin:end].copy()

    def _attribute(self) -> str:
        """Which attribute the tags of the model are."""
        labels = set(self.tagger.labels_)
        if self.attribute == "pos" and labels - PARTS_OF_SPEECH:
            unknown = min(labels - PARTS_OF_SPEECH)
            raise ModelError(f"{self.name}: the label {unknown!r} is no part of speech of Universal Dependencies")
        return self.attribute or ("tag" if labels - PARTS_OF_SPEECH else "pos")


class WordComponent(_Component):
    """``trellis_segmenter``: tokens merged to the words that a segmenter finds, where their borders agree."""

    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        """Precision, recall and F1 of words."""
        scorer = needed("spacy.scorer", "spacy", self.name).Scorer
        found: dict[str, Any] = scorer.score_tokenization(examples, **settings)
        return found

    def _tagged_sentence(self, span: Any) -> Sentence | None:
        return sentence_from_words([token.text for token in span if not token.text.isspace()])

    def _check(self, tagger: Tagger[Any]) -> None:
        _check_makes_words(self.name, tagger)

    def _annotate(self, docs: Sequence[Any], tagger: Tagger[Any]) -> None:
        words: dict[int, list[Any]] = {}
        for doc, _, begin, tagged in tagged_texts(docs, bounds_of(docs), tagger):
            spans = [doc.char_span(begin + one.start, begin + one.end) for one in tagged.spans]
            words.setdefault(id(doc), []).extend(span for span in spans if span is not None and len(span) > 1)
        for doc in docs:
            with doc.retokenize() as retokenizer:
                for span in words.get(id(doc), ()):
                    retokenizer.merge(span)


def _reads_characters(tagger: Tagger[Any]) -> bool:
    return not splitter(tagger.tokenizer_).separator


def _check_makes_words(name: str, tagger: Tagger[Any]) -> None:
    """Refuse a tagger that makes no words of characters."""
    if not tagger.makes_words:
        raise ModelError(f"{name}: this model makes no words of characters; its labels are {', '.join(tagger.labels_)}")


class SegmentingTokenizer(StoredTagger):
    """Documents made of the words that a segmenter finds in a text."""

    def __init__(self, nlp: Any, model: str | None) -> None:
        super().__init__("the tokenizer trellis_segmenter.v1", model)
        self.vocab = nlp.vocab

    def __call__(self, text: str) -> Any:
        _check_makes_words(self.name, self.tagger)
        words, spaces = words_and_spaces(text, self.tagger(text).words if text else [])
        return needed("spacy", "spacy", self.name).tokens.Doc(self.vocab, words=words, spaces=spaces)


def _untrained(name: str, train: dict[str, Any]) -> Any:
    """A tagger with these settings, of which `family` names the kind."""
    settings = dict(train)
    try:
        family = get_family(str(settings.pop("family", "crf")))
        return make_tagger(family, config.changed(family.defaults(), settings))
    except ConfigError as error:
        raise ConfigError(f"{name}: train: {error}") from None


def _documents(nlp: Any, path: str) -> Iterable[Any]:
    """The documents of a file that spaCy stored."""
    from spacy.tokens import DocBin  # type: ignore[import-not-found, unused-ignore]

    found: Iterable[Any] = DocBin().from_disk(path).get_docs(nlp.vocab)
    return found
