"""history.json and the picture of it: written for every family, and what is said of files that are not whole."""

import json

import pytest

from trellis.errors import StoreError
from trellis.training import History, Step, read_history
from trellis.training.history import CURVE, HISTORY, write_history
from trellis.untrusted import read_json

STEPS = tuple(Step(n, 3.0 / n, None, None, 0.5 * n, None) for n in (1, 2, 3))


def test_what_was_written_comes_back_with_a_picture(tmp_path):
    history = History(STEPS, "converged", 2)
    write_history(tmp_path, history)
    assert read_history(tmp_path) == history
    assert ">iteration<" in (tmp_path / CURVE).read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([HISTORY, CURVE])


def test_one_step_is_no_curve_and_an_older_one_does_not_stay(tmp_path):
    write_history(tmp_path, History(STEPS, "converged", 2))
    write_history(tmp_path, History(STEPS[:1], "converged", 0))
    assert not (tmp_path / CURVE).exists()


def test_a_loss_that_overflowed_does_not_spoil_the_picture(tmp_path):
    steps = (*STEPS, Step(4, float("inf"), None, None, 2.0, None), Step(5, float("nan"), None, None, 2.5, None))
    write_history(tmp_path, History(steps, "diverged", 2))
    assert "nan" not in (tmp_path / CURVE).read_text()


@pytest.mark.parametrize("text", ["{}", '{"steps": [{"loss": 1}], "reason": "x", "kept": 0}', "[]", "7"])
def test_a_broken_history_is_named(tmp_path, text):
    (tmp_path / HISTORY).write_text(text)
    with pytest.raises(StoreError, match=r"history\.json is not a training history"):
        read_history(tmp_path)


def test_what_is_not_json_is_named(tmp_path):
    (tmp_path / HISTORY).write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"history\.json cannot be read: expected JSON: it is nested too deeply"):
        read_history(tmp_path)


def test_a_missing_file_is_nothing(tmp_path):
    assert read_history(tmp_path / "nowhere") is None
    (tmp_path / "a.json").write_text(json.dumps({"a": "é"}))
    assert read_json(tmp_path / "a.json") == {"a": "é"}
    assert read_json(tmp_path / "a.json" / "b.json") is None
