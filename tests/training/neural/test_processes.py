"""Two processes, as accelerate launches them, train what one process trains."""

import atexit
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.neural.toys import Linear
from trellis.training import read_history
from trellis.training.checkpoint import TrainingFolder
from trellis.training.neural import TrainingSettings, train

ROOT = Path(__file__).parents[3]
SETTINGS = TrainingSettings(epochs=2, batch_size=5, accumulate=2, learning_rate=0.05, optimizer="sgd", clip=1.0)


def main(folder: str) -> None:
    """What each process runs."""
    rank = os.environ["RANK"]
    # Registered before those of training, so called after them: whether threads of a group are left at the very end.
    atexit.register(lambda: np.save(f"{folder}/{rank}-left.npy", torch.distributed.is_initialized()))
    task = Linear(examples=17)
    task.scores = [0.1, 0.2]
    train(task, SETTINGS, folder=TrainingFolder(Path(folder), "neural", is_main=rank == "0"))
    np.save(f"{folder}/{rank}.npy", task.module.weight.detach().numpy())


def test_two_processes_equal_one(tmp_path):
    if not hasattr(os, "fork"):
        pytest.skip("needs gloo")
    command = [sys.executable, "-c", f"from {__name__} import main; main({str(tmp_path)!r})"]
    with socket.socket() as held:
        # Bound until the end, so that nobody else is given the port; those that say they share it may bind it too.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        ours = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held.getsockname()[1]), "WORLD_SIZE": "2"}
        processes = [
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **ours, "ACCELERATE_USE_CPU": "true", "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        for process in processes:
            _, errors = process.communicate(timeout=600)
            assert process.returncode == 0, errors
    assert not any(np.load(tmp_path / f"{rank}-left.npy") for rank in range(2)), "gloo may abort a process that ends"
    alone = Linear(examples=17)
    alone.scores = [0.1, 0.2]
    history = train(alone, SETTINGS)
    first, second = (np.load(tmp_path / f"{rank}.npy") for rank in range(2))
    assert np.array_equal(first, second)
    np.testing.assert_allclose(first, alone.module.weight.detach().numpy(), rtol=1e-12)
    assert [s.loss for s in read_history(tmp_path).steps] == pytest.approx([s.loss for s in history.steps])
    assert read_history(tmp_path).kept == 1
