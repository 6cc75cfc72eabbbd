"""Corrections are kept before they are thanked for, condition the model at once, and a model learns from them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.cli.conftest import sentences
from tests.server.conftest import TEXT, Client, client_of
from trellis.errors import DataWarning
from trellis.server import Corrections, LearningData, ModelRegistry, ServerLimits, ServerSettings, create_app
from trellis.server.annotation import AnnotationSettings
from trellis.server.openapi import document

TOKENS = ["Anna", "Smith", "met", "Paul", "in", "New", "York", "."]
POOL = ["Anna met Rome.", "It rained.", "Paul Jones met Anna Smith in New Delhi.", "Quux Zork frobs Blarg City."]


@pytest.fixture
def annotating(own_folders: dict[str, Path], tmp_path: Path) -> Iterator[Client]:
    settings = AnnotationSettings(tmp_path / "kept.jsonl", {"ner": LearningData(sentences(), sentences())}, POOL)
    yield from client_of(ModelRegistry({"ner": own_folders["ner"]}), annotation=settings)


def test_a_server_that_was_not_started_for_annotation_says_so(client: Client) -> None:
    assert client.get("/v1/annotation").json()["corrections"] is False
    for path in ("/v1/next", "/v1/learn", "/v1/learn/accept"):
        assert client.post(path, {}).status_code == 409
    assert client.post("/v1/corrections", {"tokens": ["a"], "tags": ["O"]}).status_code == 409


def test_a_correction_is_on_disk_when_it_is_answered_and_a_later_one_takes_its_place(
    annotating: Client, tmp_path: Path
) -> None:
    spans = [{"start": 3, "end": 4, "label": "LOC"}]
    first = annotating.post("/v1/corrections", {"text": TEXT, "tokens": TOKENS, "known_spans": spans}).json()
    assert first == {"sentences": 1, "done": 0, "total": len(POOL)}
    second = {"text": TEXT, "tokens": TOKENS, "tags": ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "I-LOC", "O"]}
    assert annotating.post("/v1/corrections", second).json()["sentences"] == 1
    lines = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert lines[0]["labels"][3] == ["B-LOC"]
    assert lines[1]["labels"] == second["tags"]
    assert annotating.post("/v1/corrections", second | {"known_spans": []}).json()["sentences"] == 1  # tags say more
    withdrawn = {"text": TEXT, "tokens": TOKENS, "known_spans": []}
    assert annotating.post("/v1/corrections", withdrawn).json()["sentences"] == 0


@pytest.mark.parametrize(
    "request_",
    [
        {"tokens": TOKENS},
        {"tokens": TOKENS, "tags": ["O"]},
        {"tokens": ["a"], "tags": ["X"]},
        {"tokens": 1, "tags": []},
        {"tags": []},
    ],
)
def test_bad_corrections_are_not_kept(annotating: Client, tmp_path: Path, request_: Any) -> None:
    assert annotating.post("/v1/corrections", request_).status_code == 422
    assert (tmp_path / "kept.jsonl").read_text() == ""


def test_learning_ends_with_scores_and_asks_before_it_replaces_the_model(annotating: Client) -> None:
    correction = {"text": "Quux sang.", "tokens": ["Quux", "sang", "."], "tags": ["B-PER", "O", "O"]}
    assert annotating.post("/v1/learn", {}).status_code == 409  # nothing to learn from yet
    annotating.post("/v1/corrections", correction)
    version = annotating.get("/v1/models").json()["models"][0]["version"]
    assert annotating.post("/v1/learn", {}).json()["state"] == "learning"
    learner = until_learned(annotating)
    assert learner["state"] == "done"
    assert (learner["model"], learner["metric"]) == ("ner", "f1")
    assert learner["before"] == pytest.approx(1.0)
    assert learner["after"] > 0.9
    assert annotating.get("/v1/models").json()["models"][0]["version"] == version
    assert annotating.post("/v1/learn/accept", {}).json() == {"state": "idle"}
    assert annotating.get("/v1/models").json()["models"][0]["version"] != version
    spans = annotating.post("/v1/tag", {"texts": ["Quux sang."]}).json()["results"][0]["spans"]
    assert [span["label"] for span in spans] == ["PER"]


def test_every_address_answers_its_example_as_the_document_says(annotating: Client) -> None:
    for path, item in document(ServerLimits())["paths"].items():
        if path == "/v1/learn/reject":
            annotating.post("/v1/learn", {})
        if path.startswith("/v1/learn/"):
            until_learned(annotating)
        if "get" in item:
            answer = annotating.get(path)
        else:
            answer = annotating.post(path, item["post"]["requestBody"]["content"]["application/json"]["example"])
        assert answer.status_code == 200, path


def test_an_application_may_be_started_again(own_folders: dict[str, Path], tmp_path: Path) -> None:
    settings = ServerSettings(annotation=AnnotationSettings(tmp_path / "kept.jsonl"))
    app = create_app(ModelRegistry({"ner": own_folders["ner"]}), settings)
    for count in (1, 2, 3):
        with TestClient(app, base_url="http://localhost") as http:
            assert http.get("/readyz").json()["status"] == "ready"
            assert http.post("/v1/tag", json={"texts": [TEXT]}).status_code == 200
            kept = http.post("/v1/corrections", json={"tokens": [f"a{count}"], "tags": ["O"]})
            assert kept.json()["sentences"] == count


def test_a_new_model_can_be_rejected(annotating: Client) -> None:
    annotating.post("/v1/corrections", {"tokens": ["Quux"], "tags": ["B-PER"]})
    annotating.post("/v1/learn", {})
    until_learned(annotating)
    assert annotating.post("/v1/learn/reject", {}).json() == {"state": "idle"}
    assert annotating.post("/v1/learn/accept", {}).status_code == 409


def until_learned(client: Client) -> Any:
    end = time.monotonic() + 60
    while (learner := client.get("/v1/annotation").json()["learner"])["state"] == "learning":
        assert time.monotonic() < end
        time.sleep(0.02)
    return learner


def test_the_pool_is_offered_least_sure_first_until_it_is_done(annotating: Client) -> None:
    offered = [annotating.post("/v1/next", {}).json()["text"] for _ in POOL]
    assert sorted(offered) == sorted(POOL)
    assert offered[0] != POOL[1]  # of which the model is sure
    assert annotating.post("/v1/next", {}).status_code == 409
    done = annotating.post(
        "/v1/corrections", {"text": POOL[1], "tokens": ["It", "rained", "."], "tags": ["O"] * 3}
    ).json()
    assert done["done"] == 1


@pytest.fixture
def several(own_folders: dict[str, Path], tmp_path: Path) -> Iterator[Client]:
    yield from client_of(ModelRegistry(own_folders), annotation=AnnotationSettings(tmp_path / "kept.jsonl"))


def test_each_model_learns_from_corrections_in_its_labels(several: Client, own_folders: dict[str, Path]) -> None:
    several.post("/v1/corrections", {"tokens": ["Quux"], "tags": ["B-PER"]})
    chinese = [{"model": "seg", "tokens": list(word), "tags": ["B", "E"]} for word in ("明天", "下雨")]
    for correction in chinese:
        several.post("/v1/corrections", correction)
    assert several.get("/v1/annotation").json()["sentences"] == 3
    before = {name: next(path.glob("*.safetensors")).read_bytes() for name, path in own_folders.items()}
    assert several.post("/v1/learn", {"model": "seg"}).json() == {"state": "learning", "model": "seg", "step": 0}
    learner = until_learned(several)
    assert learner == {"state": "done", "model": "seg"}  # nothing to compare on: no score
    several.post("/v1/learn/accept", {})
    after = {name: next(path.glob("*.safetensors")).read_bytes() for name, path in own_folders.items()}
    assert [name for name in before if before[name] != after[name]] == ["seg"]
    words = several.post("/v1/tag", {"model": "seg", "texts": ["明天下雨"]}).json()["results"][0]["spans"]
    assert [span["text"] for span in words] == ["明天", "下雨"]
    assert several.post("/v1/learn", {"model": "hmm"}).status_code == 409
    assert several.post("/v1/learn", {"model": "pos"}).status_code == 404


def test_corrections_of_a_model_that_is_not_served_are_mentioned(own_folders: dict[str, Path], tmp_path: Path) -> None:
    kept = Corrections(tmp_path / "kept.jsonl")
    kept.add("old", "a b", ["a", "b"], ["O", "O"])
    kept.close()
    settings = ServerSettings(annotation=AnnotationSettings(tmp_path / "kept.jsonl"))
    with pytest.warns(DataWarning, match="1 corrected sentence of a model called 'old', which is not served"):
        create_app(ModelRegistry(own_folders), settings)
