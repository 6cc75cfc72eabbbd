"""Requests and answers: each struct is what is checked, what is written, and what ``/openapi.json`` says."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from trellis.errors import did_you_mean, shown
from trellis.models import Labelling
from trellis.server.problems import RequestError, invalid

LINES = "application/x-ndjson"

Count = Annotated[int, Meta(ge=0)]
Probability = Annotated[float, Meta(ge=0, le=1.0000001)]
Token = Annotated[str, Meta(min_length=1)]
Label = Annotated[
    str | Annotated[list[str], Meta(min_length=1)] | None,
    Meta(description="A label; several, one of which is right; or null where nothing is known."),
]
Pair = Annotated[list[Count], Meta(min_length=2, max_length=2)]
ModelName = Annotated[str, Meta(description="One of /v1/models; the first one if it is left out.")]
Timeout = Annotated[float, Meta(gt=0, description="Seconds until the answer must be there.")]
KnownLabels = Annotated[list[list[Label] | None], Meta(description="For each input, one label per token.")]
SentencePlaces = Annotated[list[Pair], Meta(description="Start and end of each sentence of a document.")]
BestLabellings = Annotated[list[Labelling], Meta(description="The most probable labellings, best first.")]
Step = Annotated[list[float], Meta(min_length=4, max_length=4)]


class StrictStruct(Struct, forbid_unknown_fields=True):
    """An object with these fields and no others."""


class KnownSpan(StrictStruct):
    """Tokens start to end - 1 are one span with this label; null: they lie outside all spans."""

    start: Count
    end: Count
    label: str | None


KnownSpans = Annotated[list[list[KnownSpan] | None], Meta(description="For each input, spans that are right.")]


class LexiconEntry(StrictStruct):
    """A word or name: a bonus for its occurrences (prefer=2, in log odds) or a must."""

    surface: str
    label: str | UnsetType = UNSET
    strength: str | float = "prefer=2"


class TagOptions(StrictStruct):
    """What may be asked about inputs; for JSON Lines, this is the query."""

    model: ModelName | UnsetType = UNSET
    probabilities: Annotated[bool, Meta(description="False: tags alone, several times faster.")] = True
    spans_only: bool = False
    k_best: Count = 0


class TagRequest(TagOptions):
    """Texts, token lists or documents (texts that are split into sentences first); one of the three."""

    texts: list[str] | UnsetType = UNSET
    tokens: list[list[Token]] | UnsetType = UNSET
    documents: list[str] | UnsetType = UNSET
    known: KnownLabels | UnsetType = UNSET
    known_spans: KnownSpans | UnsetType = UNSET
    lexicon: list[LexiconEntry] | UnsetType = UNSET
    timeout: Timeout | UnsetType = UNSET


class TagLine(StrictStruct):
    """One line of JSON Lines: a text or a token list."""

    text: str | UnsetType = UNSET
    tokens: list[Token] | UnsetType = UNSET
    id: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.text is UNSET) is (self.tokens is UNSET):
            raise ValueError(f"the line must have text or tokens, got {'none' if self.text is UNSET else 'both'}")


class SingleRequest(StrictStruct):
    """A text or a token list."""

    text: str | UnsetType = UNSET
    tokens: list[Token] | UnsetType = UNSET
    model: ModelName | UnsetType = UNSET
    timeout: Timeout | UnsetType = UNSET


class TrellisRequest(SingleRequest):
    """A text or a token list."""

    known: list[Label] | UnsetType = UNSET
    known_spans: list[KnownSpan] | UnsetType = UNSET
    lexicon: list[LexiconEntry] | UnsetType = UNSET
    k_best: Annotated[int, Meta(ge=1)] = 3


class ExplainRequest(SingleRequest):
    """A text or a token list, and which of its tokens to explain; all if it is left out."""

    positions: list[Count] | UnsetType = UNSET
    top: Annotated[int, Meta(ge=1, le=1000)] = 10


class Correction(StrictStruct):
    """What a person says about a sentence: spans that are right, or the tags of all tokens."""

    tokens: list[Token]
    text: str | UnsetType = UNSET
    model: ModelName | UnsetType = UNSET
    known_spans: list[KnownSpan] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET


class LearnRequest(StrictStruct):
    """Which model learns from its corrections."""

    model: ModelName | UnsetType = UNSET


class AnyObject(Struct):
    """An object; its fields do not matter."""


class SpanAnswer(StrictStruct):
    """Characters start to end - 1 of the text, with the exact probability of the whole span."""

    start: Count
    end: Count
    label: str
    text: str
    probability: Probability


class TagResult(StrictStruct):
    """All about one input. With spans_only, spans alone; without probabilities, tags alone."""

    text: str | UnsetType = UNSET
    tokens: list[str] | UnsetType = UNSET
    offsets: Annotated[list[Pair], Meta(description="Start and end of each token in the text.")] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    probabilities: Annotated[list[Probability], Meta(description="Of each token's tag.")] | UnsetType = UNSET
    spans: list[SpanAnswer] | UnsetType = UNSET
    sentences: SentencePlaces | UnsetType = UNSET
    k_best: BestLabellings | UnsetType = UNSET


class LineResult(TagResult):
    """The result of one line, with its id if it has one."""

    id: str | UnsetType = UNSET


class TagAnswer(StrictStruct):
    """One result per input, in their order."""

    model: str
    version: str
    results: list[TagResult]


class TrellisAnswer(StrictStruct):
    """Every label of every token."""

    model: str
    version: str
    text: str
    tokens: list[str]
    offsets: list[Pair]
    tags: list[str]
    probabilities: list[Probability]
    spans: list[SpanAnswer]
    labels: list[str]
    trellis: Annotated[list[list[Probability]], Meta(description="trellis[t][j]: probability of label j at token t.")]
    steps: Annotated[list[Step], Meta(description="[t, i, j, p]: labels i and j at tokens t and t + 1, p not tiny.")]
    paths: list[Labelling]
    entropy: Annotated[float, Meta(description="Of the whole labelling, in nats.")]


class ReasonPart(StrictStruct):
    """What one feature or transition gives to both labellings."""

    position: Count
    kind: Literal["emission", "feature", "step feature", "transition"]
    name: str
    words: Annotated[str, Meta(description='The name in plain words: previous word is "to" for U21:to.')]
    chosen: float
    runner_up: float
    difference: float


class TokenReason(StrictStruct):
    """Why a token got its label, against the best labelling with another label there."""

    position: Count
    label: str
    probability: Probability
    runner_up: str
    runner_up_probability: Probability
    score_difference: float
    contributions: list[ReasonPart]


class ExplainAnswer(StrictStruct):
    """Reasons by token."""

    model: str
    version: str
    tokens: list[str]
    why: list[TokenReason]


class ModelAnswer(StrictStruct):
    """A model that is served."""

    name: str
    version: str
    kind: str
    labels: list[str]
    kinds: Annotated[list[str], Meta(description="Of spans.")]
    scheme: str
    tokenizer: str
    hues: Annotated[list[Count], Meta(description="Of kinds, in degrees on the colour wheel.")]


class ModelsAnswer(StrictStruct):
    """All models, the first one first, and how much a request may have."""

    models: list[ModelAnswer]
    body_bytes: Count


class Health(StrictStruct):
    """The server is alive."""

    status: Literal["alive"] = "alive"


class Ready(StrictStruct):
    """Whether it answers, and what is wrong with the files of models that are still served as they were."""

    status: Literal["ready", "starting", "stopping"]
    problems: dict[str, str]


class LearnerState(StrictStruct):
    """How far learning is."""

    state: Literal["idle", "learning", "done", "failed"]
    message: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    step: Count | UnsetType = UNSET
    metric: Literal["f1", "accuracy"] | UnsetType = UNSET
    before: Annotated[float, Meta(description="On held-out sentences, if there are any.")] | UnsetType = UNSET
    after: float | UnsetType = UNSET


class Progress(StrictStruct):
    """How many sentences are corrected, and how much of the pool is done."""

    sentences: Count
    done: Count
    total: Count


class NextSentence(Progress):
    """The sentence that is worth labelling next."""

    text: str


class AnnotationState(Progress):
    """What this server was started for besides answering."""

    corrections: bool
    learning: bool
    pool: bool
    learner: LearnerState


T = TypeVar("T")
_UNKNOWN = re.compile(r"(Object contains unknown field `(.*?)`)(?: - at `(.*)`)?", re.DOTALL)


def decode(kind: type[T], body: bytes) -> T:
    """The request in a body."""
    try:
        return _decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        raise invalid(_explained(str(error), kind)) from None
    except msgspec.DecodeError as error:
        raise RequestError("malformed_json", f"expected JSON: {error}") from None
    except UnicodeDecodeError:
        raise RequestError("malformed_json", f"expected JSON in UTF-8, got {_not_utf8(body)}") from None
    except RecursionError:
        raise RequestError("malformed_json", "expected JSON: it is nested too deeply") from None


def decode_lines(kind: type[T], lines: Collection[bytes]) -> list[T | RequestError]:
    """The request or the problem in each line; msgspec's own `decode_lines` would take two on one line, one on two."""
    try:
        return list(map(_decoder(kind).decode, lines))
    except (ValueError, RecursionError):
        return [_decoded(kind, line) for line in lines]


def _decoded(kind: type[T], line: bytes) -> T | RequestError:
    try:
        return decode(kind, line)
    except RequestError as problem:
        return problem


def options_of(query: Sequence[tuple[str, str]]) -> TagOptions:
    """The options of a query, whose values are strings."""
    options: dict[str, str] = {}
    for name, value in query:
        if name in options:
            raise invalid(f"the query has {shown(name)} twice")
        options[name] = value
    try:
        return msgspec.convert(options, TagOptions, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(f"the query: {_explained(str(error), TagOptions)}") from None


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.json.Decoder(kind)
    return _DECODERS[kind]


def _explained(message: str, kind: type) -> str:
    """A message of msgspec; about an unknown field, with the name that was probably meant."""
    unknown = _UNKNOWN.fullmatch(message)
    if unknown is None:
        return message
    kinds, path = ((KnownSpan, LexiconEntry), f" at {unknown[3]}") if unknown[3] else ((kind,), "")
    names = [name for each in kinds for name in each.__struct_fields__]  # type: ignore[attr-defined]
    return f"the request has an unknown field {shown(unknown[2])}{path}{did_you_mean(unknown[2], names)}"


def _not_utf8(body: bytes) -> str:
    """The error for a body that is not UTF-8: which byte, and where."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        before = body[: error.start]
        line, byte = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        return f"0x{body[error.start]:02x} at line {line}, byte {byte} of it: {error.reason}"
    return "half of a surrogate pair"
