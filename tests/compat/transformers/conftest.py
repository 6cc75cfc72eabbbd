"""A tagger that all tests here share."""

import pytest

from trellis import CRF, demo


@pytest.fixture(scope="session")
def tagger() -> CRF:
    return CRF(max_iterations=30).fit(demo.english().train[:300])
