"""Corrections are kept before they are thanked for, condition the model at once, and a model learns from them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trellis
from tests.cli.conftest import sentences
from tests.server.conftest import TEXT, Client, client_of
from trellis.errors import ConfigError, DataError, DataWarning
from trellis.server import ModelRegistry, ServerLimits
from trellis.server.annotation import AnnotationSettings
from trellis.server.constraints import labels_of_spans
from trellis.server.corrections import Corrections
from trellis.server.learner import LearningData
from trellis.server.openapi import document
from trellis.server.schemas import KnownSpan
from trellis.tags import Scheme, TagSet

TOKENS = ["Anna", "Smith", "met", "Paul", "in", "New", "York", "."]
POOL = ["Anna met Rome.", "It rained.", "Paul Jones met Anna Smith in New Delhi.", "Quux Zork frobs Blarg City."]


@pytest.fixture
def annotating(own_folders: dict[str, Path], tmp_path: Path) -> Iterator[Client]:
    settings = AnnotationSettings(tmp_path / "kept.jsonl", LearningData(sentences(), sentences()), POOL)
    yield from client_of(ModelRegistry({"ner": own_folders["ner"]}), annotation=settings)


def test_a_known_span_conditions_the_rest_exactly(client: Client, model_folders: dict[str, Path]) -> None:
    request = {"texts": [TEXT], "known_spans": [[{"start": 3, "end": 4, "label": "LOC"}]]}
    answer = client.post("/v1/tag", request).json()["results"][0]
    tagger = trellis.load(model_folders["ner"])
    others = [label for label in tagger.labels_ if label != "I-LOC"]
    known = [[None, None, None, "B-LOC", others, None, None, None]]
    assert answer == tagger.annotate([TEXT], known=known)[0].to_dict()
    (span,) = [span for span in answer["spans"] if span["text"] == "Paul"]
    assert (span["label"], span["probability"]) == ("LOC", pytest.approx(1.0))


def test_tokens_outside_spans_are_known_too(client: Client) -> None:
    request = {"text": TEXT, "known_spans": [{"start": 0, "end": 2, "label": None}]}
    answer = client.post("/v1/trellis", request).json()
    assert answer["tags"][:2] == ["O", "O"]
    assert answer["probabilities"][:2] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        ("IOB2", ("O", "B-A", "I-A"), [None, ["B-A"], ["I-A"], ["O", "B-A"]]),
        ("BIOES", ("O", "B-A", "I-A", "E-A", "S-A"), [None, ["B-A"], ["E-A"], None]),
        ("IO", ("O", "I-A"), [["O"], ["I-A"], ["I-A"], ["O"]]),
        ("plain", ("A", "B"), [None, ["A"], ["A"], None]),
    ],
)
def test_spans_are_written_as_the_scheme_does(scheme: str, labels: tuple[str, ...], expected: list[Any]) -> None:
    tags = TagSet(labels, Scheme.parse(scheme))
    assert labels_of_spans([KnownSpan(1, 3, "A")], 4, "spans", tags) == expected
    long = labels_of_spans([KnownSpan(1, 7, "A")], 8, "spans", tags)
    inner = {"B-A": "I-A", "I-A": "I-A", "A": "A"}[expected[1][0]]
    assert long == [*expected[:2], *[[inner]] * 4, *expected[2:]]


@pytest.mark.parametrize("spans", [[(0, 1)] * 5, [(0, 2)] * 5])
def test_no_more_spans_are_known_than_fit(client: Client, spans: list[tuple[int, int]]) -> None:
    known = [[{"start": start, "end": end, "label": "PER"} for start, end in spans]]
    tokens = [["Anna"] * spans[0][1]]
    fine = client.post("/v1/tag", {"tokens": tokens, "known_spans": [known[0][:4]]})
    assert fine.status_code == 200
    refused = client.post("/v1/tag", {"tokens": tokens, "known_spans": known})
    assert refused.status_code == 413
    assert "expected at most" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([{"start": 1, "end": 1, "label": "PER"}], "at least one token"),
        ([{"start": 0, "end": 9, "label": "PER"}], r"must be in 0..8, got 9"),
        ([{"start": 0, "end": 1, "label": "X"}], "label must be one of LOC, PER, got 'X'"),
        ([{"start": 0, "end": 1}], "missing required field `label` - at `$.known_spans[0][0]`"),
        ([{"start": 0, "end": 2, "label": "PER"}, {"start": 1, "end": 3, "label": "LOC"}], "contradict each other"),
        ([1], "Expected `object`, got `int` - at `$.known_spans[0][0]`"),
    ],
)
def test_spans_that_cannot_be_are_refused(client: Client, spans: Any, message: str) -> None:
    response = client.post("/v1/tag", {"tokens": [TOKENS], "known_spans": [spans]})
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


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
    assert learner["before"] == pytest.approx(1.0)
    assert learner["after"] > 0.9
    assert annotating.get("/v1/models").json()["models"][0]["version"] == version
    assert annotating.post("/v1/learn/accept", {}).json() == {"state": "idle"}
    assert annotating.get("/v1/models").json()["models"][0]["version"] != version
    spans = annotating.post("/v1/tag", {"texts": ["Quux sang."]}).json()["results"][0]["spans"]
    assert [span["label"] for span in spans] == ["PER"]


def test_every_address_answers_as_the_document_says(annotating: Client) -> None:
    correction = {"tokens": ["Quux", "sang"], "tags": ["B-PER", "O"]}
    asked: dict[str, Any] = {
        "/v1/tag": {"documents": [TEXT]},
        "/v1/trellis": {"text": TEXT},
        "/v1/explain": {"tokens": TOKENS, "positions": [0]},
        "/v1/corrections": correction,
        "/v1/next": {},
        "/v1/learn": {},
        "/v1/learn/reject": {},
        "/v1/learn/accept": {},
        "/predict": {"tasks": [{"data": {"text": TEXT}}]},
        "/setup": {"project": "1"},
    }
    paths = document(ServerLimits())["paths"]
    assert set(asked) == {path for path, item in paths.items() if "post" in item}
    for path, request in asked.items():
        if path == "/v1/learn/accept":
            annotating.post("/v1/learn", {})
        if path.startswith("/v1/learn/"):
            until_learned(annotating)
        assert annotating.post(path, request).status_code == 200, path
    for path in paths.keys() - asked.keys():
        assert annotating.get(path).status_code == 200, path


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


def test_one_process_writes_the_file(tmp_path: Path) -> None:
    first = Corrections(tmp_path / "kept")
    with pytest.raises(ConfigError, match="another process writes to it"):
        Corrections(tmp_path / "kept")
    first.close()
    Corrections(tmp_path / "kept").close()


def test_what_is_left_of_a_line_is_set_aside_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    kept = Corrections(path)
    kept.add("a b", ["a", "b"], ["O", None])
    kept.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"text": "c", "tok')
    with pytest.warns(DataWarning, match="kept:2: expected JSON"):
        again = Corrections(path)
    assert again.sentences() == [(("a", "b"), ["O", None])]
    again.add("c", ["c"], ["O"])
    again.close()
    assert path.read_bytes().startswith(whole)
    assert len(Corrections(path)) == 2


@pytest.mark.parametrize("line", ["{}", '{"text": "", "tokens": ["a"], "labels": []}', "[]"])
def test_a_file_of_something_else_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "kept").write_text(f'{{"text": "a", "tokens": ["a"], "labels": ["O"]}}\n{line}\n')
    with pytest.raises(DataError, match=r"kept:2"):
        Corrections(tmp_path / "kept")


def test_no_correction_that_was_thanked_for_is_lost_by_a_kill(tmp_path: Path) -> None:
    program = (
        "import sys; from trellis.server.corrections import Corrections\n"
        "kept = Corrections(sys.argv[1])\n"
        "for i in range(10**9):\n"
        "    kept.add(str(i), [str(i)], ['O']); print(i, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "kept")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(20):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        last = max([last, *(int(line) for line in process.stdout if line.endswith("\n"))])
    assert len(Corrections(tmp_path / "kept")) > last
