"""Taggers as components of spaCy: batches of documents in, annotations and probabilities on them out.

spaCy reads the types of `initialize`, so they are not strings here.
"""

import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Optional, Self

import numpy as np

from trellis import __version__, config
from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.corpus import sentence_from_words
from trellis.corpus.spacy import sentences_of, tagged_sentence
from trellis.errors import ConfigError, DataError, ModelError, needed, number_of, warn
from trellis.models import Tagged, Tagger, load
from trellis.models.answers import Answers
from trellis.models.data import segments
from trellis.models.families import get_family, make_tagger
from trellis.models.folder import prepare, save_model
from trellis.ragged import offsets_of, ranges
from trellis.tags import Role, Scheme
from trellis.text import Sentence, splitter

PARTS_OF_SPEECH = frozenset(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()  # noqa: SIM905
)
_EXTENSION = "probability"
_MAKER = "trellis"
_PACKAGE = "trellis-crf"
_COLUMNS = ("TAG", "POS", "LEMMA")
_STRINGS = 100_000  # that a component remembers
_BATCH = 1000  # documents that are tagged at a time, as many as a pipeline of spaCy takes
_NOTHING = np.empty(0)
_INSIDE, _OUTSIDE, _BEGIN = 1, 2, 3  # spaCy's numbers for the place of a token in an entity


def _spacy() -> Any:
    return needed("spacy", "spacy", "trellis.compat.spacy")


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
    def of(cls, docs: Sequence[Any], strings: Strings) -> Self:
        """A sentence begins where spaCy says so, and with each document."""
        attributes, bounds = [_spacy().attrs.IDS[name] for name in ("ORTH", "SENT_START", *_COLUMNS)], bounds_of(docs)
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


def _with_columns(pieces: list[list[str]], table: AnyArray, cuts: Sequence[int], strings: Strings) -> list[Any]:
    """Words of sentences, with columns for attributes that spaCy knows of every token."""
    if not table.any():
        return pieces
    names = [name.lower() for name in _COLUMNS]
    sentences = []
    for words, (begin, end) in zip(pieces, pairwise(cuts), strict=True):
        known = zip(names, table[begin:end].T.tolist(), strict=True)
        columns = {name: [strings[number] for number in numbers] for name, numbers in known if all(numbers)}
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
        """The spans from `low` to `high` as those of a document that begins at token `begin`."""
        kind, columns = _spacy().tokens.Span, (self.first, self.stop, self.kind)
        rows = zip(*(column[low:high].tolist() for column in columns), strict=True)
        return [kind(doc, first - begin, stop - begin, self.kinds[number]) for first, stop, number in rows]

    @classmethod
    def of_tokens(cls, batch: Batch, answers: Answers) -> Self:
        """Spans of the answers about the sentences of a batch."""
        table = answers.spans
        begin = answers.token_offsets[table.sequence]  # of the sentence
        first, last = batch.places[begin + table.begin], batch.places[begin + table.end - 1]
        return cls(first, last + 1, table.kind, answers.span_probabilities, table.kinds)

    @classmethod
    def of_texts(cls, docs: Sequence[Any], bounds: IntArray, tagger: Tagger[Any]) -> Self:
        """Spans from a tagger of characters; each reaches to the borders of the tokens around it."""
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
    """The document of each sentence, its first token among those of all, where the text begins, and the answer."""
    texts = []
    for doc, shift in zip(docs, bounds[:-1].tolist(), strict=True):
        for span in sentences_of(doc):
            whole = span.text
            if text := whole.strip():
                texts.append((doc, shift, span[0].idx + len(whole) - len(whole.lstrip()), text))
    answers = tagger.annotate([text for _, _, _, text in texts])
    for (doc, shift, begin, _), tagged in zip(texts, answers, strict=True):
        yield doc, shift, begin, tagged


def add_extensions() -> None:
    """``span._.probability`` and ``token._.probability``, unless somebody else has such names."""
    tokens = _spacy().tokens
    for kind, getter in ((tokens.Span, _of_span), (tokens.Token, _of_token)):
        if not kind.has_extension(_EXTENSION):
            kind.set_extension(_EXTENSION, getter=getter)


def _of_span(span: Any) -> float | None:
    """The score of this span in a group of ours, if it is in one."""
    for group in span.doc.spans.values():
        if group.attrs.get("made_by") == _MAKER:
            for one, score in zip(group, group.attrs["scores"], strict=False):
                if (one.start, one.end, one.label) == (span.start, span.end, span.label):
                    return float(score)
    return None


def _of_token(token: Any) -> float | None:
    """None where there is no tag: at white space, and in a document that was not tagged."""
    known: Sequence[float] = token.doc.user_data.get("trellis_tags", ())
    return None if token.i >= len(known) or math.isnan(known[token.i]) else float(known[token.i])


def name_package(nlp: Any) -> None:
    """Have ``spacy package`` list ours among the requirements; it finds other packages by a file that ours lacks."""
    requirements = nlp.meta.setdefault("requirements", [])
    if not any(one.startswith(_PACKAGE) for one in requirements):
        requirements.append(f"{_PACKAGE}{_spacy().util.get_minor_version_range(__version__)}")


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
    """Takes documents in batches and tags their sentences together.

    ``spacy train`` trains a component in `initialize`, by the trainer of the family. spaCy's loop over batches has
    nothing left to do.
    """

    def __init__(self, nlp: Any, name: str, model: str | None, train: dict[str, Any]) -> None:
        super().__init__(name, model)
        self.train = train
        _untrained(name, train)  # refuses wrong settings
        self.vocab, self._strings = nlp.vocab, Strings(nlp.vocab.strings)
        self._announced: list[str] = []
        self._is_initialized = False
        add_extensions()
        name_package(nlp)

    def __call__(self, doc: Any) -> Any:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = _BATCH) -> Iterator[Any]:
        """The documents, annotated; those of a batch are tagged in one call."""
        for docs in _spacy().util.minibatch(stream, batch_size):
            tagger = self.tagger
            self._check(tagger)
            if docs[0].vocab is not self.vocab:  # another pipeline took the component over, by ``source=``
                self.vocab, self._strings = docs[0].vocab, Strings(docs[0].vocab.strings)
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
        self._is_initialized = True
        if self.model is not None:
            return
        sentences = list(self._labelled(example.reference for example in get_examples()))
        held_out = None
        if dev is not None:
            held_out = list(self._labelled(_spacy().tokens.DocBin().from_disk(dev).get_docs(nlp.vocab)))
        self.tagger = _untrained(self.name, self.train).fit(sentences, dev=held_out)
        unseen = [label for label in self._announced if label not in self.labels]
        if unseen:
            warn(f"{self.name}: no example has the labels {', '.join(unseen)}", UserWarning)

    def update(self, examples: Iterable[Any], *, losses: dict[str, float] | None = None, **_: Any) -> dict[str, float]:
        """A step of spaCy's loop, which changes nothing: `initialize` learns from all examples at once."""
        if not self._is_initialized:
            raise ModelError(
                f"{self.name} is not trained batch by batch: nlp.initialize(lambda: examples) trains it on all of "
                f"them; to train other components only, give nlp.update exclude=[{self.name!r}], or name it in "
                "frozen_components of spacy train"
            )
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        return losses

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the component writes; before training, those that were announced."""
        return tuple(self._announced) if self._tagger is None else self._labels_of(self._tagger)

    def _labels_of(self, tagger: Tagger[Any]) -> tuple[str, ...]:
        return tuple(tagger.labels_)

    def add_label(self, label: str) -> int:
        """Announce a label before training, which learns those of the examples; 1 if it is new."""
        if label in self.labels:
            return 0
        if self._tagger is not None:
            known = ", ".join(self.labels)
            raise ModelError(f"{self.name}: the model knows the labels {known}: train one with examples of {label!r}")
        self._announced.append(label)
        return 1

    def _labelled(self, docs: Iterable[Any]) -> Iterator[Sentence]:
        """The sentences of documents that have what is to be learned; those that lack it are counted."""
        annotated, missing = 0, 0
        for span in (span for doc in docs for span in sentences_of(doc) if span.text.strip()):
            sentence = self._tagged_sentence(span)
            if sentence is None or sentence.tags is None:
                missing += 1
            else:
                annotated += 1
                yield sentence
        if not annotated:
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
        return int(self.vocab.strings.add(label))


class EntityComponent(_Component):
    """``trellis_ner``: entities of documents, and the probability of each."""

    def __init__(
        self, nlp: Any, name: str, model: str | None, train: dict[str, Any], spans_key: str | None, overwrite: bool
    ) -> None:
        super().__init__(nlp, name, model, train)
        self.spans_key, self.overwrite = spans_key, overwrite

    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        return _spacy().scorer.get_ner_prf(examples)  # type: ignore[no-any-return]

    def _check(self, tagger: Tagger[Any]) -> None:
        if segments(tagger.tagset_):
            raise ModelError(f"{self.name}: this model finds words and no names: use trellis_segmenter")
        if tagger.tagset_.scheme is Scheme.PLAIN and "O" not in tagger.labels_:
            raise ModelError(
                f"{self.name}: this model gives every token a tag ({', '.join(tagger.labels_[:3])}, ...) and finds no "
                "names: use trellis_tagger"
            )

    def _labels_of(self, tagger: Tagger[Any]) -> tuple[str, ...]:
        return tuple(sorted({kind for role, kind in tagger.tagset_.parsed if role is not Role.O and kind}))

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
        library = _spacy()
        attributes = [library.attrs.IDS[name] for name in ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID")]
        group, key = library.tokens.SpanGroup, self.spans_key
        numbers = np.array([self._number(kind) for kind in spans.kinds], dtype=np.uint64)
        # For each token the place in an entity, its label and its ids, which are unknown.
        tokens = np.zeros((int(bounds[-1]), len(attributes)), dtype=np.uint64)
        tokens[:, 0] = _OUTSIDE
        lengths = spans.stop - spans.first
        inside = ranges(spans.first, lengths)
        tokens[inside, 0] = _INSIDE
        tokens[spans.first, 0] = _BEGIN
        tokens[inside, 1] = np.repeat(numbers[spans.kind], lengths)
        owned = np.searchsorted(spans.first, bounds).tolist()
        for doc, (begin, end), (low, high) in zip(docs, pairwise(bounds.tolist()), pairwise(owned), strict=True):
            objects = spans.objects(doc, begin, low, high) if low < high else []
            scores = spans.probability[low:high].copy() if low < high else _NOTHING
            present = () if self.overwrite else doc.ents
            if present:
                taken = {place for one in present for place in range(one.start, one.end)}
                is_free = [taken.isdisjoint(range(one.start, one.end)) for one in objects]
                doc.ents = [*present, *(one for one, free in zip(objects, is_free, strict=True) if free)]
                stays = [free or one in present for one, free in zip(objects, is_free, strict=True)]
                scores = scores[np.array(stays, dtype=np.bool_)]
                objects = [one for one, stay in zip(objects, stays, strict=True) if stay]
            elif end > begin:
                doc.from_array(attributes, tokens[begin:end])
            if key is not None:
                doc.spans[key] = group(doc, name=key, spans=objects, attrs={"scores": scores, "made_by": _MAKER})


class TagComponent(_Component):
    """``trellis_tagger``: one tag per token, and the probability of each."""

    def __init__(self, nlp: Any, name: str, model: str | None, train: dict[str, Any], attribute: str | None) -> None:
        if attribute not in (None, "tag", "pos"):
            raise ConfigError(f"{name}: attribute must be tag, pos or nothing, got {attribute!r}")
        super().__init__(nlp, name, model, train)
        self.attribute = attribute

    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        scorer = _spacy().scorer.Scorer
        return scorer.score_token_attr(examples, self._attribute(), **settings)  # type: ignore[no-any-return]

    def _tagged_sentence(self, span: Any) -> Sentence | None:
        if self.attribute is None:
            raise ConfigError(f"{self.name}: to be trained, it needs the setting attribute: tag or pos")
        return tagged_sentence(span, self.attribute)

    def _check(self, tagger: Tagger[Any]) -> None:
        if _reads_characters(tagger):
            raise ModelError(f"{self.name}: this model tags characters; spaCy's tokens are words")

    def _annotate(self, docs: Sequence[Any], tagger: Tagger[Any]) -> None:
        attribute = _spacy().attrs.IDS[self._attribute().upper()]
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
        return _spacy().scorer.Scorer.score_tokenization(examples, **settings)  # type: ignore[no-any-return]

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
        name_package(nlp)

    def __call__(self, text: str) -> Any:
        _check_makes_words(self.name, self.tagger)
        words, spaces = _spacy().util.get_words_and_spaces(self.tagger(text).words if text else [], text)
        return _spacy().tokens.Doc(self.vocab, words=list(words), spaces=list(spaces))


def _untrained(name: str, train: dict[str, Any]) -> Any:
    """A tagger with these settings, of which `family` names the kind."""
    settings = dict(train)
    try:
        family = get_family(str(settings.pop("family", "crf")))
        return make_tagger(family, config.changed(family.defaults(), settings))
    except ConfigError as error:
        raise ConfigError(f"{name}: train: {error}") from None
