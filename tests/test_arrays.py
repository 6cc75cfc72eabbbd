"""The door to the native code: what may pass, what is copied, and what is refused behind it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.misaligned import misaligned, misaligned_tensor
from trellis import HMM, _native, store
from trellis.arrays import plain_array, plain_tensor
from trellis.errors import ShapeError
from trellis.models.hmm.estimation import HMMObjective
from trellis.models.hmm.probabilities import Probabilities
from trellis.tags import AllowedTransitions
from trellis.text import Sentence

LEGAL = AllowedTransitions(np.ones((2, 2), bool), np.ones(2, bool), np.ones(2, bool))


def test_what_is_fine_is_not_copied() -> None:
    array, tensor = np.ones((2, 3)), torch.ones(2, 3)
    assert plain_array(array) is array
    assert plain_array(array, np.float64) is array
    assert plain_tensor(tensor, torch.float32) is tensor
    assert plain_array(np.empty(0)).shape == (0,)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint16, np.bool_])
def test_everything_else_is(kind: type) -> None:
    values = np.arange(6).reshape(2, 3).astype(kind)
    for given in (misaligned(values), np.asfortranarray(values), np.repeat(values, 2, axis=1)[:, ::2], values.tolist()):
        found = plain_array(given, kind)
        assert found.flags.aligned
        assert found.flags.c_contiguous
        assert np.array_equal(found, values)


def test_an_imaginary_part_is_not_lost_but_refused() -> None:
    with pytest.raises(ShapeError, match="expected an array of real numbers, got one of complex128"):
        plain_array(np.ones(3) * 1j, np.float64)


def test_gradients_pass_through_the_copy() -> None:
    tensor = misaligned_tensor(torch.ones(3, requires_grad=True))
    (2 * plain_tensor(tensor)).sum().backward()
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [2, 2, 2]


def test_arrays_of_a_file_are_aligned_wherever_they_lie_in_it(tmp_path: Path) -> None:
    whole, shifted = tmp_path / "whole", tmp_path / "shifted"
    store.save(whole, "thing", {}, {"x": np.arange(5.0), "y": np.arange(3, dtype=np.uint16)})
    data = whole.read_bytes()
    length = int.from_bytes(data[:8], "little")
    shifted.write_bytes((length + 1).to_bytes(8, "little") + data[8 : 8 + length] + b" " + data[8 + length :])
    arrays = store.load(shifted).arrays
    assert all(array.flags.aligned for array in arrays.values())
    assert arrays["x"].tolist() == [0, 1, 2, 3, 4]


def test_expectations_of_symbols_anywhere() -> None:
    p = Probabilities.random(2, 3, np.random.default_rng(0), LEGAL)
    symbols, lengths, weights = np.array([0, 1, 2, 2, 1]), np.array([3, 2]), np.array([1.0, 0.5])

    def counts(put: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        own = HMMObjective(put(symbols), put(lengths), 2, 3, weights=put(weights), allowed=put(np.ones((5, 2), bool)))
        return own.expected_counts(p)[1].flat()

    assert np.array_equal(counts(misaligned), counts(np.asarray))


def test_weights_of_sentences_anywhere() -> None:
    train = [Sentence(["a", "b"], ["X", "Y"]), Sentence(["b"], ["Y"])]
    weights = np.array([1.0, 0.5])
    one, two = (HMM().fit(train, sentence_weights=own) for own in (weights, misaligned(weights)))
    assert one.predict([["a", "b"]]) == two.predict([["a", "b"]])


ODD = np.zeros(64).ctypes.data + 1
REFUSED: dict[str, Callable[[], object]] = {
    "an array": lambda: _native.layout_of_lengths(misaligned([1, 2]), 2, 3),
    "an address": lambda: _native.layout_of_lengths(ODD, 2, 3),
    "an array of vectors": lambda: _native.dot(misaligned(np.ones(3)), np.ones(3)),
    "weights": lambda: _native.Weights(np.ones(1, np.int64), misaligned(np.ones(1, np.uint16)), np.ones(1), 2),
    "of an LSTM": lambda: _native.lstm_forward(True, np.array([1]), 1, 1, False, ODD, 0, ODD, ODD, ODD),
    "of characters": lambda: _native.spelling_forward(True, ODD, 1, 1, ODD, 1, 1, 1, ODD, ODD),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_comes_by_another_way_is_refused(what: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"aligned|incompatible function arguments"):
        REFUSED[what]()


def test_so_is_what_would_have_to_be_converted() -> None:
    layout = _native.layout_of_lengths(np.array([1]), 1, 1)
    with pytest.raises(TypeError, match="not of the type and order"):
        _native.InferenceFloat32(layout, np.zeros((1, 2)), np.zeros((2, 2)), np.zeros(2), np.zeros(2), 2, 0)
