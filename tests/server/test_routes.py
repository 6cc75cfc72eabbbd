"""What is answered, and that the answers are those of the models."""

import json
from typing import Any

import pytest
from openapi_spec_validator import validate

import trellis
from tests.server.conftest import TEXT, Client
from trellis.lexicon import Lexicon
from trellis.text import split_sentences

TOKENS = ["Anna", "Smith", "met", "Paul", "in", "New", "York", "."]


@pytest.fixture
def ner(model_folders: Any) -> Any:
    return trellis.load(model_folders["ner"])


def test_texts_are_tagged_with_spans_and_exact_probabilities(client: Client, ner: Any) -> None:
    answer = client.post("/v1/tag", {"texts": [TEXT, "", "It rained."]}).json()
    assert answer["model"] == "ner"
    assert answer["results"] == [one.to_dict() for one in ner.annotate([TEXT, "", "It rained."])]


def test_token_lists_are_tagged_as_they_are(client: Client, ner: Any) -> None:
    answer = client.post("/v1/tag", {"tokens": [TOKENS, []]}).json()
    assert answer["results"] == [one.to_dict() for one in ner.annotate([TOKENS, []])]


def test_documents_are_split_into_sentences_with_offsets_of_the_whole(client: Client, ner: Any) -> None:
    whole = f"{TEXT} It rained in Rome.\n\nPaul Jones slept."
    answer = client.post("/v1/tag", {"documents": [whole, " ", ""]}).json()
    places = [list(place) for place in split_sentences(whole)]
    assert answer["results"][0] == ner.annotate([whole], sentences=True)[0].to_dict() | {"sentences": places}
    for text, one in zip((" ", ""), answer["results"][1:], strict=True):
        assert one == ner.annotate([text])[0].to_dict() | {"sentences": []}
    assert len(places) == 3


def test_tags_alone_are_the_predicted_ones(client: Client, ner: Any) -> None:
    answer = client.post("/v1/tag", {"tokens": [TOKENS], "probabilities": False}).json()
    assert answer["results"] == [{"tags": ner.predict([TOKENS])[0]}]


def test_spans_only(client: Client, ner: Any) -> None:
    for form in ("texts", "documents"):
        answer = client.post("/v1/tag", {form: [TEXT], "spans_only": True}).json()
        assert answer["results"] == [{"spans": ner(TEXT).to_records()}]


def test_the_k_best_labellings(client: Client, ner: Any) -> None:
    answer = client.post("/v1/tag", {"tokens": [TOKENS], "k_best": 3}).json()
    expected = [{"tags": one.tags, "probability": one.probability} for one in ner.kbest([TOKENS], 3)[0]]
    assert answer["results"][0]["k_best"] == expected


def test_known_labels_are_kept_and_condition_the_rest(client: Client, ner: Any) -> None:
    known = [[None, None, None, "B-LOC", None, ["B-PER", "B-LOC"], None, None]]
    answer = client.post("/v1/tag", {"tokens": [TOKENS], "known": known}).json()
    assert answer["results"][0] == ner.annotate([TOKENS], known=known)[0].to_dict()
    assert answer["results"][0]["tags"][3] == "B-LOC"
    assert client.post("/v1/tag", {"texts": [TEXT, TEXT], "known": [None, *known]}).status_code == 200


def test_a_lexicon_changes_the_distribution(client: Client, ner: Any) -> None:
    tokens = [["Quux", "met", "Zork"]]
    for strength in ("must", "prefer=3", 2.5):
        entry = {"surface": "Zork", "label": "LOC", "strength": strength}
        answer = client.post("/v1/tag", {"tokens": tokens, "lexicon": [entry]}).json()
        expected = ner.annotate(tokens, lexicon=Lexicon([("Zork", "LOC", strength)]))
        assert answer["results"] == [one.to_dict() for one in expected]
    must = client.post(
        "/v1/trellis", {"tokens": tokens[0], "lexicon": [{"surface": "Zork", "strength": "must"}]}
    ).json()
    assert must["trellis"][2][must["labels"].index("O")] == pytest.approx(0.0)


def test_another_model_by_name(client: Client, model_folders: Any) -> None:
    hmm = trellis.load(model_folders["hmm"])
    answer = client.post("/v1/tag", {"model": "hmm", "tokens": [TOKENS]}).json()
    assert (answer["model"], answer["results"]) == ("hmm", [hmm.annotate([TOKENS])[0].to_dict()])


def test_words_of_a_segmenter_end_at_white_space(client: Client, model_folders: Any) -> None:
    answer = client.post("/v1/tag", {"model": "seg", "texts": ["我喜 欢北京"]}).json()
    assert answer["results"][0] == trellis.load(model_folders["seg"])("我喜 欢北京").to_dict()


def test_no_inputs_are_no_results(client: Client) -> None:
    assert client.post("/v1/tag", {"texts": []}).json()["results"] == []
    assert [one["tokens"] for one in client.post("/v1/tag", {"documents": [" "]}).json()["results"]] == [[]]


def test_the_trellis_of_a_text(client: Client, ner: Any) -> None:
    answer = client.post("/v1/trellis", {"text": TEXT, "k_best": 2}).json()
    view = ner.trellis(TEXT, k=2)
    assert answer["trellis"] == [list(row) for row in view.probabilities]
    assert [path["tags"] for path in answer["paths"]] == [path.tags for path in view.paths]
    assert answer["entropy"] == pytest.approx(ner.posterior([TOKENS]).entropy()[0])


@pytest.mark.parametrize("model", ["ner", "hmm"])
def test_steps_add_up_to_the_labels_they_start_from(client: Client, model: str) -> None:
    answer = client.post("/v1/trellis", {"model": model, "tokens": TOKENS}).json()
    from_label = [[0.0] * len(answer["labels"]) for _ in TOKENS[:-1]]
    for t, i, _, p in answer["steps"]:
        from_label[t][i] += p
    for own, expected in zip(from_label, answer["trellis"], strict=False):
        assert own == pytest.approx(expected, abs=0.05)  # tiny steps are left out


def test_known_labels_change_the_trellis(client: Client) -> None:
    known = [None, None, None, "B-LOC", None, None, None, None]
    answer = client.post("/v1/trellis", {"tokens": TOKENS, "known": known}).json()
    assert answer["trellis"][3][answer["labels"].index("B-LOC")] == pytest.approx(1.0)


def test_reasons_are_those_of_the_model(client: Client, ner: Any) -> None:
    answer = client.post("/v1/explain", {"tokens": TOKENS, "positions": [3], "top": 2}).json()
    expected = ner.explain(TOKENS, 3)
    (reason,) = answer["why"]
    assert (reason["label"], reason["runner_up"]) == (expected.label, expected.runner_up)
    assert [one["name"] for one in reason["contributions"]] == [one.name for one in expected.contributions[:2]]


def test_every_token_is_explained_by_any_family(client: Client) -> None:
    for model in ("ner", "hmm"):
        answer = client.post("/v1/explain", {"model": model, "text": TEXT}).json()
        assert [reason["position"] for reason in answer["why"]] == list(range(len(TOKENS)))
    assert client.post("/v1/explain", {"text": ""}).json()["why"] == []


def test_the_models_are_listed_without_their_places(client: Client, model_folders: Any) -> None:
    response = client.get("/v1/models")
    found = response.json()["models"]
    assert [model["name"] for model in found] == ["ner", "hmm", "seg"]
    assert found[0]["kinds"] == ["LOC", "PER"]
    assert not any(str(path) in response.text or path.parent.name in response.text for path in model_folders.values())


def test_it_is_alive_and_ready(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready", "problems": {}}


def test_figures_count_requests_batches_and_tokens(client: Client) -> None:
    client.post("/v1/tag", {"tokens": [TOKENS]})
    client.post("/v1/tag", {"tokens": 1})
    text = client.get("/metrics").text
    assert 'trellis_requests_total{path="/v1/tag",status="200"} 1.0' in text
    assert 'trellis_requests_total{path="/v1/tag",status="422"} 1.0' in text
    assert "trellis_tokens_total 8.0" in text
    assert "Anna" not in text


def test_the_document_is_openapi_and_names_every_address(client: Client) -> None:
    found = client.get("/openapi.json").json()
    validate(found)
    page = client.http.get("/docs").text
    assert all(path in page for path in found["paths"])
    assert all(f'id="{name}"' in page for name in found["components"]["schemas"])


def test_lines_are_answered_in_their_order(client: Client, ner: Any) -> None:
    texts = [f"{'Paul ' * (i % 7)}met Anna {i} in Rome." for i in range(1200)]
    lines = [json.dumps({"text": text, "id": str(i)}) for i, text in enumerate(texts)]
    response = client.post(
        "/v1/tag?spans_only=true", content="\n".join(lines).encode(), headers={"content-type": "application/x-ndjson"}
    )
    found = [json.loads(line) for line in response.text.splitlines()]
    assert [one["id"] for one in found] == [str(i) for i in range(1200)]
    assert [one["spans"] for one in found] == [one.to_records() for one in ner.annotate(texts)]


def test_texts_and_token_lists_may_take_turns(client: Client, ner: Any, model_folders: Any) -> None:
    given = [[TEXT, TOKENS][i % 2] for i in range(20)]
    lines = [json.dumps({"text" if isinstance(item, str) else "tokens": item}) for item in given]
    content, headers = "\n".join(lines).encode(), {"content-type": "application/x-ndjson"}
    answers = client.post("/v1/tag", content=content, headers=headers).text.splitlines()
    assert [json.loads(line) for line in answers] == [one.to_dict() for one in ner.annotate(given)]
    mixed = b'{"text": "\xe6\x88\x91\xe5\x96\x9c \xe6\xac\xa2"}\n{"tokens": ["\xe6\x88\x91", "\xe5\x96\x9c"]}'
    answers = client.post("/v1/tag?model=seg", content=mixed, headers=headers).text.splitlines()
    expected = trellis.load(model_folders["seg"]).annotate(["我喜 欢", ["我", "喜"]])
    assert [json.loads(line) for line in answers] == [one.to_dict() for one in expected]


def test_a_bad_line_gets_an_error_in_its_place(client: Client, ner: Any) -> None:
    lines = [b'{"tokens": ["Paul"]}', b"", b"nonsense", b'{"text": 3}', b'{"text": "Rome", "k": 1}', b'{"tokens": []}']
    response = client.post(
        "/v1/tag?probabilities=false&k_best=2",
        content=b"\n".join(lines) + b"\n",
        headers={"content-type": "application/x-ndjson"},
    )
    found = [json.loads(line) for line in response.text.splitlines()]
    assert found[0]["tags"] == ner.predict([["Paul"]])[0]
    assert len(found[0]["k_best"]) == 2
    assert [one["error"]["code"] for one in found[1:4]] == ["malformed_json", "invalid_request", "invalid_request"]
    assert [one["error"]["input"] for one in found[1:4]] == [2, 3, 4]
    assert found[4]["tags"] == []


@pytest.mark.parametrize("wrong", [b'{"text": "a"}{"text": "b"}', b'{"text": "a"} {"text": "b"}', b'{"text":', b'"b"}'])
def test_a_line_is_one_object(client: Client, wrong: bytes) -> None:
    body = b'{"text": "Anna"}\n' + wrong + b'\n{"text": "Paul"}\n'
    response = client.post("/v1/tag", content=body, headers={"content-type": "application/x-ndjson"})
    first, error, last = [json.loads(line) for line in response.text.splitlines()]
    assert (first["text"], error["error"]["input"], last["text"]) == ("Anna", 1, "Paul")


def test_bad_options_of_lines_are_refused_before_the_first(client: Client) -> None:
    for query in (
        "k_best=x",
        "probabilities=maybe",
        "colour=red",
        "model=nonsense",
        "spans_only=true&probabilities=false",
        "k_best=1&k_best=2",
    ):
        response = client.post(f"/v1/tag?{query}", content=b"{}", headers={"content-type": "application/x-ndjson"})
        assert response.status_code in (404, 422), query


def test_a_query_is_for_lines_alone(client: Client) -> None:
    refused = client.post("/v1/tag?probabilities=false", {"texts": [TEXT]})
    assert (refused.status_code, "fields of its body" in refused.text) == (422, True)
