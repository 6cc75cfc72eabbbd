"""Sentences to Hugging Face's datasets and back."""

import datasets
import pytest

from trellis import Sentence, corpus, demo
from trellis.compat.datasets import label_names, to_dataset
from trellis.errors import DataError


def test_sentences_come_back_from_a_dataset() -> None:
    sentences = demo.english().train[:50]
    dataset = to_dataset(sentences)
    label = dataset.features["ner_tags"].feature
    assert isinstance(label, datasets.ClassLabel)
    assert label.names == label_names(sentences)
    assert label.names[0] == "O"
    assert dataset[0]["ner_tags"] == [label.str2int(tag) for tag in sentences[0].tags or ()]
    assert list(corpus.from_rows(dataset)) == list(sentences)


@pytest.mark.parametrize("form", [None, "numpy", "stream"])
def test_text_offsets_columns_and_empty_sentences_stay(form: str | None) -> None:
    sentences = [
        Sentence((), (), "", (), {"pos": ()}),
        Sentence(["Ada", "left"], ["B-PER", "O"], "Ada left", [(0, 3), (4, 8)], {"pos": ["NNP", "VBD"]}),
    ]
    dataset = to_dataset(sentences, names=["B-PER", "O", "I-PER"])
    assert dataset[1]["ner_tags"] == [0, 1]
    if form == "numpy":
        dataset = dataset.remove_columns(["offsets", "text", "pos"]).with_format("numpy")
        assert [list(one.tags or ()) for one in corpus.from_rows(dataset)] == [[], ["B-PER", "O"]]
    else:
        assert list(corpus.from_rows(dataset if form is None else dataset.to_iterable_dataset())) == sentences


def test_without_tags_and_without_sentences() -> None:
    assert to_dataset([Sentence(["a"])]).column_names == ["tokens"]
    assert len(to_dataset([])) == 0
    assert to_dataset([], names=["O"], tags="labels").features["labels"].feature.names == ["O"]


def test_a_dataset_with_holes_is_refused() -> None:
    with pytest.raises(DataError, match="sentence 1: expected the fields tokens, ner_tags, found tokens"):
        to_dataset([Sentence(["a"], ["O"]), Sentence(["b"])])
    with pytest.raises(DataError, match="the tag 'X' is not among the names O"):
        to_dataset([Sentence(["a"], ["X"])], names=["O"])
