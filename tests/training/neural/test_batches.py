"""Batches: every example once, the budget kept, the same seed the same batches; settings that are refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.config import from_toml, to_toml
from trellis.errors import ConfigError
from trellis.training.neural import TrainingSettings
from trellis.training.neural.batches import batches_of, forecast

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


@pytest.mark.parametrize(("sentences", "size"), [(5, 5), (100, 8), (512, 16), (1024, 32), (2000, 32)])
def test_small_corpora_have_small_batches_by_default(sentences, size):
    assert max(map(len, batches_of(np.full(sentences, 3), TrainingSettings(), 0))) == size


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


def test_they_survive_toml():
    settings = TrainingSettings(optimizer="sgd", clip=1.5, patience=3, tensorboard="runs")
    assert from_toml(TrainingSettings, to_toml(settings)) == settings


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("learning_rate", 0.0, "a number above 0"),
        ("learning_rate", math.nan, "a number above 0"),
        ("head_learning_rate", -1.0, "a number above 0"),
        ("clip", 0.0, "a number above 0"),
        ("weight_decay", -0.1, "a number of at least 0"),
        ("warmup", -1.0, "a number of at least 0"),
        ("seed", -1, "a number of at least 0"),
        ("epochs", 0, "at least 1"),
        ("batch_size", 0, "at least 1"),
        ("batch_tokens", 0, "at least 1"),
        ("accumulate", 0, "at least 1"),
        ("keep", 0, "at least 1"),
        ("patience", 0, "at least 1"),
        ("plateau_patience", 0, "at least 1"),
        ("averaging_start", 0, "at least 1"),
        ("checkpoint_every", 0, "at least 1"),
        ("momentum", 1.0, "at least 0 and below 1"),
        ("ema_decay", 1.0, "at least 0 and below 1"),
        ("plateau_factor", 1.0, "above 0 and below 1"),
    ],
)
def test_impossible_values_are_named(name, value, expected):
    with pytest.raises(ConfigError, match=f"^{name} must be {expected}, got {value!r}$"):
        TrainingSettings(**{name: value})
