"""Threads change the time, never the answer; and the rest of the program goes on meanwhile."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import strategies as st

from tests.chain.strategies import check
from trellis import chain
from trellis.chain import torch as chain_torch

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
pytestmark = pytest.mark.usefixtures("thread_count")


def batch(
    lengths: npt.ArrayLike, L: int, dtype: npt.DTypeLike = np.float32, extreme: bool = True, with_edges: bool = False
) -> chain.ChainScores:
    """A random batch; where `extreme`, every seventh sequence is one for log space."""
    rng = np.random.default_rng(L)
    own = np.asarray(lengths)
    parts = [rng.normal(size=(T, L)) for T in own]
    if extreme:
        for part in parts[::7]:
            part[: len(part) // 2] *= 500
    transitions = rng.normal(size=(L, L))
    transitions[0, L - 1] = -np.inf if L > 1 else 0.0
    start, end = rng.normal(size=(2, L))
    flat = np.concatenate([np.empty((0, L)), *parts])
    edges = rng.normal(size=(int(np.maximum(own - 1, 0).sum()), L, L)) if with_edges else None
    return chain.ChainScores(flat.astype(dtype), own, transitions, start, end, edges)


def some_spans(scores: chain.ChainScores) -> tuple[np.ndarray, np.ndarray]:
    spans = np.array([(b, T // 2, T // 2 + 1) for b, T in enumerate(scores.lengths.tolist()) if T])
    return spans, np.zeros(len(spans), np.int64)


def flattened(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, list):
        return value
    return [part for name in value.__slots__ if (own := getattr(value, name)) is not None for part in flattened(own)]


def gradients(scores: chain.ChainScores, tags: np.ndarray, weights: np.ndarray | None) -> list[np.ndarray]:
    """Of the plain or the weighted loss on the torch side, with a weight for each sequence."""
    parts = (scores.emissions, scores.transitions, scores.start, scores.end, scores.edges)
    leaves = [torch.from_numpy(x.copy()).requires_grad_() for x in parts if x is not None]
    own = chain_torch.ChainScores(leaves[0], torch.from_numpy(scores.lengths), *leaves[1:])
    path = torch.from_numpy(tags)
    loss = own.nll(path) if weights is None else own.nll(path, weights=torch.from_numpy(weights))
    (loss * torch.linspace(0.5, 1.5, len(loss))).sum().backward()
    return [loss.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves if leaf.grad is not None)]


OPERATIONS: dict[str, Callable[[chain.ChainScores, np.ndarray, np.ndarray], Any]] = {
    "log_partition": lambda s, tags, w: s.log_partition(),
    "score": lambda s, tags, w: s.score(tags),
    "viterbi": lambda s, tags, w: s.viterbi(),
    "kbest": lambda s, tags, w: s.kbest(3),
    "marginals": lambda s, tags, w: s.marginals(),
    "pairwise": lambda s, tags, w: s.marginals(pairwise=True),
    "sample": lambda s, tags, w: s.sample(2, seed=5),
    "entropy": lambda s, tags, w: s.entropy(),
    "span_log_prob": lambda s, tags, w: s.span_log_prob(*some_spans(s)),
    "weighted_nll": lambda s, tags, w: s.nll(tags, weights=w),
    "gradient of nll": lambda s, tags, w: gradients(s, tags, None),
    "gradient of weighted_nll": lambda s, tags, w: gradients(s, tags, w),
}


def answers(name: str, scores: chain.ChainScores, count: int) -> list[bytes]:
    chain.set_num_threads(count)
    tags = scores.viterbi().tags
    weights = np.linspace(0, 2, len(tags))
    return [part.tobytes() for part in flattened(OPERATIONS[name](scores, tags, weights))]


LARGE = np.random.default_rng(0).integers(0, 60, size=300)  # thousands of tokens, empty sequences among them


class TestBitIdentical:
    @pytest.mark.parametrize("name", OPERATIONS)
    @pytest.mark.parametrize(
        ("lengths", "L"), [(LARGE, 9), (LARGE[:150], 33), ([3, 0, 7], 4)], ids=["L9", "L33", "small"]
    )
    @pytest.mark.parametrize("with_edges", [False, True])
    @DTYPES
    def test_for_any_number_of_threads(
        self, name: str, lengths: npt.ArrayLike, L: int, with_edges: bool, dtype: npt.DTypeLike
    ) -> None:
        scores = batch(lengths, L, dtype, with_edges=with_edges)
        alone = answers(name, scores, 1)
        assert alone
        for count in (2, 3, 8):
            assert answers(name, scores, count) == alone, f"{count} threads"

    @check(
        st.lists(st.integers(0, 80), max_size=80), st.integers(1, 20), st.integers(2, 9), st.booleans(), max_examples=20
    )
    def test_for_any_shape(self, lengths: list[int], L: int, count: int, with_edges: bool) -> None:
        scores = batch(np.array(lengths, np.int64), L, with_edges=with_edges)
        for name in ("marginals", "viterbi", "sample", "gradient of nll"):
            assert answers(name, scores, count) == answers(name, scores, 1)

    @pytest.mark.usefixtures("instruction_set")
    @pytest.mark.parametrize("L", [3, 9, 33])
    @pytest.mark.parametrize("with_edges", [False, True])
    @DTYPES
    def test_a_sequence_alone_and_in_a_batch(self, L: int, with_edges: bool, dtype: npt.DTypeLike) -> None:
        scores = batch([17, 1, 0, 17, 40, 5, 17, 16, 40, 2, 33], L, dtype, with_edges=with_edges)
        together = scores.marginals()
        best = scores.viterbi()
        first = 0
        for b, T in enumerate(scores.lengths.tolist()):
            own = slice(first, first := first + T)
            one = scores.part(b)
            assert len(one.emissions) == T
            alone = one.marginals()
            assert alone.log_partition.tolist() == [together.log_partition[b]]
            assert alone.tokens.tobytes() == together.tokens[own].tobytes()
            assert one.log_partition().tolist() == [together.log_partition[b]]
            assert one.viterbi().tags.tobytes() == best.tags[own].tobytes()
            assert one.viterbi().scores.tolist() == [best.scores[b]]


class TestWithTheRestOfTheProgram:
    def test_other_python_threads_go_on_during_a_call(self) -> None:
        """No thread is interrupted in this test: the main one runs only while the other lets go of the GIL."""
        interval = sys.getswitchinterval()
        chain.set_num_threads(1)
        scores = batch([2_000] * 20, 9, extreme=False)
        native, out = scores._inference(), np.empty(20)
        inside, seen = [False], [False]

        def calls() -> None:
            for _ in range(200):
                inside[0] = True
                native.entropy(out)
                inside[0] = False
                if seen[0]:
                    return

        worker = threading.Thread(target=calls)
        sys.setswitchinterval(3600)
        try:
            worker.start()
            while worker.is_alive():
                seen[0] |= inside[0]
                time.sleep(0)
        finally:
            sys.setswitchinterval(interval)
        assert seen == [True]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked_child_computes_with_threads_of_its_own(self) -> None:
        chain.set_num_threads(2)
        scores = batch(LARGE, 9)
        expected = scores.log_partition()  # the pool exists before the fork
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)

        def child() -> None:
            sender.send(scores.log_partition())

        process = context.Process(target=child)
        process.start()
        arrived = receiver.poll(600)
        if not arrived:
            process.kill()
        process.join()
        assert arrived, "the child hangs"
        assert receiver.recv().tobytes() == expected.tobytes()
        assert scores.log_partition().tobytes() == expected.tobytes()


class TestSetting:
    @pytest.mark.parametrize("count", [1, 2, 3, 64])
    def test_is_read_back(self, count: int) -> None:
        chain.set_num_threads(count)
        assert chain.get_num_threads() == count

    @pytest.mark.parametrize("count", [0, -1, 1025, 10**30, 2.0, True, "2", None])
    def test_refuses_what_is_no_number_of_threads(self, count: Any) -> None:
        now = chain.get_num_threads()
        with pytest.raises(ValueError, match=rf"the number of threads must be an integer in 1\.\.1024, got {count!r}"):
            chain.set_num_threads(count)
        assert chain.get_num_threads() == now

    @pytest.mark.parametrize(("value", "expected"), [("3", 3), ("1", 1), ("0", None), ("-2", None), ("many", None)])
    def test_environment_sets_the_default(self, value: str, expected: int | None) -> None:
        code = "import trellis.chain; print(trellis.chain.get_num_threads())"
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        environment = os.environ | {"TRELLIS_NUM_THREADS": value}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert int(done.stdout) == (cores if expected is None else expected)
        assert done.stderr == ""
