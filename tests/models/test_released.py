"""Files of every released version open and answer as they did: tests/models/released has a folder for each version.

A release adds its folder: ``python -m tests.models.test_released VERSION``. The files of a release never change.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from tests.store.newer import as_of_format
from trellis.errors import NewerFormatError
from trellis.models import Ensemble

RELEASED = Path(__file__).parent / "released"
DATA = sorted((Path(__file__).parent / "data").glob("*.safetensors"))  # the families' small models: data/write.py
FILES = [*sorted(RELEASED.glob("*/*.safetensors")), *DATA]
X = [["Ada", "lives", "in", "New", "York"], ["Rome", "likes", "Bob", "."], ["nobody", "knows", "Ümit"]]
Y = [["B-PER", "O", "O", "B-LOC", "I-LOC"], ["B-LOC", "O", "B-PER", "O"], ["O", "O", "B-PER"]]


def opened(file: Path, place: Path | None = None) -> Any:
    """What a file of this name holds, from this place if it is not there."""
    return (trellis.Lexicon.load if file.stem == "lexicon" else trellis.load)(place or file)


def answers(tagger: Any, inputs: Any = X) -> dict[str, Any]:
    if isinstance(tagger, trellis.Lexicon):
        return {"tags": [repr(entry) for entry in tagger], "marginals": []}
    rows = [np.round(rows, 7).tolist() for rows in tagger.marginals(inputs)]
    return {"labels": list(tagger.labels_), "tags": tagger.predict(inputs), "marginals": rows}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_file_of_a_released_version_answers_as_it_did(file: Path) -> None:
    expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    found = answers(opened(file), expected.get("inputs", X))
    assert found["tags"] == expected["tags"]
    assert found.get("labels") == expected.get("labels", found.get("labels"))
    marginals, atol = (expected["probabilities"], 2e-6) if file in DATA else (expected["marginals"], 1e-4)
    for rows, expected_rows in zip(found["marginals"], marginals, strict=True):
        np.testing.assert_allclose(rows, expected_rows, atol=atol)


def test_every_family_is_there_in_small() -> None:
    assert len(DATA) == 9
    assert all(path.stat().st_size < 60_000 for path in DATA)


@pytest.mark.parametrize("file", sorted((RELEASED / "0.1.0").glob("*.safetensors")), ids=lambda file: file.stem)
def test_a_file_of_a_newer_version_is_an_error_that_says_so(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(file, path)
    as_of_format(99, path)
    said = "has format 99; this version of Trellis reads format 1: it was saved by a newer version"
    for place in (path,) if file.stem == "lexicon" else (path, tmp_path):
        with pytest.raises(NewerFormatError, match=said):
            opened(file, place)


def write(version: str) -> None:
    """The files of a version, from the code of that version."""
    encoder = {"words": {"size": 4}, "characters": {"size": 3, "output": 4}, "hidden": 6}
    taggers = {
        "crf": trellis.CRF(max_iterations=10),
        "hmm": trellis.HMM(),
        "hmm2": trellis.HMM(order=2),
        "neural": trellis.NeuralTagger(encoder=encoder, training={"epochs": 2}),
        "segments": trellis.NeuralTagger(head="semicrf", encoder=encoder, training={"epochs": 2}),
    }
    fitted = {name: tagger.fit(X, Y) for name, tagger in taggers.items()}
    ensemble = {"ensemble": Ensemble.of([fitted["neural"], fitted["neural"]])}
    lexicon = {"lexicon": trellis.Lexicon([("New York", "LOC"), ("Ada", "PER", "must")])}
    place = RELEASED / version
    place.mkdir(parents=True, exist_ok=True)
    for name, saved in {**fitted, **ensemble, **lexicon}.items():
        if not (place / f"{name}.safetensors").exists():
            saved.save(place / f"{name}.safetensors")
            (place / f"{name}.json").write_text(json.dumps(answers(saved)) + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
