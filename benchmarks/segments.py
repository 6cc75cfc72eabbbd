"""Segments (semi-Markov) against torch-struct's SemiMarkov, on the same scores in one process: log Z and its gradient.

torch-struct is given one sequence at a time: sequences of other lengths in one batch get wrong answers from it. Both
sides compute in float64, and log Z and gradients are compared before anything is timed.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from _harness import Bar, Row, Section, best_of_each, geometric_mean, machine, make_console, write_json
from torch import Tensor

import trellis
from trellis.chain.torch import SegmentScores

SHAPES = [(20, 4, 5), (50, 6, 5), (30, 8, 9), (50, 4, 20)]
PACKAGES = ["trellis", "torch", "torch-struct"]
BATCH = 32


class Problem:
    """One sequence: T tokens, segments of at most K of them, L labels."""

    def __init__(self, T: int, K: int, L: int) -> None:
        random = torch.Generator().manual_seed(T * K * L)
        self.shape = T, K, L
        self.segments = torch.randn(T, K, L, dtype=torch.float64, generator=random, requires_grad=True)
        self.transitions = torch.randn(L, L, dtype=torch.float64, generator=random, requires_grad=True)

    def ours(self) -> Tensor:
        return SegmentScores(self.segments, [self.shape[0]], self.transitions).log_partition().sum()

    def batch(self) -> Tensor:
        T = self.shape[0]
        return SegmentScores(self.segments.repeat(BATCH, 1, 1), [T] * BATCH, self.transitions).log_partition().sum()

    def theirs(self) -> Tensor:
        from torch_struct import SemiMarkovCRF

        potentials, lengths = self.potentials()
        return SemiMarkovCRF(potentials, lengths=lengths).partition.sum()

    def potentials(self) -> tuple[Tensor, Tensor]:
        """[1, T, K + 1, to, from]: that a segment of k tokens begins at t, and `from` is the label of the one before.

        The first segment comes from label 0, whatever it is: the transition into it is left out.
        """
        T, K, L = self.shape
        edge = self.segments.new_full((1, T, K + 1, L, L), -1e9)
        begins = [[t for t in range(T) if t + k <= T] for k in range(K + 1)]
        for k in range(1, K + 1):
            at = torch.tensor(begins[k])
            own = self.segments[at + k - 1, k - 1]  # [places, to]
            steps = own[:, :, None] + torch.where(at[:, None, None] > 0, self.transitions.T, 0.0)
            edge[0, at, k] = torch.where((at[:, None, None] > 0) | (torch.arange(L) == 0), steps, -1e9)
        return edge, torch.tensor([T + 1])


def with_gradient(problem: Problem, value: Callable[[], Tensor]) -> Callable[[], None]:
    def step() -> None:
        problem.segments.grad = problem.transitions.grad = None
        value().backward()

    return step


def assert_same(problem: Problem) -> None:
    found = []
    for value in (problem.ours, problem.theirs):
        with_gradient(problem, value)()
        found.append((value().detach(), problem.segments.grad, problem.transitions.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def compare(seconds: float) -> Section:
    rows: list[Row] = []
    for shape in SHAPES:
        problem = Problem(*shape)
        assert_same(problem)
        steps = (with_gradient(problem, value) for value in (problem.ours, problem.theirs, problem.batch))
        ours, theirs, many = best_of_each(*steps, seconds=seconds, at_least=5)
        rows.append(
            {
                "T, K, L": ", ".join(map(str, shape)),
                "trellis ms": ours * 1e3,
                "torch-struct ms": theirs * 1e3,
                "x torch-struct": theirs / ours,
                f"trellis, batch of {BATCH}, ms each": many / BATCH * 1e3,
            }
        )
    ratios = [row["x torch-struct"] for row in rows]
    bars = [Bar("slowest shape over torch-struct", min(ratios), 50), Bar("geometric mean", geometric_mean(ratios), 50)]
    return Section("Log partition and its gradient, one sequence", rows, bars)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter timings")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "segments.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    trellis.set_num_threads(options.threads)
    section = compare(0.2 if options.quick else 1.0)
    section.show(make_console())
    write_json(options.json, {"machine": machine(PACKAGES), "sections": [section.to_json()]})


if __name__ == "__main__":
    main()
