"""The tests that reach native code, on a build that checks every access and every sum: ``python -m tests.sanitize``.

The kernels are built with AddressSanitizer and UndefinedBehaviorSanitizer in build/sanitize, with an environment of
their own, which finds all other packages where this one has them; the usual build is left alone. A process that does
anything undefined ends with a report. Reports are written to files, so that those of programs that tests start are
found too. Any report fails the run. It needs GCC.
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
PYTHON = HOME / "venv" / "bin" / "python"
REPORTS = HOME / "reports"
LONGEST = 2400  # seconds that the tests may take
# Of chain, layers, features and models those that reach the kernels; torch's own work is only slower here.
TESTS = [
    "tests/test_aligned.py",
    "tests/chain",
    "tests/features",
    "tests/text/test_packed.py",
    "tests/server/test_reading.py",
    *(
        f"tests/nn/test_{name}.py"
        for name in ("alignment", "bilstm", "characters", "crf", "heads", "masked", "recurrence", "semicrf")
    ),
    "tests/nn/test_tagging_loss.py",
    "tests/models/crf",
    "tests/models/hmm",
    "tests/models/neural/test_contract.py",
    "tests/models/neural/test_inference.py",
    "tests/models/test_markov.py",
    "tests/training/neural/test_descent.py",
    "tests/training/test_optimizers.py",
]


def prepare() -> None:
    """An environment without packages of its own, beside what this process can import."""
    if not PYTHON.exists():
        venv.create(HOME / "venv", with_pip=False, symlinks=True)
    version = sysconfig.get_python_version()
    paths = [path for path in sys.path if path.endswith("site-packages")]
    # Of the folders named here Python reads no further .pth files: the editable install of this one stays outside.
    (HOME / "venv" / "lib" / f"python{version}" / "site-packages" / "outside.pth").write_text("\n".join(paths))


def build(options: list[str]) -> None:
    """Install the package there, editable, with kernels of its own."""
    settings = {
        "build-dir": HOME / "cmake",
        "cmake.define.TRELLIS_SANITIZE": "ON",
        "cmake.define.CMAKE_CXX_COMPILER": "g++",
        "install.strip": "false",
    }
    given = [f"--config-settings={name}={value}" for name, value in settings.items()]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(PYTHON), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", *options, *given, "--editable", str(ROOT)], check=True)


def environment() -> dict[str, str]:
    """What a process needs to load the kernels, and where reports go. Python itself never frees all it has."""
    # In this order each sanitizer writes a file, be it the last line only; with the other, libubsan writes none.
    libraries = (_library(name) for name in ("libubsan.so", "libasan.so", "libstdc++.so"))
    options = "detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1"
    return os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": f"{options}:log_path={REPORTS}/address",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={REPORTS}/undefined",
        "PYTHONHASHSEED": "0",
    }


def _library(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def run(tests: list[str]) -> int:
    """1 where a test fails or there is a report, else 0."""
    REPORTS.mkdir(exist_ok=True)
    for old in REPORTS.iterdir():
        old.unlink()
    chosen = [str(path.relative_to(ROOT)) for test in tests for path in sorted(ROOT.glob(test))]
    # What a sanitizer writes to standard error must not be captured: the process is gone before it could be shown.
    options = ["-n", "2", "--capture=sys", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
    command = [str(PYTHON), "-m", "pytest", *options, *chosen]
    code = subprocess.run(command, cwd=ROOT, env=environment(), timeout=LONGEST, check=False).returncode
    reports = sorted(REPORTS.iterdir())
    for report in reports:
        print(report.read_text(errors="replace"))
    print(f"pytest ended with code {code}; {len(reports)} reports of the sanitizers")
    return 1 if code or reports else 0


def main() -> int:
    if shutil.which("g++") is None:
        sys.exit("the sanitizers need g++, which is not here")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pip-option", action="append", default=[], help="for the build, such as --no-build-isolation")
    parser.add_argument("tests", nargs="*", default=TESTS, help="patterns, where not those that reach native code")
    given = parser.parse_args()
    prepare()
    build(given.pip_option)
    return run(given.tests)


if __name__ == "__main__":
    sys.exit(main())
