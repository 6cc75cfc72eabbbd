"""Label Studio's protocol for machine-learning backends: predictions that annotators start from.

    GET  /health                                    is it up?
    POST /setup    {"project", "schema", ...}       a project introduces itself
    POST /predict  {"tasks": [{"data": {...}}], "label_config": "<View>...</View>"}

The labelling interface says which field of a task is the text, and under which names spans are returned.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from trellis.models import Tagged
from trellis.server.answers import dumps, tagged_in
from trellis.server.limits import ServerLimits
from trellis.server.problems import InvalidRequestError, TooLargeError
from trellis.server.questions import TagAnswers, TagQuestion
from trellis.server.reading import parsed
from trellis.server.requests import Prepared, sized, split
from trellis.server.shelf import ModelShelf, ServedModel
from trellis.untrusted import Fields, shown

_NAME, _VALUE = r"[A-Za-z_][\w:.-]*+", r"""(?:"[^"]*+"|'[^']*+')"""
_ATTRIBUTE = re.compile(rf"({_NAME})\s*+=\s*+({_VALUE})")
_TAG = re.compile(rf"<({_NAME})((?:\s++{_NAME}\s*+=\s*+{_VALUE})*+)\s*+/?>")


@dataclass(frozen=True, slots=True)
class Interface:
    """What a labelling interface says about spans of text."""

    from_name: str = "label"
    to_name: str = "text"
    field: str | None = None
    """The field of a task that is the text; None if it does not say."""


def _tags_in(config: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The opening tags of a labelling interface with their attributes, names in small letters; whatever it is.

    Parsers of XML resolve entities, and that of HTML takes time that grows with the square of what is not closed.
    """
    for tag in _TAG.finditer(_without_comments(config)):
        yield tag[1].lower(), {name.lower(): unescape(value[1:-1]) for name, value in _ATTRIBUTE.findall(tag[2])}


def _without_comments(config: str) -> str:
    before, *rest = config.split("<!--")
    return before + "".join(piece.partition("-->")[2] for piece in rest)


def interface(config: str) -> Interface:
    """The first labels of text in a labelling interface.

    >>> interface('<View><Labels name="ner" toName="doc"/><Text name="doc" value="$body"/></View>')
    Interface(from_name='ner', to_name='doc', field='body')
    """
    tags = list(_tags_in(config))
    labels: dict[str, str] = next((own for tag, own in tags if tag == "labels"), {})
    to_name = labels.get("toname") or "text"
    texts = [own for tag, own in tags if tag in ("text", "hypertext") and own.get("name") == to_name]
    value = (texts[0].get("value") or "") if texts else ""
    return Interface(labels.get("name") or "label", to_name, value.removeprefix("$") or None)


def prediction_request(body: bytes, shelf: ModelShelf, limits: ServerLimits) -> Prepared:
    """``/predict``; a parameter ``model`` of ``params`` chooses the model."""
    fields = Fields(parsed(body), "the request", InvalidRequestError)
    config = fields.value("label_config", str, type(None)) if "label_config" in fields else None
    if config is not None and len(config) > limits.head_bytes:
        raise TooLargeError(f"label_config has {len(config)} characters: expected at most {limits.head_bytes}")
    params = fields.values.get("params")
    name = params.get("model") if isinstance(params, dict) else None
    model, how = shelf.get(name if isinstance(name, str) else None), interface(config or "")
    asked = split(model, [_text(task, i, how) for i, task in enumerate(fields.items("tasks", dict))])
    parts = sized(asked, limits)
    return Prepared(TagQuestion(model, True, False), parts, lambda a: predictions(a, model, how), limits.seconds)


def _text(task: dict[str, Any], number: int, how: Interface) -> str:
    data = Fields(task.get("data"), f"data of task {number}", InvalidRequestError)
    named = how.field if how.field is not None else "text"
    if how.field is None and "text" not in data:
        strings = [name for name, value in data.values.items() if isinstance(value, str)]
        if len(strings) != 1:
            raise InvalidRequestError(f"task {number}: expected one text in its data, got {shown(strings)}")
        named = strings[0]
    return data.text(named)


def predictions(answers: Sequence[TagAnswers], model: ServedModel, how: Interface) -> bytes:
    """The answer to ``/predict``."""
    version = version_of(model)
    return dumps({"results": [_prediction(one, version, how) for one in tagged_in(answers)], "model_version": version})


def version_of(model: ServedModel) -> str:
    """The model's name and which one it is, as Label Studio shows it."""
    return f"{model.name}-{model.version}"


def _prediction(tagged: Tagged, version: str, how: Interface) -> dict[str, Any]:
    spans = tagged.spans
    regions = [
        {
            "id": secrets.token_hex(5),
            "from_name": how.from_name,
            "to_name": how.to_name,
            "type": "labels",
            "value": {"start": span.start, "end": span.end, "text": span.text, "labels": [span.label]},
            "score": span.probability,
        }
        for span in spans
    ]
    least = min((span.probability for span in spans), default=1.0)
    return {"result": regions, "score": least, "model_version": version}
