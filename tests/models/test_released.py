"""Files of every released version open and answer as they did: tests/models/released has a folder for each version.

A release adds its folder: ``python -m tests.models.test_released VERSION``. The files of a release never change.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis

RELEASED = Path(__file__).parent / "released"
FILES = sorted(RELEASED.glob("*/*.safetensors"))
X = [["Ada", "lives", "in", "New", "York"], ["Rome", "likes", "Bob", "."], ["nobody", "knows", "Ümit"]]
Y = [["B-PER", "O", "O", "B-LOC", "I-LOC"], ["B-LOC", "O", "B-PER", "O"], ["O", "O", "B-PER"]]


def answers(tagger: Any) -> dict[str, Any]:
    return {"tags": tagger.predict(X), "marginals": [np.round(own, 5).tolist() for own in tagger.marginals(X)]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_file_of_a_released_version_answers_as_it_did(file: Path) -> None:
    expected, found = json.loads(file.with_suffix(".json").read_text()), answers(trellis.load(file))
    assert found["tags"] == expected["tags"]
    for own, before in zip(found["marginals"], expected["marginals"], strict=True):
        np.testing.assert_allclose(own, before, atol=1e-4)


def write(version: str) -> None:
    """The files of a version, from the code of that version."""
    encoder = {"words": {"size": 4}, "characters": {"size": 3, "output": 4}, "hidden": 6}
    taggers = {
        "crf": trellis.CRF(max_iterations=10),
        "hmm": trellis.HMM(),
        "neural": trellis.NeuralTagger(encoder=encoder, training={"epochs": 2}),
    }
    place = RELEASED / version
    place.mkdir(parents=True)
    for name, tagger in taggers.items():
        tagger.fit(X, Y).save(place / f"{name}.safetensors")
        (place / f"{name}.json").write_text(json.dumps(answers(tagger)) + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
