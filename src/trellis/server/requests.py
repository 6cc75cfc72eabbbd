"""Requests read from JSON: checked field by field, split into tokens, and ready for the batcher."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from trellis.lexicon import Entry
from trellis.models import CRF
from trellis.models.data import Label
from trellis.models.raw_text import inputs_of, parts_of, segments
from trellis.server.answers import BestWriter, TagWriter, dumps, named, with_name
from trellis.server.knowing import SpanReader, known_labels, with_known
from trellis.server.limits import ServerLimits
from trellis.server.problems import InvalidRequestError, TooLargeError
from trellis.server.questions import Asked, BestQuestion, ExplainQuestion, TagQuestion, TrellisQuestion
from trellis.server.queueing import Question, QueuedPart
from trellis.server.reading import (
    check_spans_only,
    checked_tokens,
    fields_of,
    fields_with_tokens,
    flag,
    integer,
    lexicon_in,
    one_of,
    options_of,
    texts_in,
    token_lists_in,
)
from trellis.server.shelf import ModelShelf, ServedModel
from trellis.text import PackedTokens, splitter
from trellis.untrusted import Fields, shown

_INPUTS = ("texts", "tokens", "documents")
_TAG = (*_INPUTS, "model", "known", "known_spans", "lexicon", "probabilities", "k_best", "spans_only", "timeout")
_TRELLIS = ("text", "tokens", "model", "known", "known_spans", "lexicon", "k_best", "timeout")
_LINE = ("text", "tokens", "id")
_CORRECTION = ("text", "tokens", "model", "known_spans", "tags")
_EXPLAIN = ("text", "tokens", "model", "positions", "top", "timeout")
_WIDER = 4  # what a token costs at least with a lexicon: the chain has more states
_SHORT, _REMEMBERED = 200, 64  # bytes of options, and how many of them are kept
_PIECES = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")


class PlainOptions(NamedTuple):
    """What a request for the tags of token lists says besides the tokens."""

    model: str | None
    seconds: float


class Gatherable(NamedTuple):
    """A request for the tags of token lists that may be answered together with others."""

    model: ServedModel
    seconds: float
    packed: PackedTokens
    tokens: int


class Prepared(NamedTuple):
    """A request as the batcher takes it."""

    question: Question
    parts: list[QueuedPart]
    finish: Callable[[list[Any]], bytes]
    seconds: float


class RequestReader:
    """Reads requests for the models of a shelf, within limits."""

    def __init__(self, shelf: ModelShelf, limits: ServerLimits) -> None:
        self._shelf, self._limits = shelf, limits
        self._plain: dict[bytes, PlainOptions] = {}
        self._gathered = min(limits.batch_tokens, limits.tokens, limits.high_tokens)

    def tag(self, body: bytes) -> Prepared:
        """``/v1/tag``. Most requests of a client differ in their tokens only: what else they say is read once."""
        found = PackedTokens.read(body, "tokens")
        known = None if found is None else self._plain.get(found[1])
        if found is not None and known is not None:
            return self.alone(self._shelf.get(known.model), found[0], known.seconds)
        return self._tag_new(body, found)

    def tag_soon(self, body: bytes) -> Prepared | Gatherable:
        """The same, for who may ask several requests together."""
        found = PackedTokens.read(body, "tokens")
        known = None if found is None else self._plain.get(found[1])
        if found is None or known is None:
            return self._tag_new(body, found)
        model, limits, packed = self._shelf.get(known.model), self._limits, found[0]
        tokens, longest = packed.extent
        if 0 < tokens <= self._gathered and longest <= limits.sentence_tokens and isinstance(model.tagger, CRF):
            return Gatherable(model, known.seconds, packed, tokens)
        return self.alone(model, packed, known.seconds)

    def alone(self, model: ServedModel, packed: PackedTokens, seconds: float) -> Prepared:
        """A request for the tags of token lists, by itself."""
        parts = sized(Asked(packed if isinstance(model.tagger, CRF) else list(packed)), self._limits)
        question, finish = _plain(model)
        return Prepared(question, parts, finish, seconds)

    def _tag_new(self, body: bytes, found: tuple[PackedTokens, bytes] | None) -> Prepared:
        fields = fields_with_tokens(body, found, _TAG)
        prepared = self._tag(fields)
        plain = _plain(self._model(fields))[0]
        if found is not None and len(found[1]) <= _SHORT and prepared.question == plain:
            self._remember(found[1], PlainOptions(fields.values.get("model"), prepared.seconds))
        return prepared

    def _remember(self, rest: bytes, options: PlainOptions) -> None:
        if len(self._plain) >= _REMEMBERED:
            self._plain.clear()
        self._plain[rest] = options

    def _tag(self, fields: Fields) -> Prepared:
        model, form = self._model(fields), one_of(fields, _INPUTS)
        asked, owners = self._inputs(fields, model, form)
        asked = with_known(fields, asked, model.tagger.tagset_, form)
        k = integer(fields, "k_best", 0, 0, self._limits.k)
        probabilities, spans_only = flag(fields, "probabilities", True), flag(fields, "spans_only", False)
        check_spans_only(spans_only, probabilities)
        if form == "documents" and (k or not probabilities):
            raise InvalidRequestError(
                "documents are answered with probabilities and without k_best: send their sentences as texts"
            )
        lexicon = lexicon_in(fields, self._limits.lexicon_entries)
        weight, raw, known = max(1, k) * _width(lexicon), form != "tokens", asked.known is not None
        if not probabilities and not k:
            asked = asked if isinstance(model.tagger, CRF) else asked.unpacked()
            return self._prepared(BestQuestion(model, raw, known, lexicon), asked, BestWriter(model), fields, weight)
        question = TagQuestion(model, raw, known, probabilities, k, lexicon)
        answer = TagWriter(model, form, spans_only, owners, fields.values.get("documents"))
        return self._prepared(question, asked.unpacked(), answer, fields, weight)

    def lines(self, query: Mapping[str, str]) -> Callable[[bytes], Prepared]:
        """``/v1/tag`` with JSON Lines: how one line is read, with the options of the query."""
        fields = Fields(options_of(query), "the query", InvalidRequestError)
        model, k = self._model(fields), integer(fields, "k_best", 0, 0, self._limits.k)
        probabilities, spans_only = flag(fields, "probabilities", True), flag(fields, "spans_only", False)
        check_spans_only(spans_only, probabilities)

        def line(body: bytes) -> Prepared:
            own = fields_of(body, _LINE)
            form, name = one_of(own, ("text", "tokens")), {"id": own.text("id")} if "id" in own else {}
            asked = self._one(own, model, form)
            parts, seconds = sized(asked, self._limits, max(1, k)), self._limits.seconds
            if not probabilities and not k:
                best = BestQuestion(model, form != "tokens", known=False)
                return Prepared(best, parts, lambda a: with_name(name, a[0]), seconds)
            answer = TagWriter(model, form, spans_only)
            question = TagQuestion(model, form != "tokens", False, probabilities, k)
            return Prepared(question, parts, lambda a: dumps(name | answer.results(a)[0]), seconds)

        return line

    def trellis(self, body: bytes) -> Prepared:
        """``/v1/trellis``."""
        fields = fields_of(body, _TRELLIS)
        model, form, asked = self._single(fields)
        asked = with_known(fields, asked, model.tagger.tagset_, form, one=True)
        k = integer(fields, "k_best", 3, 1, self._limits.k)
        lexicon = lexicon_in(fields, self._limits.lexicon_entries)
        question = TrellisQuestion(model, form != "tokens", asked.known is not None, k, lexicon)
        weight = (2 + k) * _width(lexicon)
        return self._prepared(question, asked, lambda a: dumps(named(model) | a[0]), fields, weight)

    def explain(self, body: bytes) -> Prepared:
        """``/v1/explain``."""
        fields = fields_of(body, _EXPLAIN)
        model, _, asked = self._single(fields)
        positions, most = self._positions(fields, len(asked.items[0])), self._limits.explained_tokens
        top = integer(fields, "top", 10, 1, 1000)
        if len(positions) > most:
            raise TooLargeError(f"reasons of {len(positions)} tokens are asked for: expected at most {most} positions")
        tokens = list(getattr(asked.items[0], "tokens", asked.items[0]))
        whole = asked._replace(positions=positions)

        def finish(answers: list[Any]) -> bytes:
            return dumps(named(model) | {"tokens": tokens, "why": answers[0]})

        return self._prepared(ExplainQuestion(model, top), whole, finish, fields, weight=max(1, 4 * len(positions)))

    def _prepared(
        self, question: Question, asked: Asked, finish: Callable[[list[Any]], bytes], fields: Fields, weight: int
    ) -> Prepared:
        parts = sized(asked, self._limits, weight)
        return Prepared(question, parts, finish, self._seconds(fields))

    def _model(self, fields: Fields) -> ServedModel:
        return self._shelf.get(fields.text("model") if "model" in fields else None)

    def _inputs(self, fields: Fields, model: ServedModel, form: str) -> tuple[Asked, list[tuple[int, int]]]:
        """The sentences, and of a document's the number of the document and where they begin in it."""
        if form == "tokens":
            return Asked(token_lists_in(fields)), []
        given, owners = texts_in(fields, form), []
        if form == "documents":
            parts = list(parts_of(given))
            given, owners = [text for _, _, text in parts], [(number, start) for number, start, _ in parts]
        return split(model, given), owners

    def _single(self, fields: Fields) -> tuple[ServedModel, str, Asked]:
        """One text or one token list."""
        model, form = self._model(fields), one_of(fields, ("text", "tokens"))
        return model, form, self._one(fields, model, form)

    def _one(self, fields: Fields, model: ServedModel, form: str) -> Asked:
        if form == "text":
            return split(model, [fields.text("text")])
        return Asked([checked_tokens(fields.items("tokens", str), "tokens")])

    def _positions(self, fields: Fields, count: int) -> list[int]:
        if "positions" not in fields:
            return list(range(count))
        return list(fields.integers("positions", 0, max(count - 1, 0))) if count else []

    def _seconds(self, fields: Fields) -> float:
        if "timeout" not in fields:
            return self._limits.seconds
        wanted = float(fields.value("timeout", int, float))
        if not 0 < wanted <= self._limits.seconds:
            raise InvalidRequestError(
                f"timeout must be above 0 and at most {self._limits.seconds:g} seconds, got {shown(wanted)}"
            )
        return wanted


def _plain(model: ServedModel) -> tuple[BestQuestion, BestWriter]:
    """What a request for the tags of token lists asks: the same object each time, since requests are compared by it."""
    if "plain" not in model.kept:
        model.kept["plain"] = BestQuestion(model, False, False), BestWriter(model)
    found: tuple[BestQuestion, BestWriter] = model.kept["plain"]
    return found


def sized(asked: Asked, limits: ServerLimits, weight: int = 1) -> list[QueuedPart]:
    """The sentences as parts of a job, if they are not too many or too long; `weight` is what a token costs."""
    tokens, longest = asked.extent()
    if tokens > limits.tokens:
        raise TooLargeError(f"the request has {tokens} tokens: expected at most {limits.tokens}")
    if tokens * weight > limits.high_tokens:
        most = limits.high_tokens // weight
        asks = "for so many labellings or positions, or so long entries of a lexicon"
        raise TooLargeError(f"the request has {tokens} tokens: expected at most {most} {asks}")
    if longest > limits.sentence_tokens:
        raise TooLargeError(f"a sentence has {longest} tokens: expected at most {limits.sentence_tokens}")
    if tokens * weight <= limits.batch_tokens:
        return [QueuedPart(asked, tokens * weight)] if tokens else []
    return parts_within(asked, limits, weight)


def _width(lexicon: Sequence[Entry]) -> int:
    """What a token costs with a lexicon: entries of so many tokens may overlap, and each widens the chain."""
    return max((max(_WIDER, len(_PIECES.findall(entry.surface))) for entry in lexicon), default=1)


def parts_within(asked: Asked, limits: ServerLimits, weight: int = 1) -> list[QueuedPart]:
    """The sentences in parts of at most a quarter of a batch, unless one sentence has more."""
    most = max(1, limits.batch_tokens // 4)
    ends = list(accumulate((length or 1) * weight for length in asked.lengths()))
    parts, first, before = [], 0, 0
    while first < len(ends):
        end = max(bisect_right(ends, before + most, first), first + 1)
        parts.append(QueuedPart(asked.part(first, end), ends[end - 1] - before, first))
        first, before = end, ends[end - 1]
    return parts


class Correction(NamedTuple):
    """What a person says about a sentence."""

    text: str
    tokens: Sequence[str]
    labels: Sequence[Label]


def correction_of(body: bytes, shelf: ModelShelf, limits: ServerLimits) -> Correction:
    """``/v1/corrections``: known spans, or the tags of all tokens."""
    fields = fields_of(body, _CORRECTION)
    tags = shelf.get(fields.text("model") if "model" in fields else None).tagger.tagset_
    tokens = checked_tokens(fields.items("tokens", str), "tokens")
    sized(Asked([tokens]), limits)
    text = fields.text("text") if "text" in fields else " ".join(tokens)
    if "tags" in fields:
        labels = known_labels(fields.items("tags", str), len(tokens), "tags", tags)
    else:
        labels = SpanReader(tags).labels_in(fields.value("known_spans", list), len(tokens), "known_spans")
    return Correction(text, tokens, labels)


def split(model: ServedModel, texts: Sequence[str]) -> Asked:
    """Raw texts as the model reads them."""
    how = splitter(model.tagger.tokenizer_)
    inputs, raw = inputs_of(texts, how, with_gaps=segments(model.tagger.tagset_))
    return Asked(inputs, raw)
