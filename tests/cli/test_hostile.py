"""Model folders that anybody may have made, through every command that opens one: an answer or one clear error.

More examples: ``HOSTILE_FILES=500 pytest tests/cli/test_hostile.py`` tries this many with each command.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Shell, conll, sentences
from tests.models.hostile import spoil, spoil_bytes, spoil_json
from trellis.cli import main

MANY = int(os.environ.get("HOSTILE_FILES", "25"))
TRAIN = ("train", "--train", "train.conll", "--dev", "dev.conll", "--quiet")
BRIEF = ("--set", "max_iterations=2")
COMMANDS = {
    "tag": ("tag", "model", "text.txt", "--to", "jsonl", "--kbest", "2"),
    "tag tokens": ("tag", "model", "dev.conll", "--from", "conll", "--probs"),
    "eval": ("eval", "model", "dev.conll"),
    "inspect": ("inspect", "model", "--top", "5"),
    "explain": ("explain", "model", "Anna lives in Rome."),
    "warm start": (*TRAIN, "--model", "crf", "--warm-start", "model", "--out", "new", *BRIEF),
    "resume": (*TRAIN, "--model", "crf", "--out", "model", "--resume", *BRIEF),
    "overwrite": (*TRAIN, "--model", "crf", "--out", "model", "--overwrite", *BRIEF),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A trained folder of each of two families, as `trellis train` leaves them."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "train.conll").write_text(conll(sentences()))
    files = [f"--{role}={place / 'train.conll'}" for role in ("train", "dev")]
    for family in ("crf", "hmm"):
        with pytest.raises(SystemExit):
            main(["train", "--model", family, *files, "--out", str(place / family), "--quiet"])
    return [place / "crf", place / "hmm"]


def spoil_folder(folder: Path, random: Random) -> list[str]:
    """Spoil the model, or one of the files beside it; what was done, in words."""
    path = random.choice([folder / "model.safetensors", *sorted(folder.iterdir())])
    if path.suffix == ".safetensors":
        return spoil(path.read_bytes(), path, random)
    if path.suffix == ".json" and random.random() < 0.7:
        return [f"{path.name}: {spoil_json(path, random)}"]
    return [f"{path.name}: {spoil_bytes(path, random)}"]


@pytest.mark.parametrize("command", COMMANDS)
@settings(max_examples=MANY, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random=st.randoms(use_true_random=False))
def test_a_spoiled_folder_is_refused_or_answers(
    command: str, random: Random, folders: list[Path], here: Path, shell: Shell
) -> None:
    for left in ("model", "new"):
        shutil.rmtree(here / left, ignore_errors=True)
    (here / "text.txt").write_text("Anna lives in Rome.\n")
    shutil.copytree(random.choice(folders), here / "model")
    done = spoil_folder(here / "model", random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ran = shell(*COMMANDS[command])
    assert ran.code in (0, 1, 2), json.dumps(done)
    assert "unexpected" not in ran.err, f"{done}: {ran.err}"
    assert ran.code == 0 or ran.err.strip(), f"{done}: failed without a word"
