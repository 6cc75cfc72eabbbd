"""What `make wheel` refuses to leave in dist, and which wheel `make test-wheel` takes."""

import sys
from pathlib import Path

import pytest
from tools.matrix import base_tests
from tools.wheels import every_python, problem_of_names, pythons_at_hand, version_of, wheel_for

FINE = ["trellis/__init__.py", "trellis/_native.abi3.so", "trellis_crf-0.1.0.dist-info/licenses/LICENSE"]


def test_a_wheel_with_package_licence_and_native_module_is_fine() -> None:
    assert problem_of_names(FINE) is None


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (FINE[:2], "the licence is missing"),
        ([FINE[0], FINE[2]], "the native module is missing"),
        ([*FINE, "tests/conftest.py"], "tests/conftest.py does not belong there"),
    ],
)
def test_a_wheel_that_lacks_something_or_has_too_much_is_refused(names: list[str], problem: str) -> None:
    assert problem_of_names(names) == problem


def test_each_python_gets_its_wheel() -> None:
    own, stable = Path("x-cp311-cp311-linux.whl"), Path("x-cp312-abi3-linux.whl")
    assert wheel_for((3, 11), [own, stable]) == own
    assert wheel_for((3, 13), [own, stable]) == stable
    assert wheel_for((3, 12), [own]) is None


def test_the_version_of_a_python_is_asked_of_it() -> None:
    assert version_of(sys.executable) == sys.version_info[:2]


@pytest.mark.parametrize("command", ["no-such-python", "false"])
def test_what_is_not_a_python_is_one_line(command: str) -> None:
    with pytest.raises(SystemExit, match=f"{command} does not run as a Python"):
        version_of(command)


def test_the_matrix_leaves_out_what_needs_other_packages(tmp_path: Path) -> None:
    for name, text in {"test_a.py": "import numpy", "test_b.py": "import torch", "nn/test_c.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert base_tests(tmp_path) == [str(tmp_path / "test_a.py")]


@pytest.mark.parametrize(
    ("there", "expected"),
    [([], []), ([11], [11]), ([12, 13], [13]), ([11, 12, 13], [11, 13])],
)
def test_wheels_are_built_with_3_11_and_the_newest(
    monkeypatch: pytest.MonkeyPatch, there: list[int], expected: list[int]
) -> None:
    found = {(3, minor): f"python3.{minor}" for minor in there}
    monkeypatch.setattr("tools.wheels.every_python", lambda: found)
    assert pythons_at_hand() == [f"python3.{minor}" for minor in expected]


def test_pythons_are_those_on_the_path_and_of_pyenv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_pyenv = tmp_path / "versions" / "3.12.1" / "bin" / "python"
    of_pyenv.parent.mkdir(parents=True)
    of_pyenv.touch()
    versions = {"python3.11": (3, 11), "python3.13": (3, 13), str(of_pyenv): (3, 12)}
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr("tools.wheels.asked", lambda *name: name[0] if name and name[0] in versions else "")
    monkeypatch.setattr("tools.wheels.version_of", versions.__getitem__)
    assert every_python() == {(3, 11): "python3.11", (3, 12): str(of_pyenv), (3, 13): "python3.13"}
