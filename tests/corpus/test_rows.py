"""Rows as Hugging Face datasets give them, without that library."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trellis.corpus import from_rows, to_rows
from trellis.errors import DataError
from trellis.text import Sentence


class Dataset:
    """What `datasets.Dataset` shows: it iterates over dicts and knows its features."""

    def __init__(self, rows: list[dict[str, Any]], **names: list[str]) -> None:
        self._rows = rows
        self.features = {
            "id": SimpleNamespace(dtype="string"),
            "tokens": SimpleNamespace(feature=SimpleNamespace(dtype="string")),
            **{field: SimpleNamespace(feature=SimpleNamespace(names=known)) for field, known in names.items()},
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


ROWS = [{"id": "0", "tokens": ["Ada", "wrote"], "pos_tags": [1, 0], "ner_tags": [1, 0]}]
NAMES = {"ner_tags": ["O", "B-PER"], "pos_tags": ["VBD", "NNP"]}


def test_ids_are_spelled_by_the_features() -> None:
    (sentence,) = from_rows(Dataset(ROWS, **NAMES))
    assert sentence == Sentence(["Ada", "wrote"], ["B-PER", "O"], columns={"pos_tags": ["NNP", "VBD"]})


def test_another_field_can_hold_the_tags() -> None:
    (sentence,) = from_rows(Dataset(ROWS, **NAMES), tags="pos_tags")
    assert sentence.tags == ("NNP", "VBD")


def test_names_can_be_given_and_arrays_will_do() -> None:
    rows = [{"words": np.array(["a", "b"]), "labels": np.array([1, 0])}]
    (sentence,) = from_rows(rows, tokens="words", names=["O", "X"])
    assert sentence == Sentence(["a", "b"], ["X", "O"])


def test_rows_without_tags_are_sentences_without_tags() -> None:
    (sentence,) = from_rows([{"tokens": ["a"]}])
    assert sentence == Sentence(["a"])


def test_written_rows_have_ids_if_names_are_given() -> None:
    sentences = [Sentence(["a", "b"], ["X", "O"])]
    assert list(to_rows(sentences)) == [{"tokens": ["a", "b"], "ner_tags": ["X", "O"]}]
    assert list(to_rows(sentences, tags="pos", names=["O", "X"])) == [{"tokens": ["a", "b"], "pos": [1, 0]}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a"], "ner_tags": [7]}, "row 1: expected ids 0 to 1 in 'ner_tags', found 7"),
        ({"tokens": ["a"], "ner_tags": [-100]}, "row 1: expected ids 0 to 1 in 'ner_tags', found -100"),
        ({"tokens": ["a"], "ner_tags": [0.5]}, "row 1: expected strings in 'ner_tags', found 0.5"),
        ({"tokens": ["a"], "ner_tags": [True]}, "row 1: expected strings in 'ner_tags', found True"),
        ({"tokens": ["a"], "ner_tags": []}, "row 1: expected as many 'ner_tags' as 'tokens', found 0 and 1"),
        ({"ner_tags": []}, "row 1: expected a field 'tokens', found 'ner_tags'; --tokens and --tags name others"),
        ({"tokens": ["a"], "pos": [3]}, None),
    ],
)
def test_a_bad_row_is_named(row: dict[str, Any], message: str | None) -> None:
    rows = Dataset([*ROWS, row], **NAMES)
    if message is None:
        assert len(list(from_rows(rows))) == 2
        return
    with pytest.raises(DataError) as caught:
        list(from_rows(rows))
    assert str(caught.value) == message


def test_a_tag_without_a_name_cannot_be_written_as_id() -> None:
    with pytest.raises(DataError, match=r"^sentence 'a': the tag 'Y' is not among the names O, X$"):
        list(to_rows([Sentence(["a"], ["Y"])], names=["O", "X"]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["tokens"], "row 0: expected a mapping from fields to lists, found ['tokens']"),
        ("tokens", "row 0: expected a mapping from fields to lists, found 'tokens'"),
        (None, "row 0: expected a mapping from fields to lists, found None"),
        ({"tokens": ["a"], "tags": [["O"]]}, "row 0: expected strings in 'tags', found ['O']"),
        ({"tokens": ["a"], "tags": np.array([[1]])}, "row 0: expected strings in 'tags', found array([1])"),
        (
            {"tokens": ["a"], "tags": np.array([["O"]])},
            "row 0: expected strings in 'tags', found array(['O'], dtype='<U1')",
        ),
        ({"tokens": ["a"], "tags": np.array(1)}, "row 0: expected a list in 'tags', found array(1)"),
        ({"tokens": np.array([["a"]])}, "row 0: expected strings in 'tokens', found array(['a'], dtype='<U1')"),
        ({"tokens": 3}, "row 0: expected a list in 'tokens', found 3"),
        ({"tokens": ["a"], "tags": [10**5000]}, "row 0: expected ids 0 to 1 in 'tags', found an integer of 16610 bits"),
    ],
)
def test_a_row_of_another_shape_is_named(row: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(from_rows([row], names=["O", "X"]))
    assert str(caught.value) == message


def test_rows_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match=r"^expected rows to iterate over, found 3$"):
        list(from_rows(3))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^expected rows, found a mapping of 'tokens': .*from_rows\(pandas"):
        list(from_rows({"tokens": ["a"]}))  # type: ignore[arg-type]


def test_whatever_has_the_methods_of_a_mapping_is_a_row() -> None:
    class Series:
        def __init__(self, **fields: Any) -> None:
            self.get, self.items, self._fields = fields.get, fields.items, fields

        def __getitem__(self, name: str) -> Any:
            return self._fields[name]

        def __iter__(self) -> Iterator[str]:
            return iter(self._fields)

        def __contains__(self, name: str) -> bool:
            return name in self._fields

    (sentence,) = from_rows([Series(tokens=["a"], tags=["O"])])  # type: ignore[list-item]
    assert sentence == Sentence(["a"], ["O"])
