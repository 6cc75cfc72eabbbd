"""How threads wait is set before torch loads, unless the environment says something already."""

import os

import pytest

from trellis.cli import wait_asleep

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setitem(os.environ, name, "")  # put back afterwards, whatever is written meanwhile
        monkeypatch.delitem(os.environ, name)


def test_threads_that_wait_go_to_sleep_soon():
    wait_asleep()
    assert int(os.environ["GOMP_SPINCOUNT"]) < 300_000
    assert os.environ["KMP_BLOCKTIME"] == "0"


@pytest.mark.parametrize("name", NAMES)
def test_what_the_environment_says_stays(name, monkeypatch):
    monkeypatch.setenv(name, "active")
    wait_asleep()
    assert [other for other in NAMES if other in os.environ] == [name]
