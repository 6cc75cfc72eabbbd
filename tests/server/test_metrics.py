"""Figures: many at a time are those of each."""

import re

from hypothesis import given
from hypothesis import strategies as st

from trellis.server.metrics import Metrics

SECONDS = st.sampled_from([0.0, 0.001, 0.0011, 0.5, 30.0, 31.0]) | st.floats(0, 100)


def figures(metrics: Metrics) -> list[tuple[str, float]]:
    """Names and values, but not the times when counters began."""
    lines = [line for line in metrics.text().decode().splitlines() if not re.match("#|.*_created", line)]
    return [(line.rpartition(" ")[0], round(float(line.rpartition(" ")[2]), 6)) for line in lines]


@given(st.lists(SECONDS, min_size=1, max_size=20))
def test_requests_counted_together_are_counted_one_by_one(seconds: list[float]) -> None:
    one_by_one, together = Metrics(), Metrics()
    for own in seconds:
        one_by_one.request("/v1/tag", 200, own)
    together.request("/v1/tag", 200, *seconds)
    assert figures(together) == figures(one_by_one)
    assert ('trellis_requests_total{path="/v1/tag",status="200"}', len(seconds)) in figures(together)
