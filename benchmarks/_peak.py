"""What one core can do at best: multiply-adds on numbers that never leave the registers, by a small program in C++."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from trellis import _native

FLAGS = {
    "avx512": ["-mavx512f", "-mfma", "-DBYTES=64"],
    "avx2": ["-mavx2", "-mfma", "-DBYTES=32"],
    "baseline": ["-DBYTES=16"],
}
SOURCE = """
#include <chrono>
#include <cstdio>
typedef NUMBER Vector __attribute__((vector_size(BYTES)));
int main() {
  constexpr int chains = 12;
  constexpr long repeats = 2000000;
  double best = 0;
  volatile NUMBER sink;
  for (int i = 0; i < 5; ++i) {
    Vector sums[chains], a = NUMBER(0.999) - Vector{}, b = NUMBER(0.001) - Vector{};
    for (int c = 0; c < chains; ++c) sums[c] = NUMBER(c) - Vector{};
    const auto from = std::chrono::steady_clock::now();
    for (long n = 0; n < repeats; ++n)
      for (int c = 0; c < chains; ++c) sums[c] = sums[c] * a + b;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    Vector all{};
    for (int c = 0; c < chains; ++c) all += sums[c];
    sink = all[0];
    const double speed = 2.0 * repeats * chains * (BYTES / sizeof(NUMBER)) / took.count();
    if (speed > best) best = speed;
  }
  std::printf("%.17g\\n", best);
}
"""


@cache
def _program(number: str, instruction_set: str) -> str:
    compiler = shutil.which("c++") or sys.exit("the peak of this machine is measured by a program in C++: install g++")
    program = Path(tempfile.mkdtemp()) / "peak"
    command = [
        compiler,
        "-x",
        "c++",
        "-std=c++17",
        "-O3",
        f"-DNUMBER={number}",
        *FLAGS[instruction_set],
        "-",
        "-o",
        str(program),
    ]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return str(program)


def core_peak(dtype: str) -> float:
    """Multiplications and additions per second of one core, with the instruction set that the kernels use."""
    program = _program("double" if dtype == "float64" else "float", _native.instruction_set())
    return float(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
