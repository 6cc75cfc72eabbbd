"""Names that wait for the first who asks."""

import subprocess
import sys

import pytest

import trellis.metrics
from trellis.lazy import lazily


def test_a_name_is_found_in_its_home_and_another_is_an_attribute_error():
    find = lazily("trellis.metrics", {"prf": ("Score",)})
    assert find("Score") is trellis.metrics.prf.Score
    with pytest.raises(AttributeError, match=r"module 'trellis.metrics' has no attribute 'Skore'"):
        find("Skore")


def test_who_tags_loads_nothing_that_scores():
    code = "import sys, trellis.models; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    waiting = {
        "trellis.metrics.entities",
        "trellis.metrics.resampling",
        "trellis.models.crf.objective",
        "trellis.vectors",
    }
    assert "trellis.models.crf.model" in loaded
    assert not waiting & set(loaded)
