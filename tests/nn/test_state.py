"""Networks without weights: stopped at absurd numbers of them, and compared with the arrays of a file."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from trellis.errors import StoreError
from trellis.nn.state import blueprint, check_state
from trellis.store import Stored


def linear(size: int) -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(size, size)


def test_what_is_planned_takes_no_memory() -> None:
    planned = blueprint(lambda: linear(10**8), 2, "file")
    assert {parameter.device.type for parameter in planned.parameters()} == {"meta"}


def test_it_is_stopped_at_more_weights_than_the_file_could_have() -> None:
    made = []

    def make() -> nn.Module:
        made.extend(linear(1) for _ in range(10**6))
        return nn.ModuleList(made)

    with pytest.raises(StoreError, match="file: the saved settings describe more than 72 weights"):
        blueprint(make, 2, "file")
    assert len(made) < 100
    linear(1)  # and nobody is stopped afterwards


def test_other_threads_are_not_counted() -> None:
    def make() -> nn.Module:
        others = [threading.Thread(target=lambda: [linear(1) for _ in range(100)]) for _ in range(2)]
        for thread in others:
            thread.start()
            thread.join()
        return linear(1)

    blueprint(make, 2, "file")


@pytest.mark.parametrize("size", [10**30, -1, 2**62])
def test_sizes_that_torch_cannot_count_are_our_error(size: int) -> None:
    with pytest.raises(StoreError, match="file: the saved settings describe no network: "):
        blueprint(lambda: linear(size), 2, "file")


def test_the_arrays_must_be_those_of_the_network_and_no_others() -> None:
    state = linear(2).state_dict() | {"left.out": torch.zeros(3), "count": torch.zeros((), dtype=torch.int64)}
    arrays = {"w.weight": np.ones((2, 2), np.float32), "w.bias": np.ones(2, np.float32), "w.count": np.array([1])}
    check_state(state, Stored.of("file", "x", {}, arrays | {"other": np.ones(1)}), "w.", left_out="left.")
    for change, problem in [
        ({"w.bias": np.ones(3, np.float32)}, r"the array 'w.bias' must have the shape \(2\), got \(3\)"),
        ({"w.bias": np.ones(2)}, "the array 'w.bias' must be float32, got float64"),
        ({"w.bias": np.array([1, np.inf], np.float32)}, r"the array 'w.bias' must be finite, got inf at \[1\]"),
        ({"w.more": np.ones(2, np.float32)}, "the array 'w.more' has no place in the network"),
        ({"w.count": np.ones(1)}, "the array 'w.count' must be int64, got float64"),
    ]:
        with pytest.raises(StoreError, match=problem):
            check_state(state, Stored.of("file", "x", {}, arrays | change), "w.", left_out="left.")
    infinite = arrays | {"w.bias": np.array([1, -np.inf], np.float32)}
    check_state(state, Stored.of("file", "x", {}, infinite), "w.", left_out="left.", finite=False)
    del arrays["w.bias"]
    with pytest.raises(StoreError, match=r"the array 'w.bias' is missing: expected float32 of shape \(2\)"):
        check_state(state, Stored.of("file", "x", {}, arrays), "w.", left_out="left.")
