"""The format of transformers' pipeline, with what a tagger says in it."""

from pathlib import Path

import pytest
import torch
import transformers

from tests.nn.tiny import PIECES, wordpiece
from trellis import CRF, Sentence
from trellis.compat.transformers import TokenClassificationPipeline, pipeline
from trellis.errors import ConfigError, DataError

TEXT = "Maria Berg flew from Oslo to Lima."


def test_one_dict_per_token_of_a_name(tagger: CRF) -> None:
    tagged = tagger(TEXT)
    found = pipeline("token-classification", tagger)(TEXT)
    expected = [
        {"entity": tag, "score": score, "index": place + 1, "word": word, "start": start, "end": end}
        for place, (tag, score, word, (start, end)) in enumerate(
            zip(tagged.tags, tagged.probabilities, tagged.tokens, tagged.sentence.offsets or (), strict=True)
        )
        if tag != "O"
    ]
    assert found == expected
    assert len(found) >= 3
    assert all(TEXT[one["start"] : one["end"]] == one["word"] for one in found)


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_one_dict_per_span_with_its_exact_probability(tagger: CRF, strategy: str) -> None:
    found = pipeline("ner", model=tagger, aggregation_strategy=strategy)(TEXT)
    assert [list(one.values()) for one in found] == [
        [span.label, span.probability, span.text, span.start, span.end] for span in tagger(TEXT).spans
    ]
    assert [one["word"] for one in found] == ["Maria Berg", "Oslo", "Lima"]


def test_keys_and_shapes_are_those_of_transformers(tagger: CRF) -> None:
    """The same calls of a real pipeline over a tiny random network that finds something everywhere."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    config.id2label = {0: "B-X", 1: "I-X"}
    tokens = transformers.PreTrainedTokenizerFast(
        tokenizer_object=wordpiece(), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    theirs = transformers.pipeline(
        "token-classification", model=transformers.BertForTokenClassification(config), tokenizer=tokens, device="cpu"
    )
    ours = pipeline("token-classification", tagger, ignore_labels=[])
    for strategy in ("none", "simple"):
        for given in (TEXT, [TEXT, TEXT]):
            one, other = (run(given, aggregation_strategy=strategy) for run in (ours, theirs))
            if isinstance(given, list):
                assert len(one) == len(other) == 2
                one, other = one[0], other[0]
            assert set(one[0]) == set(other[0])
    assert ours(TEXT)[0]["index"] == theirs(TEXT)[0]["index"] == 1


def test_lists_and_iterators_are_tagged_in_batches(tagger: CRF) -> None:
    texts = [TEXT, "", "Nothing here .", "Lima"]
    run = TokenClassificationPipeline(tagger, aggregation_strategy="simple", batch_size=3)
    expected = [run(text) for text in texts]
    assert run(texts) == run(tuple(texts)) == expected
    streamed = run(text for text in texts)
    assert next(streamed) == expected[0]
    assert list(streamed) == expected[1:]
    assert run([]) == []
    sentence = Sentence(["Maria", "slept"])
    assert run(sentence) == run([sentence])[0]


def test_labels_can_be_kept_or_left_out(tagger: CRF) -> None:
    all_of_them = pipeline("ner", tagger, ignore_labels=[])(TEXT)
    assert [one["entity"] for one in all_of_them] == list(tagger(TEXT).tags)
    groups = {one["entity_group"] for one in pipeline("ner", tagger, aggregation_strategy="max")(TEXT)}
    left = pipeline("ner", tagger, aggregation_strategy="max", ignore_labels=["O", min(groups)])(TEXT)
    assert {one["entity_group"] for one in left} == groups - {min(groups)}


def test_a_model_in_a_file(tagger: CRF, tmp_path: Path) -> None:
    tagger.save(tmp_path / "model.safetensors")
    for place in (tmp_path, str(tmp_path / "model.safetensors")):
        assert pipeline("ner", model=place)(TEXT) == pipeline("ner", model=tagger)(TEXT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "nre"}, "task must be one of token-classification, ner, got 'nre'.*did you mean 'ner'"),
        ({"aggregation_strategy": "mean"}, "aggregation_strategy must be one of none, simple, first, average, max"),
        ({"ignore_labels": "O"}, "ignore_labels must be a list of labels, got the text 'O'"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ],
)
def test_what_is_not_known_is_refused(tagger: CRF, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pipeline(**({"task": "ner", "model": tagger} | options))  # type: ignore[arg-type]
    if "aggregation_strategy" in options:
        with pytest.raises(ConfigError, match=message):
            pipeline("ner", tagger)(TEXT, aggregation_strategy="mean")


@pytest.mark.parametrize("wrong", [None, 5, b"Anna", {"text": "Anna"}])
def test_what_is_no_text_is_named(tagger, wrong):
    with pytest.raises(DataError, match="expected a text, or texts in a list or another iterable, got"):
        pipeline("ner", model=tagger)(wrong)
