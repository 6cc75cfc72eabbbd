"""Label Studio's protocol for machine-learning backends: predictions that annotators start from.

    GET  /health                                    is it up?
    POST /setup    {"project", "schema", ...}       a project introduces itself
    POST /predict  {"tasks": [{"data": {...}}], "label_config": "<View>...</View>"}
    POST /webhook  {"action": "ANNOTATION_CREATED", ...}    an annotator did something: it is thanked for, no more

The labelling interface says which field of a task is the text, under which names spans are returned, and which labels
there are: spans with others are left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

from msgspec import UNSET, Struct
from msgspec.json import encode

from trellis.errors import shown
from trellis.models import Tagged
from trellis.server.batcher import BatchJob
from trellis.server.inference import InputColumns, TaggedSentence, TagInference
from trellis.server.jobs import JobBuilder
from trellis.server.problems import invalid, too_large
from trellis.server.registry import ServedModel
from trellis.server.schemas import Count, Probability, StrictStruct, decode


class LabelStudioTask(Struct):
    """A task of Label Studio; its other fields do not matter."""

    data: dict[str, Any]


class LabelStudioTasks(Struct):
    """Tasks to predict; other fields do not matter."""

    tasks: list[LabelStudioTask]
    label_config: str | None = None
    params: Any = None


class LabelStudioSpan(StrictStruct):
    """A span of characters."""

    start: Count
    end: Count
    text: str
    labels: list[str]


class LabelStudioRegion(StrictStruct):
    """A region of a labelling interface."""

    id: str
    from_name: str
    to_name: str
    value: LabelStudioSpan
    score: Probability
    type: Literal["labels"] = "labels"


class LabelStudioPrediction(StrictStruct):
    """The prediction of one task."""

    result: list[LabelStudioRegion]
    score: Probability
    model_version: str


class LabelStudioPredictions(StrictStruct):
    """One prediction per task."""

    results: list[LabelStudioPrediction]
    model_version: str


class LabelStudioSetup(StrictStruct):
    """The model."""

    model_version: str


class LabelStudioHealth(StrictStruct):
    """It is up."""

    status: Literal["UP"] = "UP"
    model_class: str = "trellis"


class Interface(NamedTuple):
    """What a labelling interface says about spans of text."""

    from_name: str = "label"
    to_name: str = "text"
    field: str | None = None
    """The field of a task that is the text; None if it does not say."""
    labels: frozenset[str] = frozenset()
    """The labels that spans may have; all if the project names none."""


def interface(config: str) -> Interface:
    """The first labels of text in a labelling interface; one that is not XML, or defines entities, says nothing.

    >>> interface('<View><Labels name="ner" toName="doc"/><Text name="doc" value="$body"/></View>')
    Interface(from_name='ner', to_name='doc', field='body', labels=frozenset())
    """
    try:
        elements = [] if "<!DOCTYPE" in config else list(ElementTree.fromstring(config).iter())
    except (ElementTree.ParseError, ValueError):
        elements = []
    labels = next((element for element in elements if element.tag == "Labels"), ElementTree.Element("Labels"))
    names = {label.get(name) for label in labels.iter("Label") for name in ("value", "alias")}
    to_name = labels.get("toName") or "text"
    texts = [one for one in elements if one.tag in ("Text", "HyperText") and one.get("name") == to_name]
    field = texts[0].get("value", "").removeprefix("$") if texts else ""
    return Interface(labels.get("name") or "label", to_name, field or None, frozenset(filter(None, names)))


def prediction_job(body: bytes, builder: JobBuilder) -> BatchJob:
    """``/predict``; a parameter ``model`` of ``params`` chooses the model."""
    request, limits = decode(LabelStudioTasks, body), builder.limits
    config = request.label_config or ""
    if len(config) > limits.head_bytes:
        raise too_large(f"label_config has {len(config)} characters: expected at most {limits.head_bytes}")
    name = request.params.get("model") if isinstance(request.params, dict) else None
    model, names = builder.registry.get(name if isinstance(name, str) else UNSET), interface(config)
    if names.labels and names.labels.isdisjoint(model.kinds):
        theirs, ours = ", ".join(sorted(names.labels))[:200], ", ".join(model.kinds) or "none"
        raise invalid(f"label_config has none of the labels of {model.name}: it has {theirs}, the model {ours}")
    texts, version = [_text(task.data, i, names) for i, task in enumerate(request.tasks)], version_of(model)

    def finish(answers: list[Sequence[TaggedSentence]]) -> bytes:
        predictions = [_prediction(tagged, version, names) for tagged, _ in chain.from_iterable(answers)]
        return encode(LabelStudioPredictions(predictions, version))

    parts = builder.parts(InputColumns.of_texts(texts, model))
    return BatchJob(TagInference(model, raw=True), parts, finish, limits.seconds)


def _text(data: dict[str, Any], number: int, names: Interface) -> str:
    field = names.field or "text"
    if names.field is None and "text" not in data:
        strings = [name for name, value in data.items() if isinstance(value, str)]
        if len(strings) != 1:
            raise invalid(f"task {number}: expected one text in its data, got {shown(strings)}")
        field = strings[0]
    text = data.get(field)
    if not isinstance(text, str):
        raise invalid(f"task {number}: the field {field!r} of its data must be a string, got {shown(text)}")
    return text


def version_of(model: ServedModel) -> str:
    """The model's name and which one it is, as Label Studio shows it."""
    return f"{model.name}-{model.version}"


def _prediction(tagged: Tagged, version: str, names: Interface) -> LabelStudioPrediction:
    regions = []
    for span in tagged.spans:
        if names.labels and span.label not in names.labels:
            continue
        value = LabelStudioSpan(span.start, span.end, span.text, [span.label])
        region_id = secrets.token_hex(5)
        regions.append(LabelStudioRegion(region_id, names.from_name, names.to_name, value, span.probability))
    return LabelStudioPrediction(regions, min((region.score for region in regions), default=1.0), version)
