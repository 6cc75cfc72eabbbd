"""The wheels of dist/ in fresh environments without a compiler: ``python -m tests.wheel [PYTHON ...]``.

Each Python gets an environment in build/wheel-test with the wheel that suits it. What runs there sees no other program
than those of the environment.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tools.wheels import DIST, ROOT, pythons_at_hand, version_of, wheel_for

PLACE = ROOT / "build" / "wheel-test"
SECONDS = 600


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.wheel", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--extra", default="", help="an extra to install too, such as neural")
    parser.add_argument("python", nargs="*", help="commands; default: python3.11 and the newest Python, if found")
    given = parser.parse_args()
    for python in given.python or pythons_at_hand():
        wheel = wheel_for(version_of(python), sorted(DIST.glob("*.whl")))
        if wheel is None:
            sys.exit(f"dist has no wheel for {python}: run make wheel")
        check(python, wheel, given.extra)
    shutil.rmtree(PLACE, ignore_errors=True)


def check(python: str, wheel: Path, extra: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    run([python, "-m", "venv", str(PLACE)])
    own = PLACE / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    run([str(own), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:",
         "-c", str(ROOT / "constraints.txt"), wanted])  # fmt: skip
    # In another folder, with another path: neither the sources nor a compiler are found.
    run([str(own), "-I", str(ROOT / "tests" / "wheel_smoke.py")], alone=True)


def run(command: list[str], *, alone: bool = False) -> None:
    environment = {"PATH": str(PLACE / "bin"), "HOME": str(PLACE), "TERM": "dumb"} if alone else None
    done = subprocess.run(command, cwd=PLACE if alone else None, env=environment, timeout=SECONDS, check=False)
    if done.returncode:
        sys.exit(f"this failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
