"""The base tests on every Python at hand, with old and new NumPy: ``python -m tools.matrix [PYTHON ...]``.

Each combination is a fresh environment in build/matrix with a wheel of dist/ (`make wheel`) and no torch; tests that
mention a package that is not there are left out. Every warning is an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.wheels import DIST, ROOT, pythons_at_hand, version_of, wheel_for

PLACE = ROOT / "build" / "matrix"
NUMPY = {"1.26": (3, 12), "2": (3, 99)}
"""Releases of NumPy, and the last Python that each is for."""
TOOLS = ["pytest>=8", "pytest-xdist>=3", "hypothesis>=6.100", "scikit-learn>=1.6"]
_ABSENT = (
    "torch|neural|bilstm|transformer|sklearn|scipy|seqeval|jieba|arrow|parquet|pandas|zstd|zstandard|daachorse|lexicon|onnx"
    "|starlette|httpx|tokenizers|hmmlearn|crfsuite|playwright|spacy|mkdocs|ruff|mypy|wheel|Makefile"
)
_ELSEWHERE = ("nn", "server", "export", "training/neural", "test_documentation.py", "test_layers.py")


def main() -> None:
    """Run what can be run here and print a line for each combination."""
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("python", nargs="*", help="commands; default: python3.11 and the newest Python, if found")
    failed = []
    for python in parser.parse_args().python or pythons_at_hand():
        version = version_of(python)
        for numpy in (release for release, last in NUMPY.items() if version <= last):
            name = f"Python {version[0]}.{version[1]} with NumPy {numpy}"
            fine = run_tests(python, version, numpy)
            print(f"{name}: {'passed' if fine else 'FAILED'}", flush=True)
            failed += [] if fine else [name]
    shutil.rmtree(PLACE, ignore_errors=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run_tests(python: str, version: tuple[int, int], numpy: str) -> bool:
    """Make the environment and run the tests that suit it."""
    wheel = wheel_for(version, sorted(DIST.glob("*.whl")))
    if wheel is None:
        sys.exit(f"dist has no wheel for {python}: run make wheel")
    shutil.rmtree(PLACE, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(PLACE)], check=True)
    own = str(PLACE / "bin" / "python")
    install = [own, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:"]
    subprocess.run([*install, f"numpy=={numpy}.*", *TOOLS, str(wheel)], check=True)
    pytest = [own, "-W", "error", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    # One file of models of earlier versions has those of all families.
    tests = [*pytest, "-k", "not transformer", *base_tests(ROOT / "tests")]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode == 0


def base_tests(folder: Path) -> list[str]:
    """The test files that need nothing but the base package."""
    names = re.compile(_ABSENT, re.IGNORECASE)
    outside = [folder / name for name in _ELSEWHERE]
    files = [file for file in sorted(folder.rglob("test_*.py")) if not any(file.is_relative_to(x) for x in outside)]
    return [str(file) for file in files if not names.search(file.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    main()
