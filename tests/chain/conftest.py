"""What the tests of the core share."""

from collections.abc import Iterator

import pytest

from trellis.chain import runtime


@pytest.fixture
def thread_count() -> Iterator[None]:
    """Put the number of threads back after the test."""
    count = runtime.get_num_threads()
    yield
    runtime.set_num_threads(count)
