"""Two small models in folders, a server in this process, and answers that are compared with what openapi.json says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from tests.cli.conftest import SEGMENTED, sentences
from trellis.corpus import sentence_from_words
from trellis.models import CRF, HMM, Tagger, folder
from trellis.server import ModelRegistry, ServerLimits, ServerSettings, create_app
from trellis.server.openapi import document

TEXT = "Anna Smith met Paul in New York."


def _saved(place: Path, tagger: Tagger[Any]) -> Path:
    folder.save_model(folder.prepare(place), tagger)
    return place


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("served")
    segmented = [sentence_from_words(line.split()) for line in SEGMENTED.splitlines()]
    return {
        "ner": _saved(place / "ner", CRF(features="ner", c2=0.1).fit(sentences())),
        "hmm": _saved(place / "hmm", HMM().fit(sentences())),
        "seg": _saved(place / "seg", CRF(features="seg", c2=0.1).fit(segmented)),
    }


@pytest.fixture
def own_folders(model_folders: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Copies that a test may spoil."""
    for name, path in model_folders.items():
        shutil.copytree(path, tmp_path / name)
    return {name: tmp_path / name for name in model_folders}


class Client:
    """A client that holds every answer, and every request that is answered, against what openapi.json says."""

    def __init__(self, http: TestClient, limits: ServerLimits) -> None:
        self.http, self._document = http, document(limits)

    def post(self, path: str, value: Any = None, *, content: bytes | None = None, **options: Any) -> Any:
        headers = {"content-type": "application/json"} | options.pop("headers", {})
        body = json.dumps(value).encode() if content is None else content
        response = self._checked(path, "post", self.http.post(path, content=body, headers=headers, **options))
        if response.status_code == 200 and headers["content-type"] == "application/json":
            request = self._document["paths"][path.partition("?")[0]]["post"]["requestBody"]
            check(json.loads(body), request["content"]["application/json"]["schema"], self._document)
        return response

    def get(self, path: str, **options: Any) -> Any:
        return self._checked(path, "get", self.http.get(path, **options))

    def _checked(self, path: str, method: str, response: Any) -> Any:
        operation = self._document["paths"].get(path.partition("?")[0], {}).get(method)
        if operation is None:
            return response
        declared = operation["responses"]
        assert str(response.status_code) in declared, (response.status_code, response.text)
        media = response.headers["content-type"].partition(";")[0]
        schema = declared[str(response.status_code)]["content"][media]["schema"]
        if media == "application/json":
            check(response.json(), schema, self._document)
        elif media == "application/x-ndjson":
            for line in response.text.splitlines():
                check(json.loads(line), schema, self._document)
        return response


def check(value: Any, schema: Any, whole: Any) -> None:
    jsonschema.Draft202012Validator({**schema, "components": whole["components"]}).validate(value)


def client_of(registry: ModelRegistry, **settings: Any) -> Iterator[Client]:
    chosen = ServerSettings(**{"reload_seconds": 0, "hosts": ("testserver",)} | settings)
    with TestClient(create_app(registry, chosen), raise_server_exceptions=False) as http:
        yield Client(http, chosen.limits)


@pytest.fixture(scope="session")
def registry(model_folders: dict[str, Path]) -> ModelRegistry:
    return ModelRegistry(model_folders)


@pytest.fixture
def client(registry: ModelRegistry) -> Iterator[Client]:
    yield from client_of(registry)
