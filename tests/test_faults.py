"""Full disks and full memory, one failure at a time, in processes of their own: see tests/faulty.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = shutil.which("c++")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or COMPILER is None, reason="needs Linux, and a compiler for what is preloaded"
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("faulty") / "faulty.so")


def built(path: Path) -> Path:
    source = Path(__file__).parent / "faulty.cpp"
    command = [str(COMPILER), "-O1", "-std=c++17", "-shared", "-fPIC", "-Wall", "-o", str(path), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return path


def run(library: Path, every: int, *names: str) -> int:
    command = [sys.executable, "-m", "tests.faulty", str(every), *names]
    return subprocess.run(command, env={**os.environ, "LD_PRELOAD": str(library)}, check=False).returncode


# `make faults` tries every failure; here, what takes long tries some of them.
@pytest.mark.parametrize(
    ("name", "every"),
    [
        *(("save", 1), ("folder", 2), ("checkpoint", 1), ("corrections", 1), ("corpus", 1), ("onnx", 1)),
        *(
            ("web", 13),
            ("training", 13),
            ("bulk", 13),
            ("load", 8),
            ("predict", 2),
            ("fit", 10),
            ("fit dicts", 10),
            ("fit HMM", 4),
        ),
    ],
)
def test_the_old_state_or_the_new_one_is_there_whatever_fails(library: Path, name: str, every: int) -> None:
    assert run(library, every, name) == 0


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(built(Path(folder, "faulty.so")), 1))
