"""Tests of native code on builds that check themselves: ``python -m tests.sanitize [address] [thread] [odr]``.

address   AddressSanitizer and UndefinedBehaviorSanitizer, with the tests that reach native code, and with the program
          tests/native/checks.cpp, which asks what only C++ can ask
thread    ThreadSanitizer, with the tests that use one object from several threads
odr       the whole module linked once more with -flto: no name may have two definitions

Each is built in build/sanitize with an environment of its own, which finds all other packages where this one has them;
the usual build is left alone. A process that does anything undefined ends with a report. Reports are written to files,
so that those of programs that tests start are found too. Any report fails the run. It needs GCC.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "sanitize"
CHECKS = ("address", "thread", "odr")
LONGEST = 2400  # seconds that the tests may take
# Of chain, layers, features and models those that reach the kernels; torch's own work is only slower here.
TESTS = [
    "tests/chain",
    "tests/features",
    "tests/native",
    *(
        f"tests/nn/test_{name}.py"
        for name in ("alignment", "characters", "crf", "heads", "dropout_kernel", "lstm", "semicrf")
    ),
    "tests/nn/test_loss.py",
    "tests/models/crf",
    "tests/models/hmm",
    "tests/models/neural/test_contract.py",
    "tests/models/neural/test_inference.py",
    "tests/study/test_markov.py",
    "tests/training/neural/test_optimizer.py",
    "tests/training/test_optimizers.py",
]
SHARING = ["tests/native/test_sharing.py"]
# In this order each sanitizer writes a file, be it the last line only; with the other, libubsan writes none.
LIBRARIES = {"address": ("libubsan.so", "libasan.so", "libstdc++.so"), "thread": ("libtsan.so", "libstdc++.so")}


def prepare(home: Path) -> Path:
    """The Python of an environment without packages of its own, beside what this process can import."""
    python = home / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(home / "venv", with_pip=False, symlinks=True)
    version = sysconfig.get_python_version()
    paths = [path for path in sys.path if path.endswith("site-packages")]
    # Of the folders named here Python reads no further .pth files: the editable install of this one stays outside.
    (home / "venv" / "lib" / f"python{version}" / "site-packages" / "outside.pth").write_text("\n".join(paths))
    return python


def build(check: str, home: Path, python: Path, options: list[str], compiler: str = "g++") -> None:
    """Install the package there, editable, with kernels of its own."""
    settings = {
        "build-dir": home / "cmake",
        "cmake.define.TRELLIS_CHECK": check,
        "cmake.define.CMAKE_CXX_COMPILER": compiler,
        "install.strip": "false",
    }
    given = [f"--config-settings={name}={value}" for name, value in settings.items()]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", *options, *given, "--editable", str(ROOT)], check=True)


def environment(check: str, reports: Path) -> dict[str, str]:
    """What a process needs to load the kernels, and where reports go. Python itself never frees all it has."""
    options = "detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1"
    return os.environ | {
        "LD_PRELOAD": " ".join(map(_library, LIBRARIES[check])),
        "ASAN_OPTIONS": f"{options}:log_path={reports}/address",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/undefined",
        "TSAN_OPTIONS": f"log_path={reports}/thread",
        "PYTHONHASHSEED": "0",
    }


def _library(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def run(check: str, home: Path, python: Path, tests: list[str]) -> bool:
    """Whether all tests pass without a report."""
    reports = home / "reports"
    reports.mkdir(exist_ok=True)
    for old in reports.iterdir():
        old.unlink()
    found = {pattern: sorted(ROOT.glob(pattern)) for pattern in tests}
    if missing := [pattern for pattern, paths in found.items() if not paths]:
        sys.exit(f"no tests are at {', '.join(missing)}")
    chosen = [str(path) for paths in found.values() for path in paths]
    # What a sanitizer writes to standard error must not be captured: the process is gone before it could be shown.
    options = ["-n", "2", "--capture=sys", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
    commands = [[str(python), "-m", "pytest", *options, *chosen]]
    commands += [[str(program)] for program in home.glob("cmake/native_checks")]
    variables = environment(check, reports)
    codes = [subprocess.run(one, cwd=ROOT, env=variables, timeout=LONGEST, check=False).returncode for one in commands]
    written = sorted(reports.iterdir())
    for report in written:
        print(report.read_text(errors="replace"))
    print(f"{check}: programs ended with {codes}; {len(written)} reports of the sanitizers")
    return not any(codes) and not written


def main() -> int:
    if shutil.which("g++") is None:
        sys.exit("the sanitizers need g++, which is not here")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pip-option", action="append", default=[], help="for the build, such as --no-build-isolation")
    parser.add_argument("--tests", nargs="*", help="patterns, where not those that reach native code")
    parser.add_argument("check", nargs="*", help="address, thread, odr; all of them unless given")
    given = parser.parse_args()
    passed = True
    for check in given.check or CHECKS:
        home = ROOT / "build" / "sanitize" / check
        python = prepare(home)
        build(check, home, python, given.pip_option)
        if check in LIBRARIES:
            passed &= run(check, home, python, given.tests or (SHARING if check == "thread" else TESTS))
        else:
            print(f"{check}: no name has two definitions")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
