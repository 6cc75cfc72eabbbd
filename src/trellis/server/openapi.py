"""``/openapi.json``, and the same as a page to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from trellis import __version__
from trellis.server.limits import ServerLimits
from trellis.server.problems import STATUSES
from trellis.server.schema import Schema, ref, schemas

JSON, LINES = "application/json", "application/x-ndjson"
_COMMON = (400, 401, 403, 431, 500, 503, 505)
_ASKING = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 431, 500, 503, 505)


def document(limits: ServerLimits) -> dict[str, Any]:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trellis", "version": __version__, "description": "Exact sequence labelling over HTTP."},
        "paths": _paths(),
        "components": {
            "schemas": schemas(limits),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _paths() -> dict[str, Any]:
    return {
        "/v1/tag": {"post": _tag()},
        "/v1/trellis": {"post": _asks("trellis", "Every label of every token of a text, to be drawn.", "Trellis")},
        "/v1/explain": {"post": _asks("explain", "Why tokens got their labels.", "Explain")},
        "/v1/models": {"get": _gives("models", "The models that are served.", "Models")},
        "/healthz": {"get": _gives("healthz", "Whether the process is alive.", "Health")},
        "/readyz": {"get": _ready()},
        "/metrics": {"get": _gives("metrics", "Figures for Prometheus.", None, "text/plain")},
        "/openapi.json": {"get": _gives("openapi", "This document.", None)},
        "/v1/teaching": {
            "get": _gives("teaching", "Whether corrections are kept, and how far learning is.", "Teaching")
        },
        "/v1/corrections": {
            "post": _posts("correct", "Keep a correction: on disk when answered.", "Correction", "Progress")
        },
        "/v1/next": {"post": _posts("next", "The sentence of the pool worth labelling next.", None, "NextSentence")},
        "/v1/learn": {"post": _posts("learn", "Learn from the corrections, in the background.", None, "Learner")},
        "/v1/learn/accept": {"post": _posts("accept", "Put the new model in place of the old one.", None, "Learner")},
        "/v1/learn/reject": {"post": _posts("reject", "Forget the new model.", None, "Learner")},
        "/predict": {"post": _label_studio("predict", "Predictions for tasks of Label Studio.", "Predictions")},
        "/setup": {"post": _label_studio("setup", "Label Studio introduces a project.", "Setup")},
        "/health": {"get": _gives("health", "Label Studio asks whether the backend is up.", "LabelStudioHealth")},
    }


def _tag() -> Schema:
    found = _asks("tag", "Tags, spans and exact probabilities.", "Tag")
    found["description"] = (
        "JSON Lines (application/x-ndjson) are answered line by line as they come, in their order, without a limit on "
        "their number; options are then in the query. A line that cannot be answered, or is too long, gets an error in "
        "its place, with its number, counted from 0, as `input`; the lines after it are answered."
    )
    names = ("model", "probabilities", "k_best", "spans_only")
    found["parameters"] = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    found["requestBody"]["content"][LINES] = {"schema": ref("TagLine")}
    found["responses"]["200"]["content"][LINES] = {"schema": {"anyOf": [ref("LineResult"), ref("Error")]}}
    return found


def _asks(name: str, about: str, schema: str) -> Schema:
    return _posts(name, about, f"{schema}Request", f"{schema}Answer")


def _label_studio(name: str, about: str, answer: str) -> Schema:
    return _posts(name, about, "LabelStudioTasks" if name == "predict" else None, f"LabelStudio{answer}")


def _posts(name: str, about: str, request: str | None, answer: str) -> Schema:
    body = {"schema": {"type": "object"} if request is None else ref(request)}
    return {
        "operationId": name,
        "summary": about,
        "requestBody": {"required": True, "content": {JSON: body}},
        "responses": {"200": _response("The answer.", JSON, ref(answer)), **_errors(_ASKING)},
    }


def _gives(name: str, about: str, answer: str | None, media: str = JSON) -> Schema:
    schema: Schema = ref(answer) if answer else {"type": "string" if media != JSON else "object"}
    errors = _errors(_COMMON)
    return {"operationId": name, "summary": about, "responses": {"200": _response(about, media, schema), **errors}}


def _ready() -> Schema:
    found = _gives("readyz", "Whether requests are answered; 503 while it starts or stops.", "Ready")
    found["responses"]["503"] = _response("Not now.", JSON, {"anyOf": [ref("Ready"), ref("Error")]})
    return found


def _response(about: str, media: str, schema: Schema) -> Schema:
    return {"description": about, "content": {media: {"schema": schema}}}


def _errors(statuses: tuple[int, ...]) -> dict[str, Schema]:
    return {str(status): _response(_about(status), JSON, ref("Error")) for status in statuses}


def _about(status: int) -> str:
    return " ".join(f"{kind.code}: {kind.about}" for kind in STATUSES if kind.status == status)


def page(limits: ServerLimits) -> str:
    """The document for people: plain HTML, nothing to run."""
    found = document(limits)
    parts = "".join(_section(path, item) for path, item in found["paths"].items())
    named = "".join(
        f'<h3 id="{escape(name)}">{escape(name)}</h3><pre>{escape(json.dumps(schema, indent=2))}</pre>'
        for name, schema in found["components"]["schemas"].items()
    )
    errors = "".join(
        f"<tr><td>{kind.status}</td><td><code>{kind.code}</code></td><td>{escape(kind.about)}</td></tr>"
        for kind in STATUSES
    )
    return _PAGE.format(paths=parts, schemas=named, errors=errors)


def _section(path: str, item: Schema) -> str:
    ((method, operation),) = item.items()
    names = "".join(f'<li>{escape(what)}: <a href="#{name}">{name}</a></li>' for what, name in _mentioned(operation))
    about = f"<p>{escape(operation['description'])}</p>" if "description" in operation else ""
    title = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    return f"<section>{title}<p>{escape(operation['summary'])}</p>{about}<ul>{names}</ul></section>"


def _mentioned(operation: Schema) -> Iterator[tuple[str, str]]:
    """What a request and an answer are, by the names of their schemas."""
    contents = {"request": operation.get("requestBody", {}), "answer": operation["responses"]["200"]}
    for what, body in contents.items():
        for media, content in body.get("content", {}).items():
            for schema in content["schema"].get("anyOf", [content["schema"]]):
                if "$ref" in schema:
                    yield f"{what}, {media}", schema["$ref"].rpartition("/")[2]


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Trellis: the interface</title><link rel="stylesheet" href="/page/style.css"></head>
<body class="reference"><main><h1>Trellis: the interface</h1>
<p>The same as <a href="/openapi.json">openapi.json</a>, to read. <a href="/">The page to try it.</a></p>
{paths}<h2>Errors</h2><p>All have one form: <code>{{"error": {{"code": ..., "message": ...}}}}</code>.</p>
<table><thead><tr><th>status</th><th>code</th><th>when</th></tr></thead><tbody>{errors}</tbody></table>
<h2>Schemas</h2>{schemas}</main></body></html>
"""
