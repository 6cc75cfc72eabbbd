"""Model files that anybody may have made: an error of ours, or a model that answers, and never a crash.

More examples: ``HOSTILE_FILES=5000 pytest tests/models/test_hostile_files.py`` tries so many of each family.
"""

import json
import os
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.hostile import ask, spoil
from trellis import load, store
from trellis.errors import StoreError, TrellisError

DATA = Path(__file__).parent / "data"
FAMILIES = sorted(path.stem for path in DATA.glob("*.safetensors"))
MANY = int(os.environ.get("HOSTILE_FILES", "60"))


def questions(family: str) -> list[Any]:
    inputs: list[Any] = json.loads((DATA / f"{family}.json").read_text(encoding="utf-8"))["inputs"]
    return [inputs[0], [], inputs[1]]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=MANY, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random=st.randoms(use_true_random=False))
def test_a_spoiled_file_is_refused_or_answers(family: str, random: Random, tmp_path: Path) -> None:
    whole, path = (DATA / f"{family}.safetensors").read_bytes(), tmp_path / "spoiled"
    done = spoil(whole, path, random)
    (tmp_path / "done").write_text(repr(done))  # for whoever looks for the reason of a crash
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except TrellisError:
            return
        ask(model, questions(family))


def test_values_that_are_stored_twice_are_refused(tmp_path: Path) -> None:
    """Numbers of values index tables that have one place per different value."""
    stored = store.load(DATA / "crf-templates.safetensors")
    arrays = {name: array.copy() for name, array in stored.arrays.items()}
    lengths = arrays["values.lengths"].astype(np.int64)
    arrays["values"][: lengths.sum()] = ord("x")  # all of a length are the same
    store.save(tmp_path / "twice", stored.kind, stored.manifest.values, arrays)
    with pytest.raises(StoreError, match="the values of a reading must all differ"):
        load(tmp_path / "twice").predict(questions("crf-templates"))
