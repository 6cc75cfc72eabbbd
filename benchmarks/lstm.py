"""One bidirectional LSTM layer against torch's, forward and backward, on the same ragged batches, on the CPU.

torch has two ways. Packed sequences give the same numbers as Trellis. A padded batch is faster, but in the backward
direction its sequences begin with padding, so the numbers differ. It is here because most taggers do it.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from _harness import Bar, Row, Section, best_of_each, geometric_mean, machine, make_console, write_json
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from trellis.nn.lstm import Packing, run_lstm

SIZE, HIDDEN = 100, 100  # features, and units in each direction
BATCHES = {"10 sentences": 10, "32 sentences": 32, "128 sentences": 128}
RIVALS = ("torch, packed", "torch, padded")
TRAINING, TAGGING = FIGURES = ("forward + backward ms", "forward only ms")
EPILOG = """examples:
  python benchmarks/lstm.py
  python benchmarks/lstm.py --threads 1 --seconds 2
"""


class Sides:
    """One batch of sentences of 5 to 35 words, and what each side does with it."""

    def __init__(self, sentences: int) -> None:
        rng = np.random.default_rng(0)
        self.lengths: npt.NDArray[np.int64] = np.sort(rng.integers(5, 36, sentences))[::-1].copy()
        torch.manual_seed(0)
        self.layer = nn.LSTM(SIZE, HIDDEN, bidirectional=True)
        self.flat = torch.randn(int(self.lengths.sum()), SIZE, requires_grad=True)
        self.padded = nn.utils.rnn.pad_sequence(list(self.flat.detach().split(self.lengths.tolist())))
        self.padded.requires_grad_()

    def trellis(self) -> Tensor:
        return run_lstm(self.layer, self.flat, Packing.of(self.lengths))

    def packed(self) -> Tensor:
        states: Tensor = self.layer(pack_padded_sequence(self.padded, torch.from_numpy(self.lengths)))[0].data
        return states

    def over_padding(self) -> Tensor:
        states: Tensor = self.layer(self.padded)[0]
        return states


def timed_ways(sides: Sides, seconds: float) -> dict[str, list[float]]:
    """Seconds of a training step and of tagging, for each side."""
    ways: dict[str, Callable[[], Tensor]] = {
        "Trellis": sides.trellis,
        RIVALS[0]: sides.packed,
        RIVALS[1]: sides.over_padding,
    }

    def tag(way: Callable[[], Tensor]) -> None:
        with torch.inference_mode():
            way()

    steps = best_of_each(*(lambda way=way: way().sum().backward() for way in ways.values()), seconds=seconds)
    tagging = best_of_each(*(lambda way=way: tag(way) for way in ways.values()), seconds=seconds)
    return {name: [step, tagged] for name, step, tagged in zip(ways, steps, tagging, strict=True)}


def section(threads: int, seconds: float) -> Section:
    torch.set_num_threads(threads)
    rows: list[Row] = []
    for name, sentences in BATCHES.items():
        for side, (step, tagging) in timed_ways(Sides(sentences), seconds).items():
            rows.append({"batch": name, "side": side, TRAINING: 1e3 * step, TAGGING: 1e3 * tagging})
    bars = [Bar(f"times {side}, {figure}", ratio(rows, side, figure), 1) for side in RIVALS for figure in FIGURES]
    return Section(f"{SIZE} features, 2 x {HIDDEN} units, float32, threads: {threads}", rows, bars)


def ratio(rows: list[Row], rival: str, figure: str) -> float:
    """How many times faster than the rival, geometric mean over the batches."""
    ours, theirs = ([row[figure] for row in rows if row["side"] == side] for side in ("Trellis", rival))
    return geometric_mean(their / our for our, their in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/lstm.json"))
    options = parser.parse_args()
    sections = [section(threads, options.seconds) for threads in options.threads]
    console = make_console()
    for one in sections:
        one.show(console)
    content = {"machine": machine(["trellis", "torch"]), "sections": [one.to_json() for one in sections]}
    write_json(options.json, content)


if __name__ == "__main__":
    main()
