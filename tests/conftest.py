"""What all tests share."""

import os
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# The matrices of tests are tiny, and each worker of pytest-xdist has a core: torch's threads, here and in programs
# that tests start, would only wait for each other. It must be said before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # after that: its threads are counted the same way

from trellis import _native

# "fixed", the default of every run, tries the same examples each time; "fuzz" is what tests/fuzz.py explores with. In
# neither does anything depend on the speed of the machine, nor on what an earlier run left behind.
_STEADY = {"database": None, "deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", **_STEADY, derandomize=True)
settings.register_profile("fuzz", **_STEADY, derandomize=False, print_blob=True)
settings.load_profile("fixed")
# Hypothesis also tries numbers and words that it finds in the modules that happen to be imported: a test would see
# other examples after a change elsewhere, and in company of other tests.
providers._get_local_constants = Constants

BEST = _native.instruction_set()
# From the plainest up; a machine that has one has those before it.
ALL = ["baseline", "avx2", "avx512"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Settings of a test's own say how many examples it takes; what keeps a run steady is said by the profile alone."""
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            test = getattr(item.obj, "__func__", item.obj)
            test._hypothesis_internal_use_settings = _steady(test._hypothesis_internal_use_settings)


def _steady(own: settings) -> settings:
    profile = settings.default
    return settings(
        own,
        database=profile.database,
        deadline=profile.deadline,
        derandomize=profile.derandomize,
        suppress_health_check={*own.suppress_health_check, *profile.suppress_health_check},
    )


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Chance that a test does not seed itself is the same in each run, alone and in any company."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
        torch.set_warn_always(True)  # some warnings come once, in whichever test is the first


@pytest.fixture(params=ALL[: ALL.index(BEST) + 1])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with the kernels of each instruction set; not for use with hypothesis."""
    _native.use_instruction_set(request.param)
    yield request.param
    _native.use_instruction_set(BEST)
