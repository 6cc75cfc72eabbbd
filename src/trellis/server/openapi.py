"""``/openapi.json``, made of the structs of `trellis.server.schemas`, and the same as a page to read."""

from __future__ import annotations

import json
from html import escape
from typing import Any, NamedTuple

from msgspec.json import schema_components

from trellis import __version__
from trellis.server import schemas as s
from trellis.server.labelstudio import LabelStudioHealth, LabelStudioPredictions, LabelStudioSetup, LabelStudioTasks
from trellis.server.limits import ServerLimits
from trellis.server.problems import JSON, PROBLEMS, Error

Schema = dict[str, Any]
_COMMON = (400, 401, 403, 500, 503)
_ASKING = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503)


class Operation(NamedTuple):
    """An address: what is sent to it, if anything, and what comes back."""

    name: str
    path: str
    about: str
    request: type | None
    answer: type | None
    media: str = JSON

    @property
    def method(self) -> str:
        return "GET" if self.request is None else "POST"


OPERATIONS = (
    Operation("tag", "/v1/tag", "Tags, spans and exact probabilities.", s.TagRequest, s.TagAnswer),
    Operation("trellis", "/v1/trellis", "Every label of every token, to be drawn.", s.TrellisRequest, s.TrellisAnswer),
    Operation("explain", "/v1/explain", "Why tokens got their labels.", s.ExplainRequest, s.ExplainAnswer),
    Operation("models", "/v1/models", "The models that are served.", None, s.ModelsAnswer),
    Operation("correct", "/v1/corrections", "Keep a correction: on disk when answered.", s.Correction, s.Progress),
    Operation("next", "/v1/next", "The sentence of the pool worth labelling next.", s.AnyObject, s.NextSentence),
    Operation("annotation", "/v1/annotation", "Corrections, the pool and learning so far.", None, s.AnnotationState),
    Operation("learn", "/v1/learn", "Learn from the corrections, in the background.", s.LearnRequest, s.LearnerState),
    Operation("accept", "/v1/learn/accept", "Put the new model in place of the old one.", s.AnyObject, s.LearnerState),
    Operation("reject", "/v1/learn/reject", "Forget the new model.", s.AnyObject, s.LearnerState),
    Operation("predict", "/predict", "Predictions for Label Studio.", LabelStudioTasks, LabelStudioPredictions),
    Operation("setup", "/setup", "Label Studio introduces a project.", s.AnyObject, LabelStudioSetup),
    Operation("webhook", "/webhook", "Label Studio tells what happened.", s.AnyObject, LabelStudioHealth),
    Operation("health", "/health", "Label Studio asks whether the backend is up.", None, LabelStudioHealth),
    Operation("healthz", "/healthz", "Whether the process is alive.", None, s.Health),
    Operation("readyz", "/readyz", "Whether requests are answered; 503 while it starts or stops.", None, s.Ready),
    Operation("metrics", "/metrics", "Figures for Prometheus.", None, None, "text/plain"),
    Operation("openapi", "/openapi.json", "The interface for programs.", None, None),
)
_SENTENCE = "Ada met Charles in London."
_EXAMPLES: dict[str, Schema] = {
    "tag": {"texts": [_SENTENCE]},
    "trellis": {"text": _SENTENCE, "k_best": 3},
    "explain": {"text": _SENTENCE, "positions": [0]},
    "correct": {"tokens": ["Ada", "slept", "."], "known_spans": [{"start": 1, "end": 3, "label": None}]},
    "predict": {"tasks": [{"data": {"text": _SENTENCE}}]},
    "setup": {"project": "1"},
    "webhook": {"action": "PROJECT_UPDATED"},
}
"""Requests by the name of their operation; the others may be empty."""
_LINES = (
    "JSON Lines (application/x-ndjson) are answered line by line as they come, in their order, without a limit on "
    "their number; options are then in the query. A line that cannot be answered, or is too long, gets an error in "
    "its place, with its number, counted from 0, in the field input; the lines after it are answered."
)


def document(limits: ServerLimits) -> Schema:
    """The OpenAPI document."""
    paths: Schema = {operation.path: {operation.method.lower(): _described(operation)} for operation in OPERATIONS}
    tag = paths["/v1/tag"]["post"]
    tag["description"] = _LINES
    tag["parameters"] = [
        {"name": name, "in": "query", "schema": {"type": "string"}} for name in s.TagOptions.__struct_fields__
    ]
    tag["requestBody"]["content"][s.LINES] = {"schema": _ref(s.TagLine)}
    tag["responses"]["200"]["content"][s.LINES] = {"schema": {"anyOf": [_ref(s.LineResult), _ref(Error)]}}
    ready = paths["/readyz"]["get"]["responses"]
    ready["503"] = _response("Not now.", JSON, {"anyOf": [_ref(s.Ready), _ref(Error)]})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trellis", "version": __version__, "description": "Exact sequence labelling over HTTP."},
        "paths": paths,
        "components": {
            "schemas": _components(limits),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _components(limits: ServerLimits) -> Schema:
    """The schemas of all structs, with what the limits of this server allow."""
    kinds = [kind for operation in OPERATIONS for kind in (operation.request, operation.answer) if kind is not None]
    _, components = schema_components(
        [*dict.fromkeys(kinds), s.TagLine, s.LineResult, Error], ref_template="#/components/schemas/{name}"
    )
    for name, inputs in (
        ("TagRequest", ("texts", "tokens", "documents")),
        ("TrellisRequest", ("text", "tokens")),
        ("ExplainRequest", ("text", "tokens")),
        ("TagLine", ("text", "tokens")),
    ):
        components[name]["oneOf"] = [{"required": [field]} for field in inputs]
        fields = components[name]["properties"]
        for field, bound in (
            ("k_best", {"maximum": limits.k}),
            ("lexicon", {"maxItems": limits.lexicon_entries}),
            ("timeout", {"maximum": limits.seconds, "default": limits.seconds}),
        ):
            if field in fields:
                fields[field] |= bound
    return components


def _described(operation: Operation) -> Schema:
    """The operation object of OpenAPI."""
    answer = _ref(operation.answer) if operation.answer else {"type": "string" if operation.media != JSON else "object"}
    responses = {"200": _response("The answer.", operation.media, answer)}
    for status in _COMMON if operation.request is None else _ASKING:
        codes = [f"{code}: {problem.about}" for code, problem in PROBLEMS.items() if problem.status == status]
        responses[str(status)] = _response(" ".join(codes), JSON, _ref(Error))
    described: Schema = {"operationId": operation.name, "summary": operation.about, "responses": responses}
    if operation.request is not None:
        content = {"schema": _ref(operation.request), "example": _EXAMPLES.get(operation.name, {})}
        described["requestBody"] = {"required": True, "content": {JSON: content}}
    return described


def _response(about: str, media: str, schema: Schema) -> Schema:
    return {"description": about, "content": {media: {"schema": schema}}}


def _ref(kind: type) -> Schema:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def page(limits: ServerLimits) -> str:
    """The document for people: an example of each route, to be copied or tried, and what the fields mean."""
    types = "".join(
        f"<details><summary>{name}: {escape(schema['description'])}</summary>{_fields(name, schema)}</details>"
        for name, schema in _components(limits).items()
    )
    errors = "".join(
        f"<tr><td>{problem.status}</td><td><code>{code}</code></td><td>{escape(problem.about)}</td></tr>"
        for code, problem in PROBLEMS.items()
    )
    return _PAGE.format(routes="".join(map(_section, OPERATIONS)), types=types, errors=errors)


def _section(operation: Operation) -> str:
    """A route for people."""
    links = [
        f'{role}: <a href="#{kind.__name__}">{kind.__name__}</a>.'
        for role, kind in (("Request", operation.request), ("Answer", operation.answer))
        if kind is not None
    ]
    example = json.dumps(_EXAMPLES.get(operation.name, {})) if operation.request else ""
    body = escape(example, quote=False)
    field = f'<textarea rows="2" spellcheck="false" aria-label="body of the request">{body}</textarea>' if body else ""
    curl = f"curl localhost:8000{operation.path}" + (
        f" -H 'Content-Type: application/json' -d '{body}'" if body else ""
    )
    lines = f"<p>{escape(_LINES)}</p>" if operation.request is s.TagRequest else ""
    return f"""<section data-path="{operation.path}" data-method="{operation.method}">
<h2><code>{operation.method} {operation.path}</code></h2><p>{escape(operation.about)} {" ".join(links)}</p>{lines}
{field}<pre class="curl">{curl}</pre><button type="button">Try it</button>
<pre class="answer" role="status" hidden></pre></section>
"""


def _fields(name: str, schema: Schema) -> str:
    """A table of a type's fields."""
    rows = []
    for field, value in schema.get("properties", {}).items():
        needed = "required" if field in schema["required"] else ""
        if "default" in value:
            needed = f"default {escape(json.dumps(value['default']))}"
        about = escape(value.get("description", ""))
        rows.append(f"<tr><td><code>{field}</code></td><td>{_kind(value)}</td><td>{needed}</td><td>{about}</td></tr>")
    return f'<table id="{name}"><tbody>{"".join(rows)}</tbody></table>'


def _kind(schema: Schema) -> str:
    """A type in words, with links to those that have a table."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    limits = [f"{words} {schema[name]:g}" for name, words in bounds.items() if name in schema]
    return " ".join([schema.get("type", "anything"), *limits])


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trellis: the API</title><link rel="icon" href="/page/icon.svg"><link rel="stylesheet" href="/page/style.css">
<script type="module" src="/page/docs.js"></script></head>
<body class="reference"><header><div class="bar"><h1>Trellis: the API</h1><span class="grow"></span>
<a href="/">The page</a> <a href="/openapi.json">openapi.json</a></div></header>
<main><p>Every route with an example.
<label hidden>API key: <input id="key" type="password" autocomplete="off"></label></p>
{routes}<section><h2>Errors</h2>
<p>All have one form: <code>{{"error": {{"code": ..., "message": ...}}}}</code>.</p>
<table><thead><tr><th>status</th><th>code</th><th>when</th></tr></thead><tbody>{errors}</tbody></table></section>
<section><h2>Types</h2>{types}</section></main></body></html>
"""
