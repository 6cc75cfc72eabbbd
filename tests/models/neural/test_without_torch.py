"""The base package opens, tags with and saves BiLSTM taggers: nothing imports torch, nor what comes with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
WITH_PLAN = ["bilstm-crf", "bilstm-crf-pairs", "softmax"]
BLOCKED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "tokenizers", "accelerate"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(code: str, *arguments: object) -> str:
    """What Python prints in an environment without torch."""
    command = [sys.executable, "-c", BLOCKED + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


ANSWERS = """
import copy, json, pickle
import numpy as np
import trellis

for path in sys.argv[2:]:
    expected = json.loads(open(path.replace(".safetensors", ".json"), encoding="utf-8").read())
    model, X = trellis.load(path), expected["inputs"]
    model.save(sys.argv[1])
    for own in (model, trellis.load(sys.argv[1]), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert own.predict(X) == expected["tags"], path
        for found, wanted in zip(own.marginals(X), expected["probabilities"], strict=True):
            np.testing.assert_allclose(found, wanted, atol=2e-6)
    trellis.models.Ensemble.of([model, model]).save(sys.argv[1])
    assert trellis.load(sys.argv[1]).predict(X) == expected["tags"]
    assert model.posterior(X[:1]).explain(0, 0) and model.annotate(X[:1]) and model.kbest(X[:1], 2)
assert "torch" not in sys.modules
"""


def test_every_answer_comes_without_torch(tmp_path: Path) -> None:
    run(ANSWERS, tmp_path / "again", *(DATA / f"{name}.safetensors" for name in WITH_PLAN))


REFUSED = """
import json
import trellis

refused = []
def attempt(what):
    try:
        what()
    except trellis.errors.ModelError as error:
        refused.append(str(error))

attempt(lambda: trellis.NeuralTagger().fit([["a"]], [["X"]]))
attempt(lambda: trellis.load(sys.argv[1]))
attempt(lambda: trellis.load(sys.argv[2]).model_.network)
print(json.dumps(refused))
"""


def test_what_needs_torch_says_so() -> None:
    refused = json.loads(run(REFUSED, DATA / "transformer-crf.safetensors", DATA / "bilstm-crf.safetensors"))
    what = ("training a neural model", "a neural model with a transformer or a semi-CRF", "the torch module of a")
    for error, begin in zip(refused, what, strict=True):
        assert error.startswith(begin)
        assert error.endswith("pip install 'trellis-crf[neural]'")


LOADED = """
import sys
from trellis.cli import main
try:
    main()
finally:
    print(sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "transformers"}), file=sys.stderr)
"""


@pytest.mark.parametrize("command", [["tag"], ["inspect"]], ids=str)
def test_the_command_line_leaves_torch_alone_where_it_is_installed(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Ada lives in Paris .\n", encoding="utf-8")
    files = [str(DATA / "bilstm-crf.safetensors"), *([str(tmp_path / "text.txt")] if command == ["tag"] else [])]
    done = subprocess.run([sys.executable, "-c", LOADED, *command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_extra_of_the_torch_modules_is_named():
    code = "try:\n    import trellis.nn\nexcept ImportError as error:\n    print(error, error.name)"
    assert run(code) == "trellis.nn needs torch: pip install 'trellis-crf[neural]' torch\n"
