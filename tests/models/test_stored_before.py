"""Models that were stored once are opened, and answer as they did: see data/write.py."""

import json
from pathlib import Path

import numpy as np
import pytest

from trellis import load

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.safetensors"))


def test_every_family_is_there() -> None:
    assert len(FILES) == 9
    assert all(path.stat().st_size < 60_000 for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model_of_an_earlier_version_answers_as_it_did(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    model = load(path)
    assert list(model.labels_) == expected["labels"]
    assert model.predict(expected["inputs"]) == expected["tags"]
    for found, wanted in zip(model.marginals(expected["inputs"]), expected["probabilities"], strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)
