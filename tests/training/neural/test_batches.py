"""Batches: every example once, the budget kept, the same seed the same batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trellis.training.neural.batches import batches_of, forecast
from trellis.training.neural.settings import TrainingSettings

LENGTHS = np.random.default_rng(0).geometric(0.06, 2000).astype(np.int64)


def plain(batches):
    return [batch.tolist() for batch in batches]


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 9), st.integers(1, 200), st.integers(0, 3))
def test_every_example_once_within_the_budget(lengths, size, tokens, epoch):
    lengths = np.array(lengths, dtype=np.int64)
    batches = batches_of(lengths, TrainingSettings(batch_size=size, batch_tokens=tokens), epoch)
    assert sorted(i for batch in plain(batches) for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= tokens


def test_a_pure_function_of_seed_and_epoch():
    settings = TrainingSettings(seed=5)
    first = plain(batches_of(LENGTHS, settings, 0))
    assert plain(batches_of(LENGTHS, settings, 0)) == first
    assert plain(batches_of(LENGTHS, settings, 1)) != first
    assert plain(batches_of(LENGTHS, TrainingSettings(seed=6), 0)) != first


def test_sentences_meet_others_in_another_epoch():
    settings = TrainingSettings()
    partners = []
    for epoch in range(2):
        batch = next(batch for batch in batches_of(LENGTHS, settings, epoch) if 7 in batch)
        partners.append(set(batch.tolist()) - {7})
    assert len(partners[0] & partners[1]) < len(partners[0]) / 2


def test_little_padding_and_no_order_by_length():
    batches = batches_of(LENGTHS, TrainingSettings(), 0)
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in batches)
    assert padded < 1.15 * LENGTHS.sum()
    longest = np.array([LENGTHS[batch].max() for batch in batches])
    rises = np.diff(longest) > 0
    assert 0.2 < rises.mean() < 0.8


def test_steps_are_counted_over_all_epochs():
    settings = TrainingSettings(epochs=3, accumulate=4, batch_tokens=300)
    steps = 0
    for epoch in range(3):
        steps += -(-len(batches_of(LENGTHS, settings, epoch)) // 4)
    assert forecast([LENGTHS], settings).steps == steps
