"""The chain core and the CRF layer against pytorch-crf, torch-struct and cross entropy, on the same inputs."""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torchcrf
from _harness import Bar, Row, Section, best_of_each, geometric_mean, machine, make_console, write_json
from _peak import core_peak
from rich.console import Console
from torch import Tensor, nn

import trellis
from trellis import _native, chain
from trellis.nn import CRF

# B from 8 to 256, T from 25 to 500, L from 5 to 50.
SHAPES = [
    (8, 25, 5),
    (32, 30, 9),
    (64, 40, 9),
    (32, 50, 20),
    (64, 50, 50),
    (16, 500, 9),
    (256, 40, 17),
    (256, 500, 5),
]
LOSS_SHAPES = [(64, 40, 9), (256, 40, 17)]
LONG_SHAPES = [(200, 100, 37), (30, 2000, 5)]  # of DeLFT: its labels of headers, and sequences as long as a page
INSTRUCTION_SETS = ("avx512", "avx2", "baseline")
PACKAGES = ["trellis", "numpy", "torch", "pytorch-crf", "torch-struct"]
EPILOG = """examples:
  python benchmarks/chain.py                        all sections, JSON in benchmarks/results/chain.json
  python benchmarks/chain.py --quick                shorter timings, T up to 100,000
  python benchmarks/chain.py --only layer threads   two sections
  python benchmarks/chain.py --json chain.json --threads 1
  python benchmarks/chain.py --only layer --instructions avx2
"""

Kernel = Callable[[chain.ChainScores], object]
# Kernel and its floating point operations per token in units of L * L: a multiply-add (an add and a max for
# Viterbi) counts as two; marginals run forward, backward and the expected transitions.
KERNELS: dict[str, tuple[Kernel, int]] = {
    "log_partition": (chain.ChainScores.log_partition, 2),
    "marginals": (chain.ChainScores.marginals, 6),
    "viterbi": (chain.ChainScores.viterbi, 2),
}


@dataclass(frozen=True)
class Options:
    quick: bool
    threads: int

    @property
    def seconds(self) -> float:
        return 0.1 if self.quick else 1.0

    def time(self, *functions: Callable[[], object]) -> list[float]:
        return best_of_each(*functions, seconds=self.seconds, at_least=5 if self.quick else 20)


@dataclass(frozen=True)
class Problem:
    """One padded batch and layers with the same parameters."""

    emissions: Tensor  # [B, T, L]
    tags: Tensor  # [B, T]
    lengths: Tensor  # [B]
    mask: Tensor  # [B, T]
    ours: CRF
    theirs: torchcrf.CRF

    @staticmethod
    def make(B: int, T: int, L: int) -> "Problem":
        generator = torch.Generator().manual_seed(B * T * L)
        lengths = torch.randint(T // 2, T + 1, (B,), generator=generator)
        lengths[0] = T
        theirs, ours = torchcrf.CRF(L, batch_first=True), CRF(L, batch_first=True)
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, generator=generator)
        ours.load_state_dict(theirs.state_dict())
        return Problem(
            emissions=torch.randn(B, T, L, generator=generator, requires_grad=True),
            tags=torch.randint(L, (B, T), generator=generator),
            lengths=lengths,
            mask=torch.arange(T) < lengths.unsqueeze(-1),
            ours=ours,
            theirs=theirs,
        )

    def our_nll(self) -> Tensor:
        return self.ours.nll(self.emissions, self.tags, mask=self.mask, reduction="sum")

    def their_nll(self) -> Tensor:
        return -self.theirs(self.emissions, self.tags, mask=self.mask, reduction="sum")

    def cross_entropy(self) -> Tensor:
        tags = self.tags.masked_fill(~self.mask, -100).flatten()
        return nn.functional.cross_entropy(self.emissions.flatten(0, 1), tags, reduction="sum")

    def potentials(self) -> Tensor:
        """torch-struct's potentials [B, T-1, to, from], which hold start, emissions and end as well."""
        crf, steps = self.theirs, torch.arange(self.emissions.shape[1] - 1)
        inner = crf.transitions.T + self.emissions[:, 1:].unsqueeze(-1)
        first = (crf.start_transitions + self.emissions[:, 0])[:, None, None] * (steps == 0)[:, None, None]
        is_last = steps == self.lengths.unsqueeze(-1) - 2  # [B, T-1]
        return inner + first + crf.end_transitions.unsqueeze(-1) * is_last[..., None, None]

    def struct_nll(self) -> Tensor:
        from torch_struct import LinearChainCRF

        potentials = self.potentials()
        picked = potentials.gather(2, self.tags[:, 1:, None, None].expand(-1, -1, 1, potentials.shape[-1]))
        scores = picked.squeeze(2).gather(2, self.tags[:, :-1, None]).squeeze(-1)
        return LinearChainCRF(potentials, self.lengths).partition.sum() - scores[self.mask[:, 1:]].sum()

    def nll_by_hand(self) -> Tensor:
        crf = self.theirs
        parameters = (crf.transitions, crf.start_transitions, crf.end_transitions)
        loss: Tensor = ByHand.apply(self.emissions, self.tags, self.mask, *parameters)
        return loss

    def our_viterbi(self) -> Tensor:
        return self.ours.viterbi(self.emissions, mask=self.mask).tags

    def our_decode(self) -> list[list[int]]:
        return self.ours.decode(self.emissions, mask=self.mask)

    def their_viterbi(self) -> list[list[int]]:
        return self.theirs.decode(self.emissions, mask=self.mask)

    def struct_viterbi(self) -> Tensor:
        from torch_struct import LinearChainCRF

        return LinearChainCRF(self.potentials().detach(), self.lengths).argmax


class ByHand(torch.autograd.Function):
    """What a careful user writes in plain torch: scaled forward-backward, one matrix product per step, and no tape.

    alpha[t] = (alpha[t-1] @ A) * p[t] / c[t]        beta[t-1] = (p[t] * beta[t]) @ A' / c[t]
    """

    @staticmethod
    def forward(ctx, emissions, tags, mask, transitions, start, end):
        T = emissions.shape[1]
        here = mask.T.unsqueeze(-1)  # [T, B, 1]
        e = emissions.transpose(0, 1)
        largest = e.amax(2, keepdim=True)
        p, A, last = (e - largest).exp(), transitions.exp(), end.exp()
        alphas, scales = [], []
        for t in range(T):
            step = (alphas[-1] @ A if t else start.exp()) * p[t]
            scale = step.sum(1, keepdim=True)
            alphas.append(torch.where(here[t], step / scale, alphas[-1]) if t else step / scale)
            scales.append(torch.where(here[t], scale, 1.0))
        total = (alphas[-1] * last).sum(1)
        betas = [last / total.unsqueeze(1)]
        for t in range(T - 1, 0, -1):
            betas.append(torch.where(here[t], (p[t] * betas[-1]) @ A.T / scales[t], betas[-1]))
        alpha, beta, c = torch.stack(alphas), torch.stack(betas[::-1]), torch.stack(scales)
        log_z = ((c.log() + largest) * here).sum() + total.log().sum()
        tokens = torch.where(here, alpha * beta, 0.0)
        ahead = torch.where(here[1:], p[1:] * beta[1:] / c[1:], 0.0)
        pairs = A * (alpha[:-1].flatten(0, 1).T @ ahead.flatten(0, 1))
        # What the tags themselves have, taken off.
        y, ends = tags.T, mask.sum(1) - 1
        last_tags = tags.gather(1, ends.unsqueeze(1)).squeeze(1)
        steps = transitions[y[:-1], y[1:]] * mask.T[1:]
        gold = (e.gather(2, y.unsqueeze(2)) * here).sum() + steps.sum() + start[y[0]].sum() + end[last_tags].sum()
        first, final = tokens[0].sum(0), (alphas[-1] * betas[0]).sum(0)
        tokens = tokens.scatter_add(2, y.unsqueeze(2), -here.to(tokens.dtype))
        L = len(start)
        pairs = pairs - torch.bincount((y[:-1] * L + y[1:])[mask.T[1:]], minlength=L * L).view(L, L)
        first, final = (x - torch.bincount(own, minlength=L) for x, own in ((first, y[0]), (final, last_tags)))
        ctx.save_for_backward(tokens.transpose(0, 1), pairs, first, final)
        return log_z - gold

    @staticmethod
    def backward(ctx, grad):
        tokens, pairs, first, final = (grad * x for x in ctx.saved_tensors)
        return tokens, None, None, pairs, first, final


def forward_backward(problem: Problem, loss: Callable[[], Tensor]) -> Callable[[], object]:
    leaves = [problem.emissions, *problem.ours.parameters(), *problem.theirs.parameters()]

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().backward()

    return step


def gradient(problem: Problem, loss: Callable[[], Tensor]) -> Tensor:
    forward_backward(problem, loss)()
    assert problem.emissions.grad is not None
    return problem.emissions.grad


def assert_same_nll(problem: Problem, other: Callable[[], Tensor], atol: float = 2e-3) -> None:
    """Loose, because of the rivals: at T = 500 pytorch-crf's float32 gradients are off by 5e-4, ours by 3e-7."""
    torch.testing.assert_close(problem.our_nll(), other(), rtol=1e-4, atol=1e-3)
    ours, theirs = gradient(problem, problem.our_nll), gradient(problem, other)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=atol)


def assert_same_best_path(problem: Problem) -> None:
    """The same scores in float64, and nearly always the same tags: in float32 pytorch-crf may miss by 1e-6."""
    crf = problem.theirs
    parts = problem.emissions[problem.mask], crf.transitions, crf.start_transitions, crf.end_transitions
    emissions, transitions, start, end = (part.detach().double().numpy() for part in parts)
    scores = chain.ChainScores(emissions, problem.lengths.numpy(), transitions, start, end)
    ours = problem.our_viterbi()[problem.mask].numpy()
    assert ours.tolist() == [tag for path in problem.our_decode() for tag in path]
    theirs = np.array([tag for path in problem.their_viterbi() for tag in path])
    assert (ours == theirs).mean() > 0.99
    np.testing.assert_allclose(scores.score(ours), scores.score(theirs), atol=1e-4)


def assert_same_best_score(problem: Problem) -> None:
    """torch-struct's parts must score what our paths score."""
    with torch.no_grad():
        ours = problem.ours.viterbi(problem.emissions, mask=problem.mask).scores.sum()
        theirs = (problem.struct_viterbi() * problem.potentials()).sum()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def time_struct(
    options: Options, shape: tuple[int, int, int], check: Callable[[], object], timed: Callable[[], object]
) -> float | str:
    """Time of torch-struct, or why there is none: it may fail, and takes minutes on the larger shapes."""
    B, T, L = shape
    if options.quick and B * T * L * L > 1_000_000:
        return "skipped"
    try:
        check()
        return options.time(timed)[0]
    except Exception as error:
        Console(stderr=True).print(f"torch-struct fails at {shape}: {type(error).__name__}: {str(error)[:200]}")
        return "fails"


def in_ms(seconds: float | str) -> float | str:
    return seconds if isinstance(seconds, str) else seconds * 1e3


def name_of(shape: tuple[int, int, int]) -> str:
    return ", ".join(map(str, shape))


def mean_over_rival(rows: list[Row], column: str = "x pytorch-crf") -> float:
    return geometric_mean(row[column] for row in rows)


def layer_nll(options: Options) -> Section:
    rows = []
    for shape in SHAPES:
        problem = Problem.make(*shape)
        assert_same_nll(problem, problem.their_nll)
        ours, theirs = options.time(
            forward_backward(problem, problem.our_nll), forward_backward(problem, problem.their_nll)
        )
        struct = time_struct(
            options,
            shape,
            lambda p=problem: assert_same_nll(p, p.struct_nll),
            forward_backward(problem, problem.struct_nll),
        )
        rows.append(
            {
                "B, T, L": name_of(shape),
                "trellis ms": ours * 1e3,
                "pytorch-crf ms": theirs * 1e3,
                "torch-struct ms": in_ms(struct),
                "x pytorch-crf": theirs / ours,
                "x torch-struct": None if isinstance(struct, str) else struct / ours,
            }
        )
    bars = [
        Bar("geometric mean over pytorch-crf", mean_over_rival(rows), 70),
        Bar("slowest shape over pytorch-crf", min(row["x pytorch-crf"] for row in rows), 25),
    ]
    return Section(f"CRF.nll forward + backward, {options.threads} threads, {_native.instruction_set()}", rows, bars)


def layer_long(options: Options) -> Section:
    """CPU time of one thread, in turns: a step of the rival at the second shape takes seconds."""
    torch.set_num_threads(1)
    trellis.set_num_threads(1)
    rows = []
    for shape in LONG_SHAPES:
        problem = Problem.make(*shape)
        losses = {"trellis": problem.our_nll, "by hand": problem.nll_by_hand, "pytorch-crf": problem.their_nll}
        for loss in (problem.nll_by_hand, problem.their_nll):
            assert_same_nll(problem, loss, atol=1e-2)
        best = dict.fromkeys(losses, float("inf"))
        for _ in range(2 if options.quick else 5):
            for name, loss in losses.items():
                step, begin = forward_backward(problem, loss), time.process_time()
                step()
                best[name] = min(best[name], time.process_time() - begin)
        row: Row = {"B, T, L": name_of(shape)} | {f"{name} ms": seconds * 1e3 for name, seconds in best.items()}
        rows.append(row | {f"x {name}": best[name] / best["trellis"] for name in ("by hand", "pytorch-crf")})
    torch.set_num_threads(options.threads)
    return Section(f"Shapes of DeLFT, loss forward + backward, 1 thread, {_native.instruction_set()}", rows)


def layer_viterbi(options: Options) -> Section:
    rows = []
    for shape in SHAPES:
        problem = Problem.make(*shape)
        with torch.no_grad():
            assert_same_best_path(problem)
            tensors, lists, theirs = options.time(problem.our_viterbi, problem.our_decode, problem.their_viterbi)
        struct = time_struct(options, shape, lambda p=problem: assert_same_best_score(p), problem.struct_viterbi)
        rows.append(
            {
                "B, T, L": name_of(shape),
                "viterbi ms": tensors * 1e3,
                "decode ms": lists * 1e3,
                "pytorch-crf ms": theirs * 1e3,
                "torch-struct ms": in_ms(struct),
                "x viterbi": theirs / tensors,
                "x decode": theirs / lists,
            }
        )
    bars = [
        Bar("viterbi (tensors): geometric mean over pytorch-crf", mean_over_rival(rows, "x viterbi"), 100),
        Bar("decode (lists): geometric mean over pytorch-crf", mean_over_rival(rows, "x decode"), 80),
    ]
    title = f"CRF.viterbi and CRF.decode against decode, {options.threads} threads, {_native.instruction_set()}"
    return Section(title, rows, bars, note="torch-struct returns parts, not tags; timed as is")


def loss_against_cross_entropy(options: Options) -> Section:
    rows, bars = [], []
    for shape in LOSS_SHAPES:
        problem = Problem.make(*shape)
        crf, plain = options.time(
            forward_backward(problem, problem.our_nll), forward_backward(problem, problem.cross_entropy)
        )
        name = name_of(shape)
        row: Row = {"B, T, L": name, "CRF us": crf * 1e6, "cross entropy us": plain * 1e6}
        rows.append(row | {"ratio": crf / plain})
        bars.append(Bar(f"CRF loss over cross entropy at ({name})", crf / plain, 1.5, at_least=False))
    title = f"CRF loss against cross_entropy, forward + backward, {options.threads} threads"
    return Section(title, rows, bars)


def random_scores(lengths: np.ndarray, L: int, dtype: str = "float32") -> chain.ChainScores:
    rng = np.random.default_rng(L)
    shapes = ((int(lengths.sum()), L), (L, L), (L,), (L,))
    emissions, transitions, start, end = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return chain.ChainScores(emissions, lengths, transitions, start, end)


def ragged_lengths(tokens: int, T: int = 40) -> np.ndarray:
    """Lengths from T/2 to T that add up to this many tokens, or a few more."""
    lengths = np.random.default_rng(tokens).integers(T // 2, T + 1, size=2 * tokens // T + 1)
    return lengths[: int(np.searchsorted(np.cumsum(lengths), tokens)) + 1]


def with_threads(threads: int, function: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        trellis.set_num_threads(threads)
        function()

    return call


def thread_scaling(options: Options) -> Section:
    rows = []
    for tokens in (8_000, 32_000, 128_000):
        for L in (9, 20):
            scores = random_scores(ragged_lengths(tokens), L)
            for name, (kernel, _) in KERNELS.items():
                one, two = options.time(*(with_threads(n, lambda k=kernel, s=scores: k(s)) for n in (1, 2)))
                rows.append(
                    {"N": tokens, "L": L, "kernel": name, "1 thread ms": one * 1e3, "2 threads ms": two * 1e3}
                    | {"speed-up": one / two}
                )
    ratios = [row["speed-up"] for row in rows]
    bars = [Bar("least speed-up of two threads", min(ratios), 1.7)]
    return Section("Two threads against one", rows, bars, f"geometric mean {geometric_mean(ratios):.2f}")


def time_per_token(options: Options) -> Section:
    lengths = [100, 1_000, 10_000, 100_000] + ([] if options.quick else [1_000_000])
    rows = []
    for T in lengths:
        scores = random_scores(np.array([T]), 9)
        row: Row = {"T": T}
        for name, (kernel, _) in KERNELS.items():
            row[f"{name} ns/token"] = options.time(lambda k=kernel, s=scores: k(s))[0] / T * 1e9
        rows.append(row)
    bars = [
        Bar(f"{name}: most time per token over least", max(figures) / min(figures), 1.5, at_least=False)
        for name in KERNELS
        for figures in [[row[f"{name} ns/token"] for row in rows]]
    ]
    return Section("One sequence, L = 9: time per token", rows, bars, "includes the call from Python")


def peak_rows(options: Options, dtype: str, lengths: np.ndarray) -> list[Row]:
    peaks, speeds = [], []
    for L in (16, 32, 64):
        scores = random_scores(lengths, L, dtype)
        work = L * L * len(scores.emissions)
        # The peak is measured next to each kernel: a busy neighbour must not lower it for one and not the other.
        peaks.append(core_peak(dtype))
        calls = [with_threads(1, lambda k=kernel, s=scores: k(s)) for kernel, _ in KERNELS.values()]
        seconds = dict(zip(KERNELS, options.time(*calls), strict=True))
        speeds.append((L, {name: flops * work / seconds[name] for name, (_, flops) in KERNELS.items()}))
    peak = max(peaks)
    return [
        {"type": dtype, "L": L, "peak Gflop/s": peak / 1e9}
        | {f"{name} %": 100 * speed / peak for name, speed in found.items()}
        for L, found in speeds
    ]


def share_of_peak(options: Options) -> Section:
    lengths = ragged_lengths(20_000 if options.quick else 100_000)
    rows = [row for dtype in ("float32", "float64") for row in peak_rows(options, dtype, lengths)]
    title = f"Share of the multiply-add peak, 1 thread, {_native.instruction_set()}"
    return Section(title, rows)


SECTIONS: dict[str, Callable[[Options], Section]] = {
    "layer": layer_nll,
    "long": layer_long,
    "viterbi": layer_viterbi,
    "loss": loss_against_cross_entropy,
    "threads": thread_scaling,
    "length": time_per_token,
    "peak": share_of_peak,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).parent / "results" / "chain.json"
    parser.add_argument("--quick", action="store_true", help="shorter timings and no sequence of a million tokens")
    parser.add_argument("--json", type=Path, default=default, metavar="PATH", help="file for the figures")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of both sides")
    parser.add_argument("--instructions", choices=INSTRUCTION_SETS, help="kernels of Trellis (default: the best here)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to run")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    options = Options(arguments.quick, arguments.threads)
    torch.set_num_threads(options.threads)
    if arguments.instructions and not _native.use_instruction_set(arguments.instructions):
        raise SystemExit(f"this machine has no instruction set {arguments.instructions!r}")
    console = make_console()
    sections = []
    for name in arguments.only:
        trellis.set_num_threads(options.threads)
        sections.append(SECTIONS[name](options))
        sections[-1].show(console)
    settings = {"threads": options.threads, "quick": options.quick, "dtype": "float32"}
    settings["instructions"] = _native.instruction_set()
    report = {"benchmark": "chain", "machine": machine(PACKAGES), "settings": settings}
    write_json(arguments.json, report | {"sections": [section.to_json() for section in sections]})
    missed = [bar for section in sections for bar in section.bars if not bar.met]
    console.print(f"{len(missed)} bars missed; figures in {arguments.json}")


if __name__ == "__main__":
    main()
