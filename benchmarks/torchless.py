"""A BiLSTM tagger without torch beside the same one as a torch module: start, memory, tokens per second.

Start and memory are those of ``trellis tag`` on one sentence, and of a process that loads torch and then the model.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _harness import Bar, Row, Section, best_of, best_of_each, machine, make_console, write_json

import trellis
from trellis import corpus

EPILOG = """examples:
  trellis train -m bilstm-crf --train ../shared/data/wnut17/wnut17train.conll -o /tmp/model --set training.epochs=2
  python benchmarks/torchless.py /tmp/model ../shared/data/wnut17/emerging.test.annotated
"""
# Not ru_maxrss, which begins with the memory of the process that starts this one, and that has torch.
MEASURED = """import atexit, re
atexit.register(lambda: print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]))
"""
TAG = "import sys; from trellis.cli import main; sys.argv = ['trellis', 'tag', *sys.argv[1:]]; main()"
MODULE = "import sys, torch, trellis; m = trellis.load(sys.argv[1]); m.model_.network; m.predict([['a', 'b']])"


def start(title: str, code: str, *arguments: str) -> Row:
    """Seconds until a process has answered and ended, best of five, and the most memory it had."""
    command = [sys.executable, "-c", MEASURED + code, *arguments]

    def run() -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return {"what": title, "seconds": best_of(run, seconds=0.0), "peak MB": int(run().split()[-1]) / 1000}


def starts(model: Path) -> Section:
    weights = sum(file.stat().st_size for file in (model.glob("*.safetensors") if model.is_dir() else [model])) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text("Ada lives in Paris .\n", encoding="utf-8")
        rows = [start("trellis tag", TAG, str(model), str(text)), start("torch and its module", MODULE, str(model))]
    bars = [
        Bar("seconds of trellis tag", rows[0]["seconds"], 0.5, at_least=False),
        Bar("MB beyond the model", rows[0]["peak MB"] - weights, 150, at_least=False),
    ]
    return Section(f"Start, model of {weights:.1f} MB", rows, bars)


def speeds(model: Path, file: Path, threads: int, seconds: float) -> Section:
    torch.set_num_threads(threads)
    trellis.set_num_threads(threads)
    native, module = trellis.load(model), trellis.load(model)
    assert module.model_.network is not None, "from now on it answers"  # type: ignore[attr-defined]
    sentences = [list(sentence.tokens) for sentence in corpus.read(file)]
    some = sentences[:100]

    def one_by_one(tagger: Any) -> Callable[[], object]:
        return lambda: [tagger.predict([own]) for own in some]

    rows, bars = [], []
    for what, inputs, ask in (
        ("all at once", sentences, lambda tagger: lambda: tagger.predict(sentences)),
        ("one by one", some, one_by_one),
    ):
        tokens = sum(map(len, inputs))
        taken = best_of_each(ask(native), ask(module), seconds=seconds)
        rows.append({"sentences": what, "native tokens/s": tokens / taken[0], "torch tokens/s": tokens / taken[1]})
        bars.append(Bar(f"native over torch, {what}", taken[1] / taken[0], 1.0))
    return Section(f"Tagging, {threads} thread(s)", rows, bars)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path, help="sentences to tag, in any format")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/torchless.json"))
    options = parser.parse_args()
    sections = [starts(options.model)]
    sections += [speeds(options.model, options.file, threads, options.seconds) for threads in options.threads]
    console = make_console()
    for one in sections:
        one.show(console)
    content = {"machine": machine(["trellis", "numpy", "torch"]), "sections": [one.to_json() for one in sections]}
    write_json(options.json, content)


if __name__ == "__main__":
    main()
