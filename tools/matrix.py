"""The base tests on every Python at hand, with old and new NumPy: ``python -m tools.matrix [PYTHON ...]``.

Each combination is a fresh environment in build/matrix with a wheel of dist/ (`make wheel`) and no torch; tests that
mention a package that is not there are left out. Every warning is an error. With ``--oldest``, it is the tests of
networks instead, with the oldest torch, transformers and NumPy that we declare; torch 2.4 and its CUDA are 3 GB.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.wheels import DIST, ROOT, every_python, version_of, wheel_for

PLACE = ROOT / "build" / "matrix"
NUMPY = {"1.26": (3, 12), "2": (3, 99)}
"""Releases of NumPy, and the last Python that each is for."""
TOOLS = ["pytest>=8", "pytest-xdist>=3", "hypothesis>=6.100", "scikit-learn>=1.6", "safetensors>=0.4"]
_ABSENT = (
    "torch|neural|bilstm|transformer|sklearn|scipy|seqeval|jieba|arrow|parquet|pandas|zstd|zstandard|daachorse|lexicon|onnx"
    "|starlette|granian|msgspec|httpx|tokenizers|hmmlearn|crfsuite|playwright|spacy|mkdocs|ruff|mypy|wheel|Makefile"
)
OLDEST = ["numpy==1.26.*", "torch==2.4.*", "transformers==4.40.*", "accelerate==0.30.*", "tokenizers==0.19.*"]
OLDEST += ["pyarrow==15.*", "daachorse==0.5.*"]
_OF_OLDEST = "ignore:`torch.cpu.amp.autocast:FutureWarning"
"""What torch 2.4 warns of in its own checkpointing."""
NETWORKS = ("nn", "models/neural", "training/neural")
_ABSENT_OF_OLDEST = "onnx|torchcrf|torch_struct|minilm|glove|zstandard|tensorboard"
_ELSEWHERE = ("nn", "engines", "server", "export", "training/neural", "test_documentation.py", "test_layers.py")


def main() -> None:
    """Run what can be run here and print a line for each combination."""
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("python", nargs="*", help="commands; default: every Python from 3.11 on that is found")
    parser.add_argument("--oldest", action="store_true", help="networks with the oldest torch and transformers")
    given, failed = parser.parse_args(), []
    for python in given.python or every_python().values():
        version = version_of(python)
        for what, packages, tests in combinations(version, oldest=given.oldest):
            name = f"Python {version[0]}.{version[1]} with {what}"
            fine = run_tests(python, version, packages, tests)
            print(f"{name}: {'passed' if fine else 'FAILED'}", flush=True)
            failed += [] if fine else [name]
    shutil.rmtree(PLACE, ignore_errors=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def combinations(version: tuple[int, int], *, oldest: bool) -> list[tuple[str, list[str], list[str]]]:
    """What is run with this Python: its name, packages, test files."""
    tests = ROOT / "tests"
    if oldest:
        files = [file for name in NETWORKS for file in suitable(tests / name, _ABSENT_OF_OLDEST)]
        return [("torch 2.4 and transformers 4.40", OLDEST, files)] if version <= NUMPY["1.26"] else []
    return [
        (f"NumPy {release}", [f"numpy=={release}.*"], base_tests(tests))
        for release, last in NUMPY.items()
        if version <= last
    ]


def run_tests(python: str, version: tuple[int, int], packages: list[str], tests: list[str]) -> bool:
    """Make the environment and run the tests in it."""
    wheel = wheel_for(version, sorted(DIST.glob("*.whl")))
    if wheel is None:
        sys.exit(f"dist has no wheel for {python}: run make wheel")
    shutil.rmtree(PLACE, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(PLACE)], check=True)
    own = str(PLACE / "bin" / "python")
    install = [own, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:"]
    subprocess.run([*install, *packages, *TOOLS, str(wheel)], check=True)
    pytest = [own, "-W", "error", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    # Among the base tests, one file of models of earlier versions has those of all families.
    chosen = ["-W", _OF_OLDEST] if packages is OLDEST else ["-k", "not transformer"]
    return subprocess.run([*pytest, *chosen, *tests], cwd=ROOT, check=False).returncode == 0


def base_tests(folder: Path) -> list[str]:
    """The test files that need nothing but the base package."""
    outside = [str(folder / name) for name in _ELSEWHERE]
    return [file for file in suitable(folder, _ABSENT) if not file.startswith(tuple(outside))]


def suitable(folder: Path, absent: str) -> list[str]:
    """The test files that mention none of the packages that are not there."""
    names, files = re.compile(absent, re.IGNORECASE), sorted(folder.rglob("test_*.py"))
    return [str(file) for file in files if not names.search(file.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    main()
