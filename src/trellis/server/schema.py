"""Requests and answers as JSON Schema: what ``/openapi.json`` says, and tests compare with what is answered."""

from __future__ import annotations

from typing import Any

from trellis.server.limits import ServerLimits

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1.0000001}
COUNT: Schema = {"type": "integer", "minimum": 0}


def ref(name: str) -> Schema:
    """A schema by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema, about: str = "") -> Schema:
    """A list."""
    return {"type": "array", "items": items} | ({"description": about} if about else {})


def record(about: str, optional: dict[str, Schema] | None = None, **required: Schema) -> Schema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "description": about,
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


LABEL: Schema = {
    "description": "A label; several, one of which is right; or null where nothing is known.",
    "anyOf": [TEXT, array(TEXT) | {"minItems": 1}, {"type": "null"}],
}
TOKENS = array({"type": "string", "minLength": 1}, "Tokens; none is empty.")
NAMED = {"model": TEXT, "version": TEXT}
NAMED_MODEL = {"name": TEXT, "version": TEXT}
SPAN = record(
    "Characters start to end - 1 of the text, with the exact probability of the whole span.",
    start=COUNT,
    end=COUNT,
    label=TEXT,
    text=TEXT,
    probability=PROBABILITY,
)
LABELLING = record("One way to label a whole sentence.", tags=array(TEXT), probability=PROBABILITY)
_WHOLE = {
    "text": TEXT,
    "tokens": array(TEXT),
    "offsets": array(array(COUNT) | {"minItems": 2, "maxItems": 2}, "Start and end of each token in the text."),
    "tags": array(TEXT),
    "probabilities": array(PROBABILITY, "Of each token's tag."),
    "spans": array(ref("Span")),
}
_PLACES = array(array(COUNT) | {"minItems": 2, "maxItems": 2}, "Start and end of each sentence of a document.")
_RESULT = _WHOLE | {
    "sentences": _PLACES,
    "k_best": array(ref("Labelling"), "The most probable labellings, best first."),
}
RESULT = record("All about one input. With spans_only, spans alone; without probabilities, tags alone.", _RESULT)


def schemas(limits: ServerLimits) -> dict[str, Schema]:
    """All of them by name."""
    return (
        _parts() | _tagging(limits) | _trellis(limits) | _explaining(limits) | _server() | _teaching() | _label_studio()
    )


def _common(limits: ServerLimits) -> dict[str, Schema]:
    """What every request may say."""
    return {
        "model": TEXT | {"description": "One of /v1/models; the first one if it is left out."},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.seconds, "default": limits.seconds},
    }


def _single(limits: ServerLimits) -> dict[str, Schema]:
    """What requests about one input may say."""
    return _common(limits) | {"text": TEXT, "tokens": ref("Tokens")}


def _k_best(limits: ServerLimits) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": limits.k, "default": 0}


def _lexicon(limits: ServerLimits) -> dict[str, Schema]:
    return {"lexicon": array(ref("LexiconEntry")) | {"maxItems": limits.lexicon_entries}}


def _parts() -> dict[str, Schema]:
    """What requests and answers consist of."""
    return {
        "Label": LABEL,
        "KnownSpan": record(
            "Tokens start to end - 1 are one span with this label; null: they lie outside all spans.",
            start=COUNT,
            end=COUNT,
            label=_or_null(TEXT),
        ),
        "LexiconEntry": record(
            "A word or name: a bonus for its occurrences (prefer=2, in log odds) or a must.",
            {"label": TEXT, "strength": {"anyOf": [TEXT, {"type": "number"}], "default": "prefer=2"}},
            surface=TEXT,
        ),
        "Tokens": TOKENS,
        "Span": SPAN,
        "Labelling": LABELLING,
        "Result": RESULT,
        "Error": record("What is wrong.", error=record("Code and message.", {"input": COUNT}, code=TEXT, message=TEXT)),
    }


def _tagging(limits: ServerLimits) -> dict[str, Schema]:
    plain: Schema = {"type": "boolean", "default": True, "description": "False: tags alone, several times faster."}
    options = {
        "probabilities": plain,
        "spans_only": {"type": "boolean", "default": False},
        "k_best": _k_best(limits),
        "known": array(_or_null(array(ref("Label"))), "For each input, one label per token."),
        "known_spans": array(_or_null(array(ref("KnownSpan"))), "For each input, spans that are right."),
    }
    inputs = {"texts": array(TEXT), "tokens": array(ref("Tokens")), "documents": array(TEXT)}
    request = record(
        "Texts, token lists or documents (texts that are split into sentences first); one of the three.",
        _common(limits) | options | _lexicon(limits) | inputs,
    )
    return {
        "TagRequest": request | _one_of(*inputs),
        "TagAnswer": record("One result per input, in their order.", **NAMED, results=array(ref("Result"))),
        "LineResult": record("The result of one line, with its id if it has one.", _RESULT | {"id": TEXT}),
        "TagLine": record("One line of JSON Lines.", {"text": TEXT, "tokens": ref("Tokens"), "id": TEXT}),
    }


def _trellis(limits: ServerLimits) -> dict[str, Schema]:
    options = {
        "known": array(ref("Label")),
        "known_spans": array(ref("KnownSpan")),
        "k_best": _k_best(limits) | {"minimum": 1, "default": 3},
    }
    steps = array(array({"type": "number"}) | {"minItems": 4, "maxItems": 4}, "[t, i, j, p] where p is not tiny.")
    return {
        "TrellisRequest": record("A text or a token list.", _single(limits) | _lexicon(limits) | options)
        | _one_of("text", "tokens"),
        "TrellisAnswer": record(
            "Every label of every token.",
            **NAMED,
            **_WHOLE,
            labels=array(TEXT),
            trellis=array(array(PROBABILITY), "trellis[t][j]: the probability of label j at token t."),
            steps=steps,
            paths=array(ref("Labelling")),
            entropy={"type": "number", "description": "Of the whole labelling, in nats."},
        ),
    }


def _explaining(limits: ServerLimits) -> dict[str, Schema]:
    number: Schema = {"type": "number"}
    top: Schema = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}
    return {
        "ExplainRequest": record(
            "A text or a token list, and which of its tokens to explain; all if it is left out.",
            _single(limits) | {"positions": array(COUNT), "top": top},
        )
        | _one_of("text", "tokens"),
        "ExplainAnswer": record("Reasons by token.", **NAMED, tokens=array(TEXT), why=array(ref("Reason"))),
        "Reason": _reason(),
        "Contribution": record(
            "What one feature or transition gives to both labellings.",
            position=COUNT,
            kind={"enum": ["emission", "feature", "transition"]},
            name=TEXT,
            chosen=number,
            runner_up=number,
            difference=number,
        ),
    }


def _server() -> dict[str, Schema]:
    """What the server says about itself."""
    return {
        "Model": record(
            "A model that is served.",
            **NAMED_MODEL,
            kind=TEXT,
            labels=array(TEXT),
            kinds=array(TEXT, "Of spans."),
            scheme=TEXT,
            tokenizer=TEXT,
        ),
        "Models": record("All models, the first one first.", models=array(ref("Model"))),
        "Health": record("The server is alive.", status={"enum": ["alive"]}),
        "Ready": record(
            "Whether it answers, and what is wrong with the files of models that are still served as they were.",
            status={"enum": ["ready", "starting", "stopping"]},
            problems={"type": "object", "additionalProperties": TEXT},
        ),
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _one_of(*names: str) -> Schema:
    return {"oneOf": [{"required": [name]} for name in names]}


def _reason() -> Schema:
    return record(
        "Why a token got its label, against the best labelling with another label there.",
        position=COUNT,
        label=TEXT,
        probability=PROBABILITY,
        runner_up=TEXT,
        runner_up_probability=PROBABILITY,
        score_difference={"type": "number"},
        contributions=array(ref("Contribution")),
    )


def _teaching() -> dict[str, Schema]:
    number = {"type": "number"}
    learner = {"message": TEXT, "step": COUNT, "before": number, "after": number}
    progress = {"sentences": COUNT, "done": COUNT, "total": COUNT}
    return {
        "Learner": record("How far learning is.", learner, state={"enum": ["idle", "learning", "done", "failed"]}),
        "Teaching": record(
            "What this server was started for besides answering.",
            corrections={"type": "boolean"},
            learning={"type": "boolean"},
            pool={"type": "boolean"},
            learner=ref("Learner"),
            **progress,
        ),
        "Correction": record(
            "What a person says about a sentence: spans that are right, or the tags of all tokens.",
            {"model": TEXT, "text": TEXT, "known_spans": array(ref("KnownSpan")), "tags": array(TEXT)},
            tokens=ref("Tokens"),
        ),
        "Progress": record("How many sentences are corrected, and how much of the pool is done.", **progress),
        "NextSentence": record("The sentence that is worth labelling next.", text=TEXT, **progress),
    }


def _label_studio() -> dict[str, Schema]:
    value = record("A span.", start=COUNT, end=COUNT, text=TEXT, labels=array(TEXT))
    region = record(
        "A region.",
        id=TEXT,
        from_name=TEXT,
        to_name=TEXT,
        type={"const": "labels"},
        value=value,
        score=PROBABILITY,
    )
    prediction = record("Of one task.", result=array(region), score=PROBABILITY, model_version=TEXT)
    return {
        "LabelStudioTasks": {
            "type": "object",
            "properties": {"tasks": array({"type": "object"})},
            "required": ["tasks"],
        },
        "LabelStudioPredictions": record("One per task.", results=array(prediction), model_version=TEXT),
        "LabelStudioSetup": record("The model.", model_version=TEXT),
        "LabelStudioHealth": record("It is up.", status={"const": "UP"}, model_class=TEXT),
    }
