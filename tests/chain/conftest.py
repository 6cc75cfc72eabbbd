"""What the tests of the core share."""

from collections.abc import Iterator

import pytest

from trellis import chain


@pytest.fixture
def thread_count() -> Iterator[None]:
    """Put the number of threads back after the test."""
    count = chain.get_num_threads()
    yield
    chain.set_num_threads(count)
