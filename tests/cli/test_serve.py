"""What `trellis serve` refuses before it serves; the rest is in tests/server."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected model folders or --demo, got none"),
        (("a", "--demo"), "expected model folders or --demo, got both"),
        (("x=a", "x=b"), "two models are called 'x'"),
        (("a", "a"), "two models are called 'a'"),
        (("=a",), "expected NAME=DIR, got '=a'"),
        (("a=",), "expected NAME=DIR, got 'a='"),
        (("model", "--workers", "0"), "--workers"),
        (("model", "--keys", "nothing.txt"), "the keys in nothing.txt cannot be read"),
    ],
)
def test_usage(shell: Shell, here: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = shell("serve", *arguments)
    assert ran.code == 2
    assert message in ran.err.replace("\n", " ")


def test_without_the_extra_it_says_what_to_install(shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("trellis.server")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ["starlette", *(name for name in sys.modules if name.startswith("starlette."))]:
        monkeypatch.setitem(sys.modules, name, None)
    ran = shell("serve", "model")
    assert ran.code == 2
    assert ran.err.startswith("trellis: trellis serve needs starlette")
    assert ran.err.endswith(": pip install 'trellis-crf[serve]'\n")


def test_figures_of_processes_need_a_folder(shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "nowhere")
    ran = shell("serve", "model")
    assert (ran.code, ran.err) == (2, "trellis: PROMETHEUS_MULTIPROC_DIR must name a folder, got nowhere\n")


def test_a_folder_may_have_an_equals_sign_in_its_name(shell: Shell, here: Path) -> None:
    (here / "c2=0.1").mkdir()
    ran = shell("serve", "c2=0.1")
    assert "the folder c2=0.1 holds no model" in ran.err


def test_a_model_that_is_not_there(shell: Shell, here: Path) -> None:
    ran = shell("serve", "nothing")
    assert (ran.code, "nothing" in ran.err) == (1, True)
