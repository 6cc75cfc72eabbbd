"""Taggers as components of spaCy: batches of documents in, annotations on them out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from trellis.compat.spacy.documents import (
    PARTS_OF_SPEECH,
    add_extensions,
    pieces,
    span_name,
    span_places,
    words_and_spaces,
)
from trellis.compat.spacy.opened import Opened
from trellis.errors import ConfigError, ModelError
from trellis.extras import needed
from trellis.models import Tagged, Tagger
from trellis.models.raw_text import segments
from trellis.text import splitter

_BATCH = 256  # documents that are tagged at a time


class _Component(Opened, ABC):
    """What the components share: documents are taken in batches, and their sentences tagged together."""

    def __init__(self, nlp: Any, name: str, model: str | None) -> None:
        super().__init__(name, model)
        self.vocab = nlp.vocab
        add_extensions()

    def __call__(self, doc: Any) -> Any:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = _BATCH) -> Iterator[Any]:
        """The documents, annotated; those of a batch are tagged in one call."""
        for docs in needed("spacy", "spacy", self.name).util.minibatch(stream, batch_size):
            yield from self._annotated(docs)

    def _annotated(self, docs: Sequence[Any]) -> Sequence[Any]:
        tagger = self.tagger
        self._check(tagger)
        characters = not splitter(tagger.tokenizer_).separator
        parts = [list(pieces(doc, characters=characters)) for doc in docs]
        tagged = iter(tagger.annotate([given for own in parts for _, _, given in own]))
        for doc, own in zip(docs, parts, strict=True):
            self._annotate(doc, [(begin, places, next(tagged)) for begin, places, _ in own])
        return docs

    def _check(self, tagger: Tagger[Any]) -> None:
        """Refuse a tagger that is for something else."""

    @abstractmethod
    def _annotate(self, doc: Any, found: Sequence[tuple[int, Sequence[int], Tagged]]) -> None:
        """Write what was found to the document: by sentence its begin, its tokens by place, its answers."""


class EntityComponent(_Component):
    """``trellis_ner``: entities of documents, and the probability of each."""

    def __init__(self, nlp: Any, name: str, model: str | None, spans_key: str) -> None:
        super().__init__(nlp, name, model)
        self.spans_key = spans_key

    def _check(self, tagger: Tagger[Any]) -> None:
        if segments(tagger.tagset_):
            raise ModelError(f"{self.name}: this model finds words and no names: use trellis_segmenter")

    def _annotate(self, doc: Any, found: Sequence[tuple[int, Sequence[int], Tagged]]) -> None:
        library = needed("spacy", "spacy", self.name).tokens
        spans, known, end = [], {}, 0
        for sentence in found:
            for first, stop, label, probability in span_places(doc, *sentence):
                if first >= end:  # two names in one token of spaCy: the first stays
                    spans.append(library.Span(doc, first, stop, label))
                    known[span_name(first, stop, label)] = probability
                    end = stop
        doc.set_ents(spans, default="outside")
        scores = {"scores": np.array(list(known.values()))}
        doc.spans[self.spans_key] = library.SpanGroup(doc, name=self.spans_key, spans=spans, attrs=scores)
        doc.user_data.setdefault("trellis_spans", {}).update(known)


class TagComponent(_Component):
    """``trellis_tagger``: one tag per token, and the probability of each."""

    def __init__(self, nlp: Any, name: str, model: str | None, attribute: str | None) -> None:
        if attribute not in (None, "tag", "pos"):
            raise ConfigError(f"{name}: attribute must be tag, pos or nothing, got {attribute!r}")
        super().__init__(nlp, name, model)
        self.attribute = attribute

    def _annotate(self, doc: Any, found: Sequence[tuple[int, Sequence[int], Tagged]]) -> None:
        attribute, ids = self._attribute(), self._ids()
        scores: list[float | None] = [None] * len(doc)
        for _, places, tagged in found:
            for place, tag, score in zip(places, tagged.tags, tagged.probabilities, strict=True):
                setattr(doc[place], attribute, ids[tag])
                scores[place] = score
        doc.user_data["trellis_tags"] = scores

    def _attribute(self) -> str:
        """Which attribute the tags of the model are."""
        labels = set(self.tagger.labels_)
        if self.attribute == "pos" and labels - PARTS_OF_SPEECH:
            unknown = min(labels - PARTS_OF_SPEECH)
            raise ModelError(f"{self.name}: the label {unknown!r} is no part of speech of Universal Dependencies")
        return self.attribute or ("tag" if labels - PARTS_OF_SPEECH else "pos")

    def _ids(self) -> dict[str, int]:
        """Labels as spaCy's numbers."""
        return {label: self.vocab.strings.add(label) for label in self.tagger.labels_}


class WordComponent(_Component):
    """``trellis_segmenter``: tokens merged to the words that a segmenter finds, where their borders agree."""

    def _check(self, tagger: Tagger[Any]) -> None:
        _check_makes_words(self.name, tagger)

    def _annotate(self, doc: Any, found: Sequence[tuple[int, Sequence[int], Tagged]]) -> None:
        with doc.retokenize() as retokenizer:
            for begin, _, tagged in found:
                for one in tagged.spans:
                    span = doc.char_span(begin + one.start, begin + one.end)
                    if span is not None and len(span) > 1:
                        retokenizer.merge(span)


def _check_makes_words(name: str, tagger: Tagger[Any]) -> None:
    """Refuse a tagger that makes no words of characters."""
    if not tagger.makes_words:
        raise ModelError(f"{name}: this model makes no words of characters; its labels are {', '.join(tagger.labels_)}")


class SegmentingTokenizer(Opened):
    """Documents made of the words that a segmenter finds in a text."""

    def __init__(self, nlp: Any, model: str | None) -> None:
        super().__init__("the tokenizer trellis_segmenter.v1", model)
        self.vocab = nlp.vocab

    def __call__(self, text: str) -> Any:
        _check_makes_words(self.name, self.tagger)
        words, spaces = words_and_spaces(text, self.tagger(text).words if text else [])
        return needed("spacy", "spacy", self.name).tokens.Doc(self.vocab, words=words, spaces=spaces)
