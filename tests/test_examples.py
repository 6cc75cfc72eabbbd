"""The run of the tests itself: the same examples and the same chance each time, whatever a test's own settings are."""

import importlib
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

VALUES = st.lists(st.one_of(st.integers(), st.floats(allow_nan=False), st.text()), min_size=20)


def drawn() -> list[object]:
    """What a test is given when it is run."""
    found: list[object] = []

    @given(VALUES)
    def test(value: object) -> None:
        found.append(value)

    test()
    return found


def test_examples_are_the_same_each_time() -> None:
    assert drawn() == drawn()


def test_a_module_that_was_imported_meanwhile_changes_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn()
    (tmp_path / "full_of_words.py").write_text("".join(f"x{i} = {-7919 * i}, 'word {i}'\n" for i in range(400)))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_words")
    assert drawn() == before
    del sys.modules["full_of_words"]


@settings(deadline=1, derandomize=not settings.default.derandomize, suppress_health_check=[HealthCheck.nested_given])
@given(st.none())
def test_settings_of_a_test_do_not_make_it_depend_on_luck(nothing: None) -> None:
    own = test_settings_of_a_test_do_not_make_it_depend_on_luck._hypothesis_internal_use_settings
    assert (own.deadline, own.database, own.derandomize) == (None, None, settings.default.derandomize)
    assert set(own.suppress_health_check) == {HealthCheck.nested_given, HealthCheck.too_slow}


def test_no_test_is_left_out_for_a_package_that_is_missing() -> None:
    """Then it would be left out unseen: the dev extra names what tests import."""
    word = "import" + "orskip"
    assert not [path for path in Path(__file__).parent.rglob("*.py") if word in path.read_text()]


@pytest.mark.parametrize("turn", ["first", "second"])
def test_chance_is_seeded_before_each_test(turn: str) -> None:
    chance = (random.random(), float(np.random.random()), float(torch.rand(())))
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    assert chance == (random.random(), float(np.random.random()), float(torch.rand(())))
