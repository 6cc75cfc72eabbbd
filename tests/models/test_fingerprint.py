"""Fingerprints: the same for the same data however it is written, another for whatever a training would notice."""

import numpy as np
import pytest

from trellis.models.data import Labelled
from trellis.models.folder import array_fingerprint, data_fingerprint
from trellis.text import Sentence

DATA = [Sentence(["ab", "c"], ["O", "X"], columns={"pos": ["N", "V"]}), Sentence(["d"], ["O"], columns={"pos": ["N"]})]


def of(sentences, labels=None):
    return data_fingerprint(Labelled.of(sentences, labels))


def test_it_says_how_much_there_is():
    assert of(DATA).startswith("2 sentences, 3 tokens, ")


@pytest.mark.parametrize(
    "other",
    [
        [Sentence(["a", "bc"], ["O", "X"], columns={"pos": ["N", "V"]}), DATA[1]],  # the same characters
        [Sentence(["ab", "c"], ["X", "O"], columns={"pos": ["N", "V"]}), DATA[1]],
        [Sentence(["ab", "c"], ["O", "X"], columns={"pos": ["V", "N"]}), DATA[1]],
        [Sentence(["ab", "c"], ["O", "X"], columns={"lemma": ["N", "V"]}), DATA[1]],
        DATA[::-1],
    ],
)
def test_whatever_changes_is_seen(other):
    assert of(other) != of(DATA)
    assert of(other).split(",")[:2] == of(DATA).split(",")[:2]


def test_where_sentences_came_from_does_not_matter():
    assert of([Sentence(s.tokens, s.tags, columns=s.columns, path="f", lines=(1,)) for s in DATA]) == of(DATA)


def test_labels_known_in_part():
    tokens = [["a", "b"]]
    seen = {of(tokens, [labels]) for labels in (["X", "Y"], ["X", None], [None, "Y"], ["X", {"X", "Y"}], ["X", ["Y"]])}
    assert len(seen) == 5
    assert of(tokens, [["X", {"X", "Y"}]]) == of(tokens, [("X", ["Y", "X"])])


def test_inputs_of_any_kind():
    assert of([[1, 2]], [["X", "Y"]]) != of([[1, 3]], [["X", "Y"]])
    assert of([np.array([1, 2])], [["X", "Y"]]) == of([np.array([1, 2])], [["X", "Y"]])
    assert of([["\udc80"]], [["X"]]) != of([["\udc81"]], [["X"]])
    assert of([[{"w": 1.0}]], [["X"]]) != of([[{"w": 2.0}]], [["X"]])


def test_arrays_with_their_names_types_and_shapes():
    base = np.arange(4.0)
    seen = [{"a": base}, {"b": base}, {"a": base.reshape(2, 2)}, {"a": base.view(np.int64)}, {"a": base + 1}, {}]
    assert len({array_fingerprint(arrays) for arrays in seen}) == 6
