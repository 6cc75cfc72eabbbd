"""Sums over leaves are the same, to the last bit, however many processes share them."""

import math
from collections import Counter

import numpy as np
import pytest

from trellis.errors import ModelError
from trellis.training.leaves import Node, computed, leaves_of, numbers_of, own_nodes, own_places, passes, total_of
from trellis.training.processes import ALONE


class Terms:
    """Numbers of very different size, whose sum depends on the order."""

    def __init__(self, count: int) -> None:
        random = np.random.default_rng(5)
        self.count = count
        self._values = random.normal(size=(count, 20)) * 10.0 ** random.integers(-8, 8, size=(count, 20))

    def evaluate(self, leaf: int, weights: np.ndarray, out: np.ndarray) -> float:
        out[:] = self._values[leaf] + weights
        return float(self._values[leaf, 0])


@pytest.mark.parametrize("count", [1, 2, 8, 16])
def test_any_number_of_processes_gives_the_same_bits(count):
    terms, weights, alone = Terms(count), np.ones(20), np.empty(20)
    loss = ALONE.total(weights, alone, terms)
    assert alone == pytest.approx(terms._values.sum(axis=0) + count)
    for processes in range(1, count + 1):
        held = [
            {node: computed(terms, node, weights, []) for node in own_nodes(own_places(rank, processes, count), count)}
            for rank in range(processes)
        ]
        for one in passes(processes, count):
            assert list(held[one.sender]) == one.sent
            both = held[one.receiver] | held[one.sender]
            held[one.receiver] = {node: total_of(node, both.get, []) for node in one.kept}
            held[one.sender] = {}
        assert [list(own) for own in held] == [[Node(0, count)], *([] for _ in range(processes - 1))]
        total = held[0][Node(0, count)]
        assert (total.loss, total.out.tolist()) == (loss, alone.tolist())


@pytest.mark.parametrize("processes", [1, 2, 3, 5, 8, 13, 64])
def test_each_process_sends_once_and_none_gets_the_sums_of_many(processes):
    found = list(passes(processes, 64))
    assert sorted(one.sender for one in found) == list(range(1, processes))
    got = Counter(one.receiver for one in found)
    assert got[0] == max(got.values(), default=0) == math.ceil(math.log2(processes))
    for number, one in enumerate(found):
        assert one.sender not in {later.receiver for later in found[number:]}


@pytest.mark.parametrize("processes", range(1, 9))
def test_each_leaf_has_one_process_and_each_sentence_its_number(processes):
    own = [leaves_of(rank, processes, 8) for rank in range(processes)]
    assert sorted(leaf for leaves in own for leaf in leaves) == list(range(8))
    sentences = [[i for i in range(53) if i % 8 in leaves] for leaves in own]
    for leaves, numbers in zip(own, sentences, strict=True):
        assert numbers_of(leaves, 8, len(numbers)).tolist() == numbers


def test_powers_of_two_have_every_so_many_sentences():
    for processes in (1, 2, 4, 8):
        assert [sorted(leaves_of(rank, processes, 8)) for rank in range(processes)] == [
            list(range(rank, 8, processes)) for rank in range(processes)
        ]


def test_two_processes_send_one_sum_each():
    assert [list(own_nodes(own_places(rank, 2, 8), 8)) for rank in range(2)] == [[Node(0, 4)], [Node(4, 8)]]


def test_more_processes_than_parts_are_refused():
    with pytest.raises(ModelError, match="parts = 2 cannot be shared by 3 processes"):
        leaves_of(0, 3, 2)
