"""A forward pass of a tagger runs on one pool of threads, even where torch has brought another one."""

import subprocess
import sys

import pytest

PROGRAM = """
import os
import numpy as np
import torch
from trellis import _native

random = np.random.default_rng(0)
H, D, N, threads = 32, 32, 2000, 5
features = random.normal(size=(N, D)).astype(np.float32)
weights = random.normal(size=(8 * H, D)).astype(np.float32)
bias = np.zeros(8 * H, np.float32)
_native.StoredDense(weights, bias).apply(features, threads, np.empty((N, 8 * H), np.float32))
before = len(os.listdir("/proc/self/task"))
layer = _native.StoredLstm(weights, bias, random.normal(size=(2, 4 * H, H)).astype(np.float32))
layer.run(features, None, np.full(100, N // 100), threads, np.empty((N, 2 * H), np.float32))
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_a_layer_starts_no_threads_beside_those_of_the_one_before() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
