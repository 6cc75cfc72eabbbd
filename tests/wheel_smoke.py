"""What must work right after ``pip install trellis-crf``, without torch; run by the Python that has it installed.

cibuildwheel runs this file for each wheel, ``make test-wheel`` in fresh environments.
"""

import importlib.util
import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import trellis

SENTENCES = [["Ada", "lives", "in", "Paris"], ["Paris", "likes", "Bob"], ["Bob", "lives", "in", "Rome"]]
TAGS = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "O", "B-PER"], ["B-PER", "O", "O", "B-LOC"]]


def command(*arguments: str, text: str = "") -> str:
    """What a trellis command prints."""
    program = Path(sysconfig.get_path("scripts")) / "trellis"
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"trellis {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def check_demo() -> None:
    neural = importlib.util.find_spec("torch") is not None
    shown = " ".join(command("demo").split())  # lines are as long as the terminal
    assert "hmm" in shown.lower()
    assert ("The BiLSTM taggers need torch" in shown) is not neural, shown


def check_tagging(folder: Path) -> None:
    for tagger in (trellis.CRF(), trellis.HMM()):
        tagger.fit(SENTENCES, TAGS)
        assert tagger.predict(SENTENCES) == TAGS
        path = folder / f"{type(tagger).__name__}.safetensors"
        tagger.save(path)
        assert trellis.load(path).predict(SENTENCES) == TAGS
        assert "Paris" in command("tag", str(path), text="Ada lives in Paris\n")


def check_neural_tagging() -> None:
    path = Path(__file__).parent / "models" / "data" / "bilstm-crf.safetensors"
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert trellis.load(path).predict(expected["inputs"]) == expected["tags"]
    assert "torch" not in sys.modules


if __name__ == "__main__":
    check_neural_tagging()
    with tempfile.TemporaryDirectory() as scratch:
        check_tagging(Path(scratch))
    check_demo()
    print(f"trellis {trellis.__version__} works on Python {sys.version.split()[0]}: {trellis.__file__}")
