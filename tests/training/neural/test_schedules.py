"""Schedules against their closed forms, and the plateau as a small machine."""

import math

import pytest

from trellis.training.neural.optimizer import Plateau, Schedule, warmup_steps
from trellis.training.neural.settings import TrainingSettings


def factors(kind, warmup, total):
    schedule = Schedule(TrainingSettings(schedule=kind, warmup=warmup), total)
    return [schedule.factor(step) for step in range(total)]


def test_constant_with_and_without_warm_up():
    assert factors("constant", 0.0, 3) == [1, 1, 1]
    assert factors("constant", 4.0, 6) == [0.25, 0.5, 0.75, 1, 1, 1]
    assert factors("constant", 0.5, 4) == [0.5, 1, 1, 1]


def test_linear_reaches_zero_one_step_after_the_last():
    assert factors("linear", 0.0, 4) == [1, 0.75, 0.5, 0.25]
    assert factors("linear", 2.0, 6) == [0.5, 1, 1, 0.75, 0.5, 0.25]
    assert Schedule(TrainingSettings(schedule="linear", warmup=0.0), 4).factor(4) == 0


def test_cosine_is_half_a_wave():
    expected = [(1 + math.cos(math.pi * k / 10)) / 2 for k in range(10)]
    assert factors("cosine", 0.0, 10) == pytest.approx(expected, abs=1e-15)
    assert factors("cosine", 2.0, 12)[2:] == pytest.approx(expected, abs=1e-15)


def test_a_warm_up_longer_than_the_training():
    assert factors("linear", 8.0, 2) == [1 / 8, 2 / 8]


def test_warm_up_as_a_share_or_a_number():
    assert [warmup_steps(w, 50) for w in (0.0, 0.1, 1.0, 7.0, 100.0)] == [0, 5, 1, 7, 100]


def test_the_plateau_waits_lowers_and_waits_again():
    plateau = Plateau(shrink=0.5, patience=2)
    seen = []
    for score in (0.1, 0.2, 0.2, 0.1, 0.1, 0.15, 0.3, 0.3, 0.4, 0.4, 0.4):
        plateau.epoch(score)
        seen.append(plateau.factor)
    #       0.1  0.2  -    -    -    -     0.3   -     0.4   -     -
    assert seen == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.125]


def test_the_plateau_goes_by_dev_or_else_by_loss_and_can_be_taken_up_again():
    settings = TrainingSettings(schedule="plateau", plateau_patience=1, warmup=0.0)
    schedule = Schedule(settings, 10)
    schedule.epoch(None, 5.0)
    schedule.epoch(None, 4.0)
    assert schedule.factor(3) == 1
    other = Schedule(settings, 10)
    other.restore(schedule.state())
    other.epoch(None, 4.5)
    assert other.factor(4) == 0.5
    by_dev = Schedule(settings, 10)
    by_dev.epoch(0.3, 5.0)
    by_dev.epoch(0.2, 4.0)
    assert by_dev.factor(2) == 0.5
