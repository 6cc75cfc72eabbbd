"""The instruction sets of this machine, as a fixture."""

from collections.abc import Iterator

import pytest

from trellis.chain import runtime

BEST = runtime.instruction_set()
# From the plainest up; a machine that has one has those before it.
ALL = ["baseline", "avx2", "avx512"]


@pytest.fixture(params=ALL[: ALL.index(BEST) + 1])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with the kernels of each instruction set; not for use with hypothesis."""
    runtime.use_instruction_set(request.param)
    yield request.param
    runtime.use_instruction_set(BEST)


@pytest.fixture
def thread_count() -> Iterator[None]:
    """Put the number of threads back after the test."""
    count = runtime.get_num_threads()
    yield
    runtime.set_num_threads(count)
