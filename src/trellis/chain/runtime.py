"""How the native core runs on this machine."""

from __future__ import annotations

from trellis import _native
from trellis.errors import ConfigError

MOST_THREADS = 1024


def get_num_threads() -> int:
    """How many threads the core may use: all cores this process may run on, unless set otherwise."""
    return _native.num_threads()


def set_num_threads(count: int) -> None:
    """Let the core use up to ``count`` threads; the environment variable TRELLIS_NUM_THREADS sets the default.

    Results are the same bit for bit with any number.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_THREADS:
        raise ConfigError(f"the number of threads must be an integer in 1..{MOST_THREADS}, got {count!r}")
    _native.set_num_threads(count)


def instruction_set() -> str:
    """The kernels in use: "avx512", "avx2" or "baseline" (SSE2 on x86, NEON on ARM)."""
    return _native.instruction_set()


def use_instruction_set(name: str) -> None:
    """Use other kernels than the best ones for this machine; for tests and measurements."""
    if not _native.use_instruction_set(name):
        raise ConfigError(f"this machine has no instruction set {name!r}; known are baseline, avx2 and avx512")
