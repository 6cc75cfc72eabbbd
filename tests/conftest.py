"""What all tests share."""

import os
from collections.abc import Iterator

import pytest

# The matrices of tests are tiny, and each worker of pytest-xdist has a core: torch's threads, here and in programs
# that tests start, would only wait for each other. It must be said before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from trellis.chain import runtime  # after that: it imports NumPy, whose threads are counted the same way

BEST = runtime.instruction_set()
# From the plainest up; a machine that has one has those before it.
ALL = ["baseline", "avx2", "avx512"]


@pytest.fixture(params=ALL[: ALL.index(BEST) + 1])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with the kernels of each instruction set; not for use with hypothesis."""
    runtime.use_instruction_set(request.param)
    yield request.param
    runtime.use_instruction_set(BEST)
