"""Fuzzing explores, says what it did, and finds what it should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.conftest import pytest_collection_modifyitems  # and the profiles"
TESTS = """
import os, time
from hypothesis import given, settings, strategies as st

@given(st.integers(0, 10**6))
def test_sound(n):
    assert n >= 0

@settings(max_examples=20, derandomize=True)
@given(st.integers(0, 10**6))
def test_own(n):
    {body}

def test_without_examples():
    raise AssertionError("not fuzzed")
"""


def fuzz(folder: Path, body: str, *options: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_them.py").write_text(TESTS.format(body=body))
    command = [sys.executable, "-m", "tests.fuzz", "--workers", "1", "--first", *options, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_failure_comes_with_its_example_and_how_to_run_it_again(tmp_path: Path) -> None:
    code, out = fuzz(tmp_path, "assert n < 999_000", "--seconds", "3000")
    assert code == 1
    assert re.search(r"test_own\(\s+E? +n=999_?000,", out)
    assert "round with seed " in out
    again = re.search(r"again: PYTHONHASHSEED=(\d+) pytest (--.*) --hypothesis-seed=(\d+) '(.*)'\n", out)
    assert again is not None
    hashing, profile, seed, test = again.groups()
    command = ["env", f"PYTHONHASHSEED={hashing}", sys.executable, "-m", "pytest", profile, f"--hypothesis-seed={seed}"]
    same = subprocess.run([*command, str(tmp_path / test.rpartition("/")[2])], cwd=ROOT, capture_output=True, text=True)
    assert same.returncode == 1, "the seed does not give the failure again"


def test_so_does_a_crash(tmp_path: Path) -> None:
    code, out = fuzz(tmp_path, "os.abort() if n > 500_000 else None", "--seconds", "3000")
    assert code == 1
    assert re.search(r"FAILED .*::test_own\n", out)
    assert "Fatal Python error: Aborted" in out
    assert "the process ended with code -6" in out


def test_tests_that_cannot_be_collected_are_a_failure(tmp_path: Path) -> None:
    code, out = fuzz(tmp_path, "}", "--seconds", "3000")
    assert code == 1
    assert "SyntaxError" in out


@pytest.mark.parametrize("body", ["pass", "time.sleep(10_000)"])
def test_the_budget_ends_it_whatever_runs(tmp_path: Path, body: str) -> None:
    code, out = fuzz(tmp_path, body, "--seconds", "12", "--seed", "7")
    assert code == 0
    assert "fuzzing for 12 s with 1 workers from seed 7" in out
    assert re.search(r"\n0 failed; \d tests, \d+ rounds, \d+ runs, [\d,]+ examples in \d+ s\n", out)
    assert "without_examples" not in out
