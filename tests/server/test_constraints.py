"""What a client knows already conditions the answer: labels of tokens, and spans as the scheme writes them."""

from pathlib import Path
from typing import Any

import pytest

import trellis
from tests.server.conftest import TEXT, Client
from trellis.server.constraints import labels_of_spans
from trellis.server.schemas import KnownSpan
from trellis.tags import Scheme, TagSet

TOKENS = ["Anna", "Smith", "met", "Paul", "in", "New", "York", "."]


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
