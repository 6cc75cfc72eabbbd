"""The decoder of exported files in onnxruntime: CPU milliseconds per batch, one thread, by what the graph gives.

    python benchmarks/decoder.py

The last row of each shape has one score of 1e4, so that its sums are computed in log space.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from _harness import Row, Section, machine, make_console, write_json

from trellis.export.decoder import OUTPUTS, Decoder
from trellis.export.graph import Graph

RESULTS = Path(__file__).parent / "results" / "decoder.json"
SHAPES = ((1, 40, 9), (64, 40, 9), (256, 40, 17))
ROUNDS = 15


def session(L: int, outputs: Sequence[str]) -> onnxruntime.InferenceSession:
    rng, graph = np.random.default_rng(L), Graph()
    mask = graph.input("mask", "bool", ["batch", "length"])
    emissions = graph.input("emissions", "float32", ["batch", "length", L])
    own = Decoder(rng.normal(size=(L, L)), rng.normal(size=L), rng.normal(size=L), None, L)
    own.add_to(graph, emissions, mask, outputs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.model({}).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def milliseconds(shape: tuple[int, int, int], outputs: Sequence[str], *, largest: float = 0.0) -> float:
    (B, T, L), rng = shape, np.random.default_rng(0)
    lengths = np.append(rng.integers(1, T + 1, B - 1), T)
    emissions = 3 * rng.normal(size=shape).astype(np.float32)
    emissions[0, 0, 0] += largest
    given = {"emissions": emissions, "mask": np.arange(T) < lengths[:, None]}
    runs, calls, best = session(L, outputs), max(1, 200 // B), math.inf
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(calls):
            runs.run(None, given)
        best = min(best, (time.process_time() - begin) / calls)
    return 1000 * best


def main() -> None:
    wanted = {"labels": OUTPUTS[:1], "marginals": OUTPUTS[1:2], "all three": OUTPUTS}
    rows: list[Row] = []
    for shape in SHAPES:
        times = {name: milliseconds(shape, outputs) for name, outputs in wanted.items()}
        rows.append({"(B, T, L)": str(shape), **times, "in log space": milliseconds(shape, OUTPUTS, largest=1e4)})
    section = Section("The decoder in onnxruntime, CPU ms per batch", rows, [])
    section.show(make_console())
    write_json(RESULTS, {"machine": machine(("trellis-crf", "onnxruntime", "numpy")), "sections": [section.to_json()]})


if __name__ == "__main__":
    main()
