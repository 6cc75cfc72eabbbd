"""Settings: impossible values are refused, and which changes a resumed training bears."""

import math

import pytest

from trellis.config import from_toml, to_toml
from trellis.errors import ConfigError
from trellis.training.neural.settings import TrainingSettings


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


def test_what_a_resumed_training_may_change():
    same = TrainingSettings().identity()
    free = {"keep": 5, "checkpoint_every": 7, "patience": 2, "tensorboard": True, "keep_when_finished": True}
    assert TrainingSettings(**free, epochs=99).identity() == same
    other = TrainingSettings(learning_rate=1.0, seed=2).identity()
    assert {name for name in same if other[name] != same[name]} == {"learning_rate", "seed"}
