"""Label Studio's requests, as its machine-learning backends document them."""

import pytest

from tests.server.conftest import TEXT, Client
from trellis.server.labelstudio import Interface, interface

CONFIG = """<View>
  <Labels name="ner" toName="doc"><Label value="PER" background="red"/><Label value="LOC"/></Labels>
  <Text name="doc" value="$body"/>
</View>"""


def task(number: int, **data: object) -> dict[str, object]:
    return {"id": number, "project": 1, "data": data, "annotations": [], "predictions": [], "meta": {}}


def test_it_is_up(client: Client) -> None:
    assert client.get("/health").json()["status"] == "UP"


def test_a_project_is_told_the_version_of_the_model(client: Client) -> None:
    request = {"project": "1.1687000000", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "t"}
    version = client.post("/setup", request).json()["model_version"]
    assert version.startswith("ner-")
    assert client.post("/predict", {"tasks": []}).json() == {"results": [], "model_version": version}


def test_tasks_get_regions_under_the_names_of_the_interface(client: Client) -> None:
    request = {
        "tasks": [task(1, body=TEXT, title="x"), task(2, body="It rained.")],
        "model_version": "old",
        "project": "1.1687000000",
        "label_config": CONFIG,
        "params": {"login": None, "password": None, "context": None},
    }
    first, second = client.post("/predict", request).json()["results"]
    spans = client.post("/v1/tag", {"texts": [TEXT]}).json()["results"][0]["spans"]
    assert [region["value"] for region in first["result"]] == [
        {"start": span["start"], "end": span["end"], "text": span["text"], "labels": [span["label"]]} for span in spans
    ]
    assert {(region["from_name"], region["to_name"], region["type"]) for region in first["result"]} == {
        ("ner", "doc", "labels")
    }
    assert first["score"] == min(span["probability"] for span in spans)
    assert len({region["id"] for region in first["result"]}) == len(spans) > 0
    assert second["result"] == []


def test_predictions_have_only_labels_of_the_project(client: Client) -> None:
    request = {"tasks": [task(1, body=TEXT)], "label_config": CONFIG.replace('"LOC"', '"GPE" alias="LOC"')}
    labels = [region["value"]["labels"] for region in client.post("/predict", request).json()["results"][0]["result"]]
    assert labels == [["PER"], ["PER"], ["LOC"]]
    request["label_config"] = CONFIG.replace('<Label value="LOC"/>', "")
    prediction = client.post("/predict", request).json()["results"][0]
    assert [region["value"]["labels"] for region in prediction["result"]] == [["PER"], ["PER"]]
    assert prediction["score"] == min(region["score"] for region in prediction["result"])
    request["label_config"] = CONFIG.replace("PER", "Drug").replace("LOC", "Dose")
    response = client.post("/predict", request)
    assert response.status_code == 422
    assert "it has Dose, Drug, the model LOC, PER" in response.json()["error"]["message"]


def test_labels_that_come_with_the_task_are_not_known_before(client: Client) -> None:
    config = '<View><Labels name="ner" toName="doc" value="$labels"/><Text name="doc" value="$body"/></View>'
    answer = client.post("/predict", {"tasks": [task(1, body=TEXT)], "label_config": config}).json()
    assert len(answer["results"][0]["result"]) == 3


def test_what_an_annotator_did_is_answered(client: Client) -> None:
    event = {"action": "ANNOTATION_CREATED", "annotation": {"id": 1}, "project": {"id": 1}}
    assert client.post("/webhook", event).status_code == 200


def test_without_an_interface_the_text_is_the_field_of_that_name_or_the_only_one(client: Client) -> None:
    answer = client.post("/predict", {"tasks": [task(1, text=TEXT, title="x"), task(2, body=TEXT, n=1)]}).json()
    assert [len(one["result"]) for one in answer["results"]] == [3, 3]


def test_another_model_by_parameter(client: Client) -> None:
    answer = client.post("/predict", {"tasks": [], "params": {"model": "hmm"}}).json()
    assert answer["model_version"].startswith("hmm-")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "missing required field `tasks`"),
        ({"tasks": [1]}, "Expected `object`, got `int` - at `$.tasks[0]`"),
        ({"tasks": [{}]}, "missing required field `data` - at `$.tasks[0]`"),
        ({"tasks": [task(1, a="x", b="y")]}, "task 0: expected one text in its data"),
        (
            {"tasks": [task(1, text=3)], "label_config": CONFIG},
            "task 0: the field 'body' of its data must be a string, got None",
        ),
        ({"tasks": [task(1, body=3)], "label_config": CONFIG}, "the field 'body' of its data must be a string, got 3"),
    ],
)
def test_tasks_without_text_are_refused(client: Client, request_: object, message: str) -> None:
    response = client.post("/predict", request_)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "config",
    [
        "",
        "<",
        "<View>" * 5000,
        "<Labels/>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><View>&b;",
        "<View" * 12_000,
        "<!--" * 16_000,
    ],
)
def test_any_interface_can_be_read(config: str) -> None:
    assert interface(config).to_name == "text"


def test_comments_quotes_and_entities_of_an_interface_are_read() -> None:
    config = """<View><!-- <Labels name="x" toName="y"/> --><Labels toName='doc' name="a&amp;b"
        ><Label value="PER"/></Labels><HyperText name = "doc" value="$body"/></View>"""
    assert interface(config) == Interface("a&b", "doc", "body", frozenset({"PER"}))
