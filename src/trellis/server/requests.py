"""Requests read from JSON: checked field by field, split into tokens, and ready for the batcher."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trellis.models.data import Label
from trellis.models.raw_text import inputs_of, joined, parts_of, segments
from trellis.server.knowing import labels_of_spans, span_of
from trellis.server.limits import ServerLimits
from trellis.server.problems import InvalidRequestError, MalformedError, TooLargeError
from trellis.server.questions import Asked, ExplainQuestion, TagAnswer, TagQuestion, TrellisQuestion, labelling_dict
from trellis.server.queueing import Question, QueuedPart
from trellis.server.shelf import ModelShelf, ServedModel
from trellis.suggest import did_you_mean
from trellis.text import splitter
from trellis.untrusted import Fields, JSONSyntaxError, is_unicode, parse_json, shown

_INPUTS = ("texts", "tokens", "documents")
_TAG = (*_INPUTS, "model", "known", "known_spans", "probabilities", "k_best", "spans_only", "timeout")
_TRELLIS = ("text", "tokens", "model", "known", "known_spans", "k_best", "timeout")
_LINE = ("text", "tokens", "id")
_QUERY = ("model", "probabilities", "k_best", "spans_only")
_CORRECTION = ("text", "tokens", "model", "known_spans", "tags")
_EXPLAIN = ("text", "tokens", "model", "positions", "top", "timeout")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as the batcher takes it."""

    question: Question
    parts: list[QueuedPart]
    finish: Callable[[list[Any]], bytes]
    seconds: float


class RequestReader:
    """Reads requests for the models of a shelf, within limits."""

    def __init__(self, shelf: ModelShelf, limits: ServerLimits) -> None:
        self._shelf, self._limits = shelf, limits

    def tag(self, body: bytes) -> Prepared:
        """``/v1/tag``."""
        fields = _fields(body, _TAG)
        model, form = self._model(fields), _one_of(fields, _INPUTS)
        asked, owners = self._inputs(fields, model, form)
        known = _known(fields, asked, model, form)
        k = self._integer(fields, "k_best", 0, 0, self._limits.k)
        probabilities, spans_only = _flag(fields, "probabilities", True), _flag(fields, "spans_only", False)
        _check_spans_only(spans_only, probabilities)
        if form == "documents" and (k or not probabilities):
            raise InvalidRequestError(
                "documents are answered with probabilities and without k_best: send their sentences as texts"
            )
        question = TagQuestion(model, form != "tokens", known is not None, probabilities, k)
        answer = TagWriter(model, form, spans_only, owners, fields.values.get("documents"))
        return self._prepared(question, known or asked, answer, fields, weight=max(1, k))

    def lines(self, query: Mapping[str, str]) -> Callable[[bytes], Prepared]:
        """``/v1/tag`` with JSON Lines: how one line is read, with the options of the query."""
        fields = Fields(_options(query), "the query", InvalidRequestError)
        model, k = self._model(fields), self._integer(fields, "k_best", 0, 0, self._limits.k)
        probabilities, spans_only = _flag(fields, "probabilities", True), _flag(fields, "spans_only", False)
        _check_spans_only(spans_only, probabilities)

        def line(body: bytes) -> Prepared:
            own = _fields(body, _LINE)
            form, name = _one_of(own, ("text", "tokens")), {"id": own.text("id")} if "id" in own else {}
            asked = self._one(own, model, form)
            answer = TagWriter(model, form, spans_only)
            question = TagQuestion(model, form != "tokens", False, probabilities, k)
            parts = sized(asked, self._limits, max(1, k))
            return Prepared(question, parts, lambda a: dumps(name | answer.result(a[0])), self._limits.seconds)

        return line

    def trellis(self, body: bytes) -> Prepared:
        """``/v1/trellis``."""
        fields = _fields(body, _TRELLIS)
        model, form, asked = self._single(fields)
        known = _known(fields, asked, model, form, one=True)
        k = self._integer(fields, "k_best", 3, 1, self._limits.k)
        question = TrellisQuestion(model, form != "tokens", known is not None, k)
        return self._prepared(question, known or asked, lambda a: dumps(_named(model) | a[0]), fields, weight=2 + k)

    def explain(self, body: bytes) -> Prepared:
        """``/v1/explain``."""
        fields = _fields(body, _EXPLAIN)
        model, _, asked = self._single(fields)
        positions, most = self._positions(fields, len(asked[0].item)), self._limits.explained_tokens
        top = self._integer(fields, "top", 10, 1, 1000)
        if len(positions) > most:
            raise TooLargeError(f"reasons of {len(positions)} tokens are asked for: expected at most {most} positions")
        tokens = list(getattr(asked[0].item, "tokens", asked[0].item))
        whole = [asked[0]._replace(positions=positions)]

        def finish(answers: list[Any]) -> bytes:
            return dumps(_named(model) | {"tokens": tokens, "why": answers[0]})

        return self._prepared(ExplainQuestion(model, top), whole, finish, fields, weight=max(1, 4 * len(positions)))

    def _prepared(
        self, question: Question, asked: list[Asked], finish: Callable[[list[Any]], bytes], fields: Fields, weight: int
    ) -> Prepared:
        parts = sized(asked, self._limits, weight)
        return Prepared(question, parts, finish, self._seconds(fields))

    def _model(self, fields: Fields) -> ServedModel:
        return self._shelf.get(fields.text("model") if "model" in fields else None)

    def _inputs(self, fields: Fields, model: ServedModel, form: str) -> tuple[list[Asked], list[tuple[int, int]]]:
        """The sentences, and of a document's the number of the document and where they begin in it."""
        if form == "tokens":
            return [Asked(item) for item in _token_lists(fields)], []
        given, owners = _texts(fields, form), []
        if form == "documents":
            parts = list(parts_of(given))
            given, owners = [text for _, _, text in parts], [(number, start) for number, start, _ in parts]
        return split(model, given), owners

    def _single(self, fields: Fields) -> tuple[ServedModel, str, list[Asked]]:
        """One text or one token list."""
        model, form = self._model(fields), _one_of(fields, ("text", "tokens"))
        return model, form, self._one(fields, model, form)

    def _one(self, fields: Fields, model: ServedModel, form: str) -> list[Asked]:
        if form == "text":
            return split(model, [unicode(fields.text("text"), "text")])
        return [Asked(_tokens(fields.items("tokens", str), "tokens"))]

    def _positions(self, fields: Fields, count: int) -> list[int]:
        if "positions" not in fields:
            return list(range(count))
        return list(fields.integers("positions", 0, max(count - 1, 0))) if count else []

    def _integer(self, fields: Fields, name: str, default: int, low: int, high: int) -> int:
        return fields.integer(name, low, high) if name in fields else default

    def _seconds(self, fields: Fields) -> float:
        if "timeout" not in fields:
            return self._limits.seconds
        wanted = float(fields.value("timeout", int, float))
        if not 0 < wanted <= self._limits.seconds:
            raise InvalidRequestError(
                f"timeout must be above 0 and at most {self._limits.seconds:g} seconds, got {shown(wanted)}"
            )
        return wanted


@dataclass(frozen=True, slots=True)
class TagWriter:
    """The answer to ``/v1/tag``, written as JSON from the answers to its sentences."""

    model: ServedModel
    form: str
    spans_only: bool
    owners: Sequence[tuple[int, int]] = ()
    documents: Sequence[str] | None = None

    def __call__(self, answers: list[TagAnswer]) -> bytes:
        """All results."""
        results = self._documents(answers) if self.documents is not None else map(self.result, answers)
        return dumps(_named(self.model) | {"results": list(results)})

    def result(self, answer: TagAnswer) -> dict[str, Any]:
        """One result."""
        if answer.tagged is None:
            found: dict[str, Any] = {"tags": answer.tags}
        elif self.spans_only:
            found = {"spans": answer.tagged.to_records()}
        else:
            found = answer.tagged.to_dict()
        if answer.labellings:
            found["k_best"] = [labelling_dict(path) for path in answer.labellings]
        return found

    def _documents(self, answers: list[TagAnswer]) -> list[dict[str, Any]]:
        assert self.documents is not None
        own: list[list[Any]] = [[] for _ in self.documents]
        for (number, start), answer in zip(self.owners, answers, strict=True):
            own[number].append((start, answer.tagged))
        found = [_document(text, parts) for text, parts in zip(self.documents, own, strict=True)]
        return [{"spans": one["spans"]} for one in found] if self.spans_only else found


def _document(text: str, parts: list[Any]) -> dict[str, Any]:
    if not parts:
        return {
            "text": text,
            "tokens": [],
            "offsets": [],
            "tags": [],
            "probabilities": [],
            "spans": [],
            "sentences": [],
        }
    sentences = [[start, start + len(one.text)] for start, one in parts]
    return joined(text, parts).to_dict() | {"sentences": sentences}


def sized(asked: Sequence[Asked], limits: ServerLimits, weight: int = 1) -> list[QueuedPart]:
    """The sentences as parts of a job, if they are not too many or too long; `weight` is what a token costs."""
    lengths = [len(one.item) for one in asked]
    if sum(lengths) > limits.tokens:
        raise TooLargeError(f"the request has {sum(lengths)} tokens: expected at most {limits.tokens}")
    if max(lengths, default=0) > limits.sentence_tokens:
        raise TooLargeError(f"a sentence has {max(lengths)} tokens: expected at most {limits.sentence_tokens}")
    return [QueuedPart(one, max(1, n) * weight) for one, n in zip(asked, lengths, strict=True)]


class Correction(NamedTuple):
    """What a person says about a sentence."""

    text: str
    tokens: Sequence[str]
    labels: Sequence[Label]


def correction_of(body: bytes, shelf: ModelShelf, limits: ServerLimits) -> Correction:
    """``/v1/corrections``: known spans, or the tags of all tokens."""
    fields = _fields(body, _CORRECTION)
    model = shelf.get(fields.text("model") if "model" in fields else None)
    tokens = _tokens(fields.items("tokens", str), "tokens")
    sized([Asked(tokens)], limits)
    text = unicode(fields.text("text"), "text") if "text" in fields else " ".join(tokens)
    if "tags" in fields:
        labels = _labels(fields.items("tags", str), len(tokens), model, "tags")
    else:
        labels = known_labels(fields.value("known_spans", list), len(tokens), model, "known_spans")
    return Correction(text, tokens, labels)


def dumps(value: Any) -> bytes:
    """Compact JSON; texts are as they came."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _named(model: ServedModel) -> dict[str, Any]:
    return {"model": model.name, "version": model.version}


def parsed(body: bytes) -> Any:
    """The JSON of a body."""
    try:
        return parse_json(body)
    except JSONSyntaxError as error:
        raise MalformedError(f"expected JSON: {error}") from None


def _fields(body: bytes, names: Sequence[str]) -> Fields:
    fields = Fields(parsed(body), "the request", InvalidRequestError)
    unknown = next((name for name in fields.values if name not in names), None)
    if unknown is not None:
        raise InvalidRequestError(f"the request has an unknown field {shown(unknown)}{did_you_mean(unknown, names)}")
    return fields


def _one_of(fields: Fields, names: Sequence[str]) -> str:
    found = [name for name in names if name in fields]
    if len(found) != 1:
        raise InvalidRequestError(
            f"the request must have one of {', '.join(names)}, got {' and '.join(found) or 'none'}"
        )
    return found[0]


def _check_spans_only(spans_only: bool, probabilities: bool) -> None:
    if spans_only and not probabilities:
        raise InvalidRequestError("spans_only needs probabilities: spans come with theirs")


def _options(query: Mapping[str, str]) -> dict[str, Any]:
    """The options of a query, as they would stand in JSON."""
    unknown = next((name for name in query if name not in _QUERY), None)
    if unknown is not None:
        raise InvalidRequestError(f"the query has an unknown option {shown(unknown)}{did_you_mean(unknown, _QUERY)}")
    words: dict[str, Any] = {"true": True, "false": False}
    plain = {name: words.get(value, value) for name, value in query.items()}
    return {name: int(value) if name == "k_best" and _is_number(value) else value for name, value in plain.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10


def _flag(fields: Fields, name: str, default: bool) -> bool:
    return bool(fields.value(name, bool)) if name in fields else default


def _texts(fields: Fields, form: str) -> list[str]:
    return [unicode(text, f"{form}[{i}]") for i, text in enumerate(fields.items(form, str))]


def _token_lists(fields: Fields) -> list[list[str]]:
    return [_tokens(item, f"tokens[{i}]") for i, item in enumerate(fields.items("tokens", list))]


def _tokens(item: list[Any], where: str) -> list[str]:
    if not set(map(type, item)) <= {str}:
        wrong = next(token for token in item if type(token) is not str)
        raise InvalidRequestError(f"{where} must be a list of strings, got {shown(wrong)} in it")
    if "" in item:
        raise InvalidRequestError(f"{where} has an empty token")
    if not "".join(item).isascii():
        for token in item:
            unicode(token, where)
    return item


def unicode(text: str, where: str) -> str:
    """The text, if UTF-8 can write it."""
    if not (text.isascii() or is_unicode(text)):
        raise InvalidRequestError(f"{where} has half of a surrogate pair, which is no character")
    return text


def split(model: ServedModel, texts: Sequence[str]) -> list[Asked]:
    """Raw texts as the model reads them."""
    how = splitter(model.tagger.tokenizer_)
    inputs, raw = inputs_of(texts, how, with_gaps=segments(model.tagger.tagset_))
    return [Asked(item, text) for item, text in zip(inputs, raw, strict=True)]


def _known(
    fields: Fields, asked: list[Asked], model: ServedModel, form: str, *, one: bool = False
) -> list[Asked] | None:
    """The sentences with what is known of their labels; None if nothing is."""
    if "known" not in fields and "known_spans" not in fields:
        return None
    name = _one_of(fields, ("known", "known_spans"))
    if form == "documents":
        raise InvalidRequestError("known labels belong to the tokens of texts or token lists, not to documents")
    given = [fields.value(name, list)] if one else fields.items(name, list, type(None))
    if len(given) != len(asked):
        raise InvalidRequestError(f"{name} has {len(given)} lists: expected {len(asked)}, one per input")
    read = _labels if name == "known" else known_labels
    return [
        item._replace(known=None if own is None else read(own, len(item.item), model, name if one else f"{name}[{i}]"))
        for i, (item, own) in enumerate(zip(asked, given, strict=True))
    ]


def known_labels(spans: list[Any], count: int, model: ServedModel, where: str) -> list[Label]:
    """What known spans say about the labels of `count` tokens."""
    tags = model.tagger.tagset_
    found = [span_of(span, count, tags, f"{where}[{i}]") for i, span in enumerate(spans)]
    return labels_of_spans(found, count, tags)


def _labels(labels: list[Any], count: int, model: ServedModel, where: str) -> list[Label]:
    if len(labels) != count:
        raise InvalidRequestError(f"{where} has {len(labels)} labels for {count} tokens: expected as many")
    tags = model.tagger.tagset_
    for label in labels:
        for one in label if type(label) is list else [label]:
            if not (one is None and label is None) and (type(one) is not str or one not in tags):
                raise InvalidRequestError(
                    f"{where} must be labels of the model, lists of them, or null, got {shown(one)}"
                )
        if label == []:
            raise InvalidRequestError(f"{where} has an empty list of labels")
    return labels
