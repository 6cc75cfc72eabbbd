"""How the threads of torch wait for each other, said before torch is loaded."""

from __future__ import annotations

import os

_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_ROUNDS, _MILLISECONDS = "2000", "0"


def wait_asleep() -> None:
    """Let threads that wait at a barrier sleep after a few microseconds, unless the environment says otherwise.

    OpenMP lets them watch for milliseconds. On a quiet machine that saves the time of waking up. Beside other programs
    it keeps a core from the very thread that is waited for, and training slows down to a fraction of its share.
    """
    if not any(name in os.environ for name in _POLICIES):
        os.environ["GOMP_SPINCOUNT"] = _ROUNDS  # GNU's runtime, which torch has on Linux
        os.environ["KMP_BLOCKTIME"] = _MILLISECONDS  # Intel's and LLVM's
