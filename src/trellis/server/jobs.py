"""Requests become jobs for the batcher: checked against limits and models, split into tokens and into parts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain, groupby
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder, encode

from trellis.errors import TrellisError
from trellis.lexicon import Entry, Lexicon, parse_strength
from trellis.models import Tagged
from trellis.models.answers import joined, parts_of
from trellis.models.data import Label
from trellis.server import schemas as s
from trellis.server.batcher import BatchJob, JobPart
from trellis.server.constraints import check_labels, check_scheme, constraints_of, labels_of_spans
from trellis.server.inference import ExplainInference, InputColumns, TaggedSentence, TagInference, TrellisInference
from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError, invalid, too_large
from trellis.server.registry import ModelRegistry, ServedModel

_WIDER = 4  # what a token costs at least with a lexicon: the chain has more states
_LINES = Encoder()
_PIECES = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")


class JobBuilder:
    """Makes jobs of the bodies of requests, for the models of a registry, within limits."""

    def __init__(self, registry: ModelRegistry, limits: ServerLimits) -> None:
        self.registry, self.limits = registry, limits

    def tag(self, body: bytes) -> BatchJob:
        """``/v1/tag``."""
        request = s.decode(s.TagRequest, body)
        model, form = self.registry.get(request.model), _only(request, "texts", "tokens", "documents")
        self._check(request)
        if form == "documents" and (request.k_best or not request.probabilities):
            raise invalid("documents are answered with probabilities and without k_best: send their sentences as texts")
        if form == "documents" and (request.known is not UNSET or request.known_spans is not UNSET):
            raise invalid("known labels belong to the tokens of texts or token lists, not to documents")
        given = getattr(request, form)
        sentences = list(parts_of(given)) if form == "documents" else []
        texts = [text for _, _, text in sentences] if form == "documents" else given
        inputs = InputColumns(given) if form == "tokens" else InputColumns.of_texts(texts, model)
        known = constraints_of(request, inputs.items, model.tagger.tagset_)
        lexicon = self._lexicon(request.lexicon)
        inference = TagInference(
            model, form != "tokens", known is not None, request.probabilities, request.k_best, lexicon
        )

        def finish(answers: list[Sequence[TaggedSentence]]) -> bytes:
            if form == "documents":
                results = _documents(given, sentences, answers, request.spans_only)
            else:
                results = _results(answers, request.spans_only)
            return encode(s.TagAnswer(model.name, model.version, results))

        parts = self.parts(inputs._replace(known=known), max(1, request.k_best) * _width(lexicon, model))
        return BatchJob(inference, parts, finish, self._seconds(request))

    def trellis(self, body: bytes) -> BatchJob:
        """``/v1/trellis``."""
        request = s.decode(s.TrellisRequest, body)
        model, inputs = self._single(request)
        if request.k_best > self.limits.k:
            raise invalid(f"k_best must be in 1..{self.limits.k}, got {request.k_best}")
        known = constraints_of(request, inputs.items, model.tagger.tagset_)
        lexicon = self._lexicon(request.lexicon)
        inference = TrellisInference(model, request.text is not UNSET, known is not None, request.k_best, lexicon)
        parts = self.parts(inputs._replace(known=known), (2 + request.k_best) * _width(lexicon, model))

        def finish(answers: list[dict[str, Any]]) -> bytes:
            return encode(s.TrellisAnswer(model=model.name, version=model.version, **answers[0]))

        return BatchJob(inference, parts, finish, self._seconds(request))

    def explain(self, body: bytes) -> BatchJob:
        """``/v1/explain``."""
        request, most = s.decode(s.ExplainRequest, body), self.limits.explained_tokens
        model, inputs = self._single(request)
        tokens = list(getattr(inputs.items[0], "tokens", inputs.items[0]))
        positions = range(len(tokens)) if request.positions is UNSET else request.positions
        wrong = next((position for position in positions if position >= max(1, len(tokens))), None)
        if wrong is not None:
            raise invalid(f"positions must be in 0..{max(0, len(tokens) - 1)}, got {wrong}")
        positions = positions if tokens else []
        if len(positions) > most:
            raise too_large(f"reasons of {len(positions)} tokens are asked for: expected at most {most} positions")
        parts = self.parts(inputs._replace(positions=positions), max(1, 4 * len(positions)))

        def finish(answers: list[Any]) -> bytes:
            return encode(s.ExplainAnswer(model.name, model.version, tokens, answers[0]))

        return BatchJob(ExplainInference(model, request.top), parts, finish, self._seconds(request))

    def lines(self, options: s.TagOptions) -> Callable[[Mapping[int, bytes]], BatchJob]:
        """``/v1/tag`` with JSON Lines: how lines by their numbers become a job, with the options of the query."""
        self._check(options)
        model = self.registry.get(options.model)

        def job(given: Mapping[int, bytes]) -> BatchJob:
            lines = s.decode_lines(s.TagLine, given.values())
            whole = [line for line in lines if isinstance(line, s.TagLine)]
            items = [line.tokens if line.text is UNSET else line.text for line in whole]
            raw = any(isinstance(item, str) for item in items)
            inputs = InputColumns.of_texts(items, model) if raw else InputColumns(items)

            def finish(answers: list[Sequence[TaggedSentence]]) -> bytes:
                results = iter(_results(answers, options.spans_only))
                told: list[Any] = []
                for number, line in zip(given, lines, strict=True):
                    if isinstance(line, RequestError):
                        line.input = number
                        told.append(line.told())
                    else:
                        told.append(next(results))
                        if line.id is not UNSET:
                            told[-1]["id"] = line.id
                return _LINES.encode_lines(told)

            inference = TagInference(model, raw, False, options.probabilities, options.k_best)
            return BatchJob(inference, self.parts(inputs, max(1, options.k_best)), finish, self.limits.seconds)

        return job

    def correction(self, body: bytes) -> tuple[str, str, list[str], list[Label]]:
        """``/v1/corrections``: the model's name, the text, its tokens, and what is known of their labels."""
        request = s.decode(s.Correction, body)
        model = self.registry.get(request.model)
        tags = model.tagger.tagset_
        if not request.tokens:
            raise invalid("tokens must have at least one token, got []")
        self.parts(InputColumns([request.tokens]))
        if request.tags is not UNSET:  # which say more than spans
            labels = check_labels(list(request.tags), len(request.tokens), "tags", tags)
            if getattr(model.tagger, "constraints", True):
                check_scheme(labels, "tags", tags)
        elif request.known_spans is not UNSET:
            labels = labels_of_spans(request.known_spans, len(request.tokens), "known_spans", tags)
        else:
            raise invalid("the request must have known_spans or tags, got none")
        text = " ".join(request.tokens) if request.text is UNSET else request.text
        return model.name, text, request.tokens, labels

    def parts(self, inputs: InputColumns, weight: int = 1) -> list[JobPart]:
        """The sentences as parts of a job, if they are not too many or too long; `weight` is what a token costs."""
        limits = self.limits
        lengths = [length or 1 for length in map(len, inputs.items)]
        tokens, longest = sum(lengths), max(lengths, default=0)
        if tokens > limits.tokens:
            raise too_large(f"the request has {tokens} tokens: expected at most {limits.tokens}")
        if tokens * weight > limits.high_tokens:
            most = limits.high_tokens // weight
            asks = "for so many labellings or positions, or so long entries of a lexicon"
            raise too_large(f"the request has {tokens} tokens: expected at most {most} {asks}")
        if longest > limits.sentence_tokens:
            raise too_large(f"a sentence has {longest} tokens: expected at most {limits.sentence_tokens}")
        if tokens * weight <= limits.batch_tokens:
            return [JobPart(inputs, tokens * weight)] if tokens else []
        return parts_within(inputs, limits, weight)

    def _check(self, options: s.TagOptions) -> None:
        if options.k_best > self.limits.k:
            raise invalid(f"k_best must be in 0..{self.limits.k}, got {options.k_best}")
        if options.spans_only and not options.probabilities:
            raise invalid("spans_only needs probabilities: spans come with theirs")

    def _single(self, request: s.SingleRequest) -> tuple[ServedModel, InputColumns]:
        """The model of a request about one text or token list, and that input."""
        model = self.registry.get(request.model)
        if _only(request, "text", "tokens") == "text":
            return model, InputColumns.of_texts([request.text], model)
        return model, InputColumns([request.tokens])

    def _lexicon(self, given: list[s.LexiconEntry] | UnsetType) -> tuple[Entry, ...]:
        given = given or []
        if len(given) > self.limits.lexicon_entries:
            raise too_large(f"lexicon has {len(given)} entries: expected at most {self.limits.lexicon_entries}")
        characters = sum(len(entry.surface) for entry in given)
        if characters > self.limits.lexicon_characters:
            most = self.limits.lexicon_characters
            raise too_large(f"lexicon has {characters} characters in all entries: expected at most {most}")
        entries: list[Entry] = []
        for i, entry in enumerate(given):
            try:
                label = None if entry.label is UNSET else entry.label
                entries += Lexicon([(entry.surface, label, parse_strength(entry.strength))])
            except TrellisError as error:
                raise invalid(f"lexicon[{i}]: {error}") from None
        return tuple(entries)

    def _seconds(self, request: s.TagRequest | s.SingleRequest) -> float:
        most, timeout = self.limits.seconds, request.timeout
        if timeout is UNSET:
            return most
        if timeout > most:
            raise invalid(f"timeout must be above 0 and at most {most:g} seconds, got {timeout:g}")
        return timeout


def _results(answers: list[Sequence[TaggedSentence]], spans_only: bool) -> list[Any]:
    """The fields of one `TagResult` per sentence."""
    results = []
    for tagged, labellings in chain.from_iterable(answers):
        result = {"tags": tagged} if isinstance(tagged, list) else _fields(tagged, spans_only)
        results.append(result if labellings is None else result | {"k_best": labellings})
    return results


def _fields(tagged: Tagged, spans_only: bool) -> dict[str, Any]:
    return {"spans": tagged.to_records()} if spans_only else tagged.to_dict()


def _documents(
    texts: Sequence[str],
    sentences: Sequence[tuple[int, int, str]],
    answers: list[Sequence[TaggedSentence]],
    spans_only: bool,
) -> list[Any]:
    """One result per document; a sentence is the number of its document, where it starts there, and its text."""
    results = []
    tagged = zip(sentences, chain.from_iterable(answers), strict=True)
    for document, group in groupby(tagged, key=lambda pair: pair[0][0]):
        parts = [(start, one) for (_, start, _), (one, _) in group]
        result = _fields(joined(texts[document], parts), spans_only)
        if not spans_only:
            result["sentences"] = [[start, start + len(one.text)] for start, one in parts if one.tokens]
        results.append(result)
    return results


def _only(request: Struct, *names: str) -> str:
    """The one of these fields that a request has."""
    given = [name for name in names if getattr(request, name) is not UNSET]
    if len(given) != 1:
        raise invalid(f"the request must have one of {', '.join(names)}, got {' and '.join(given) or 'none'}")
    return given[0]


def _width(lexicon: Sequence[Entry], model: ServedModel) -> int:
    """As how many tokens one counts with this lexicon: labels times words of an entry, which widen the chain."""
    labels = {entry.label for entry in lexicon}
    count = len(model.kinds) if None in labels else len(labels)
    return max((max(_WIDER, count * len(_PIECES.findall(entry.surface))) for entry in lexicon), default=1)


def parts_within(inputs: InputColumns, limits: ServerLimits, weight: int = 1) -> list[JobPart]:
    """The sentences in parts of at most a quarter of a batch, unless one sentence has more."""
    most = max(1, limits.batch_tokens // 4)
    ends = list(accumulate((length or 1) * weight for length in map(len, inputs.items)))
    parts, first, before = [], 0, 0
    while first < len(ends):
        end = max(bisect_right(ends, before + most, first), first + 1)
        parts.append(JobPart(inputs.part(first, end), ends[end - 1] - before, first))
        first, before = end, ends[end - 1]
    return parts
