"""tools/prerequisites.sh: which Python and compiler the first build takes, and the one line if there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "prerequisites.sh"
SHELL = shutil.which("sh") or "/bin/sh"


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder that is the whole search path."""
    return tmp_path


def add(commands: Path, name: str, lines: str) -> None:
    (commands / name).write_text(f"#!{SHELL}\n{lines}\n")
    (commands / name).chmod(0o755)


def python(commands: Path, name: str, minor: int, lacks: str = "") -> None:
    """What the script asks of a Python is answered by echo."""
    add(commands, name, f'echo "{minor} {lacks}"')


def run(commands: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(commands), **variables}
    return subprocess.run([SHELL, SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, "one line"
    return done.stderr


def test_the_newest_python_that_runs_is_taken(commands: Path) -> None:
    python(commands, "python3.9", 9)
    python(commands, "python3.11", 11)
    python(commands, "python3.12", 12)
    add(commands, "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    assert run(commands, "python").stdout == f"{commands}/python3.12\n"


def test_a_python_without_a_number_in_its_name_may_be_the_newest(commands: Path) -> None:
    python(commands, "python3.11", 11)
    python(commands, "python3", 14)
    assert run(commands, "python").stdout == f"{commands}/python3\n"


def test_an_older_python_that_can_build_is_taken_before_a_newer_one_that_cannot(commands: Path) -> None:
    python(commands, "python3.11", 11)
    python(commands, "python3.13", 13, lacks="venv")
    assert run(commands, "python").stdout == f"{commands}/python3.11\n"


@pytest.mark.parametrize("lacks", ["venv", "dev"])
def test_the_package_that_a_python_lacks_is_named(commands: Path, lacks: str) -> None:
    python(commands, "python3.12", 12, lacks)
    assert f"install python3.12-{lacks}" in refusal(run(commands, "python"))


def test_no_python_is_one_line_that_names_the_packages(commands: Path) -> None:
    add(commands, "python", "exit 0")  # one that is too old prints nothing
    message = refusal(run(commands, "python"))
    assert "there is no Python 3.11 or newer: install python3, python3-venv and python3-dev" in message


def test_the_python_that_was_asked_for_is_the_only_candidate(commands: Path) -> None:
    python(commands, "python3.13", 13)
    python(commands, "mine", 11)
    assert run(commands, "python", "mine").stdout == f"{commands}/mine\n"
    assert "PYTHON=absent is not a Python 3.11 or newer" in refusal(run(commands, "python", "absent"))


def test_a_real_python_answers_the_probe(commands: Path) -> None:
    done = run(commands, "python", sys.executable)
    found, lacks = done.stdout.strip(), done.stderr
    assert found == sys.executable or "install python3." in lacks


def test_any_of_the_usual_compilers_will_do(commands: Path) -> None:
    add(commands, "clang++", "exit 0")
    assert run(commands, "compiler").returncode == 0


def test_a_compiler_that_does_not_work_is_none(commands: Path) -> None:
    add(commands, "c++", "exit 1")
    assert "there is no C++ compiler (c++, g++ or clang++): install g++" in refusal(run(commands, "compiler"))


def test_cxx_is_the_only_candidate_and_may_have_arguments(commands: Path) -> None:
    add(commands, "c++", "exit 0")
    add(commands, "launcher", '[ "$1" = compiler ]')
    assert run(commands, "compiler", CXX="launcher compiler").returncode == 0
    assert "CXX=absent does not compile C++17" in refusal(run(commands, "compiler", CXX="absent"))


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make` reads, without sources."""
    place = tmp_path_factory.mktemp("clone")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(SCRIPT.parents[1] / name, place)
    shutil.copytree(SCRIPT.parent, place / "tools")
    (place / "native").mkdir()
    (place / "src").mkdir()
    return place


def make_demo(clone: Path, commands: Path) -> str:
    """What `make demo` says when it fails with nothing but the tools of make on the path."""
    for name in ("make", "sh", "find", "sort", "mkdir", "cmp", "mv", "rm", "cat", "touch", "echo"):
        found = shutil.which(name)
        if found:
            os.symlink(found, commands / name)
    done = subprocess.run(
        ["make", "demo"], cwd=clone, env={"PATH": str(commands)}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    own = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(own) == 1, own
    return own[0]


def test_make_demo_without_a_python_names_the_packages_and_leaves_no_environment(clone: Path, commands: Path) -> None:
    line = make_demo(clone, commands)
    assert line.startswith("trellis: there is no Python 3.11 or newer: install python3, python3-venv and python3-dev")
    assert not (clone / ".venv").exists()


def test_make_demo_without_a_compiler_names_the_package_and_installs_nothing(clone: Path, commands: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    add(clone / ".venv" / "bin", "python", "echo 'pip was called' >&2; exit 1")
    assert make_demo(clone, commands) == ("trellis: there is no C++ compiler (c++, g++ or clang++): install g++")


def test_a_browser_that_is_there_is_taken_and_nothing_installed(commands: Path) -> None:
    add(commands, "chromium-browser", "exit 0")
    assert run(commands, "browser").stdout == f"{commands}/chromium-browser\n"
    add(commands, "mine", "exit 0")
    assert run(commands, "browser", TRELLIS_CHROMIUM="mine").stdout == f"{commands}/mine\n"


def test_without_a_browser_who_is_not_root_is_told_what_to_install(commands: Path) -> None:
    add(commands, "id", "echo 1000")
    add(commands, "apt-get", "echo must not be called; exit 1")
    assert "install chromium" in refusal(run(commands, "browser"))


def test_root_gets_a_browser_installed_after_a_look_for_packages(commands: Path) -> None:
    add(commands, "id", "echo 0")
    add(commands, "chmod", f'exec {shutil.which("chmod")} "$@"')
    lines = f"""case "$1" in
update) : > {commands}/updated ;;
install) [ -e {commands}/updated ] && : > {commands}/chromium && chmod 755 {commands}/chromium ;;
esac"""
    add(commands, "apt-get", lines)
    assert run(commands, "browser").stdout == f"{commands}/chromium\n"
    (commands / "chromium").unlink()
    add(commands, "apt-get", "exit 100")
    assert "could not install" in refusal(run(commands, "browser"))
