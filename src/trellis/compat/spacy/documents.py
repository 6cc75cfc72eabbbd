"""spaCy's documents as inputs of taggers, by arrays for a batch at a time, and where probabilities are found again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.corpus.spacy import sentences_of
from trellis.models import Tagged, Tagger
from trellis.models.answers import Answers
from trellis.optional import needed
from trellis.ragged import offsets_of
from trellis.text import Sentence

PARTS_OF_SPEECH = frozenset(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()  # noqa: SIM905
)
_EXTENSION = "probability"
_COLUMNS = ("TAG", "POS", "LEMMA")
_STRINGS = 100_000  # that a component remembers


class Strings(dict[int, str]):
    """spaCy's numbers as strings, looked up once; `blank` are those of white space."""

    def __init__(self, strings: Any) -> None:
        self._strings = strings
        self.blank: set[int] = set()

    def __missing__(self, number: int) -> str:
        if len(self) >= _STRINGS:
            self.clear()
        text = self[number] = str(self._strings[number])
        if text.isspace():
            self.blank.add(number)
        return text


@dataclass(frozen=True, eq=False)
class Batch:
    """The tokens of documents that a tagger gets: all but those of white space, sentence by sentence."""

    docs: Sequence[Any]
    bounds: IntArray  # [D + 1], the first token of each document among the tokens of all
    places: IntArray  # [N], of each token that is tagged, among the tokens of all
    sentences: list[Any]
    """Lists of tokens; sentences with columns where spaCy knows more of every token."""

    @classmethod
    def of(cls, docs: Sequence[Any], strings: Strings) -> Batch:
        """A sentence begins where spaCy says so, and with each document."""
        attributes, bounds = _attributes(), bounds_of(docs)
        arrays = [doc.to_array(attributes) for doc in docs]
        table = np.concatenate([np.empty((0, 2 + len(_COLUMNS)), dtype=np.uint64), *arrays])  # [tokens, attributes]
        words = list(map(strings.__getitem__, table[:, 0].tolist()))
        starts = table[:, 1] == 1
        starts[bounds[:-1][np.diff(bounds) > 0]] = True
        blank = np.isin(table[:, 0], np.fromiter(strings.blank, dtype=np.uint64)) if strings.blank else None
        places = np.arange(len(words)) if blank is None else np.flatnonzero(~blank)
        if len(places) < len(words):
            words = [words[place] for place in places.tolist()]
        # The tokens of each sentence among those that are tagged; a sentence of white space has none.
        cuts = np.unique(np.searchsorted(places, np.append(np.flatnonzero(starts), len(starts)))).tolist()
        pieces = [words[a:b] for a, b in pairwise(cuts)]
        return cls(docs, bounds, places, _with_columns(pieces, table[places, 2:], cuts, strings))


def bounds_of(docs: Sequence[Any]) -> IntArray:
    """``[D + 1]``: the first token of each document among the tokens of all."""
    return offsets_of(np.array([len(doc) for doc in docs], dtype=np.int64))


def _attributes() -> list[int]:
    names = needed("spacy", "spacy", "trellis.compat.spacy").attrs.IDS
    return [names[name] for name in ("ORTH", "SENT_START", *_COLUMNS)]


def _with_columns(pieces: list[list[str]], table: AnyArray, cuts: Sequence[int], strings: Strings) -> list[Any]:
    """What spaCy knows of every token of a sentence as its columns."""
    if not table.any():
        return pieces
    names = [name.lower() for name in _COLUMNS]
    sentences = []
    for words, (begin, end) in zip(pieces, pairwise(cuts), strict=True):
        own = table[begin:end]
        known = dict(zip(names, own.T.tolist(), strict=True))
        columns = {name: [strings[number] for number in numbers] for name, numbers in known.items() if all(numbers)}
        sentences.append(Sentence(words, columns=columns) if columns else words)
    return sentences


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans of the documents of a batch by their tokens, counted over all documents, in order and apart."""

    first: IntArray  # [S]
    stop: IntArray  # [S], one after the last
    kind: IntArray  # [S], index into kinds
    probability: FloatArray  # [S]
    kinds: Sequence[str]

    def objects(self, doc: Any, begin: int, low: int, high: int) -> list[Any]:
        """The spans from `low` to `high` as those of a document that begins there, which keeps their probabilities."""
        kind = needed("spacy", "spacy", "trellis.compat.spacy").tokens.Span
        columns = (self.first, self.stop, self.kind, self.probability)
        places, known = [], {}
        for first, stop, number, probability in zip(*(column[low:high].tolist() for column in columns), strict=True):
            places.append((first - begin, stop - begin, self.kinds[number]))
            known[_name(*places[-1])] = probability
        doc.user_data.setdefault("trellis_spans", {}).update(known)
        return [kind(doc, *place) for place in places]

    @classmethod
    def of_tokens(cls, batch: Batch, answers: Answers) -> Spans:
        """What was found in the sentences of the batch."""
        table = answers.spans
        begin = answers.token_offsets[table.sequence]  # of the sentence
        first, last = batch.places[begin + table.begin], batch.places[begin + table.end - 1]
        return cls(first, last + 1, table.kind, answers.span_probabilities, table.kinds)

    @classmethod
    def of_texts(cls, docs: Sequence[Any], bounds: IntArray, tagger: Tagger[Any]) -> Spans:
        """What a tagger of characters finds; a span reaches to the borders of the tokens around it."""
        rows, probabilities, kinds, end = list[tuple[int, int, int]](), list[float](), dict[str, int](), 0
        for doc, shift, begin, tagged in tagged_texts(docs, bounds, tagger):
            for one in tagged.spans:
                span = doc.char_span(begin + one.start, begin + one.end, alignment_mode="expand")
                if shift + span.start >= end:  # two names in one token of spaCy: the first stays
                    end = shift + span.end
                    rows.append((shift + span.start, end, kinds.setdefault(one.label, len(kinds))))
                    probabilities.append(one.probability)
        first, stop, kind = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return cls(first, stop, kind, np.array(probabilities), list(kinds))


def tagged_texts(docs: Sequence[Any], bounds: IntArray, tagger: Tagger[Any]) -> Iterator[tuple[Any, int, int, Tagged]]:
    """Sentences as texts: the document of each, its place among the tokens of all, where it begins, what was found."""
    texts = [
        (doc, shift, *piece) for doc, shift in zip(docs, bounds[:-1].tolist(), strict=True) for piece in _texts(doc)
    ]
    answers = tagger.annotate([text for _, _, _, text in texts])
    for (doc, shift, begin, _), tagged in zip(texts, answers, strict=True):
        yield doc, shift, begin, tagged


def _texts(doc: Any) -> Iterator[tuple[int, str]]:
    """The sentences of a document: where each begins, and its text without the white space around it."""
    for span in sentences_of(doc):
        text = span.text
        if own := text.strip():
            begin = span[0].idx + len(text) - len(text.lstrip())
            yield begin, own


def words_and_spaces(text: str, words: Sequence[str]) -> tuple[list[str], list[bool]]:
    """The words of a document that has this text, white space included."""
    words, spaces = needed("spacy", "spacy", "trellis_segmenter").util.get_words_and_spaces(words, text)
    return list(words), list(spaces)


def add_extensions() -> None:
    """``span._.probability`` and ``token._.probability``, unless somebody else has such names."""
    tokens = needed("spacy", "spacy", "trellis.compat.spacy").tokens
    for kind, getter in ((tokens.Span, _of_span), (tokens.Token, _of_token)):
        if not kind.has_extension(_EXTENSION):
            kind.set_extension(_EXTENSION, getter=getter)


def _name(start: int, end: int, label: str) -> str:
    """Under which the probability of a span is kept with its document."""
    return f"{start} {end} {label}"


def _of_span(span: Any) -> float | None:
    known: dict[str, float] = span.doc.user_data.get("trellis_spans", {})
    return known.get(_name(span.start, span.end, span.label_))


def _of_token(token: Any) -> float | None:
    """None where there is no tag: at white space, and in a document that was not tagged."""
    known: Sequence[float] = token.doc.user_data.get("trellis_tags", ())
    return None if token.i >= len(known) or math.isnan(known[token.i]) else float(known[token.i])
