"""The figures of README and of docs/performance.md: ``build/bench/bin/python benchmarks/readme.py ../shared/data``.

`make wheel` and ``python -m tools.bench`` make that environment, which has the wheel that users install. The figures
of README come first. A benchmark that would begin after --minutes is skipped, and one that is running then is stopped;
a list at the end says so. Flair and word vectors (`recipes/prepare.py glove`) are needed for the BiLSTM; without
--vectors it is skipped.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import trellis

HERE = Path(__file__).parent


def benchmarks(data: Path, vectors: Path | None) -> dict[str, list[str | Path]]:
    """What each figure says, and the command that prints it."""
    english, chinese = data / "ud_english_ewt", data / "ud_chinese_gsd"
    made: dict[str, list[str | Path]] = {
        "README: CRF layer beside pytorch-crf": ["chain.py", "--quick"],
        "README: feature CRF beside CRFsuite": ["feature_crf.py", english, "--only", "training"],
        "README: Chinese segmentation beside jieba": ["segmentation.py", chinese],
        "README: EM of an HMM beside hmmlearn": ["hmm.py", "--quick", "--only", "em", "agreement"],
    }
    if vectors is not None:
        network = ["neural.py", data / "wnut17", "--vectors", vectors, "--epochs", "6"]
        made["README: BiLSTM-CRF beside Flair"] = network
    return made | {
        "text never seen, threads, sklearn-crfsuite's drop-in": ["tagging.py", english],
        "start of the command line": ["startup.py", chinese],
        "entity F1 beside seqeval": ["metrics.py"],
        "reading CoNLL columns": ["corpus.py"],
        "CRF layer with AVX2": ["chain.py", "--quick", "--only", "layer", "--instructions", "avx2"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with ud_english_ewt, ud_chinese_gsd and wnut17")
    parser.add_argument("--vectors", type=Path, help="glove.6B.50d.txt")
    parser.add_argument("--minutes", type=float, default=20)
    given = parser.parse_args()
    print(f"measured: {trellis.__file__}")
    begin = time.monotonic()
    results = {}
    for name, (script, *options) in benchmarks(given.data, given.vectors).items():
        left = 60 * given.minutes - (time.monotonic() - begin)
        if left <= 0:
            results[name] = "skipped: the time was over"
            continue
        print(f"\n{name}: benchmarks/{script}", flush=True)
        started = time.monotonic()
        try:
            code = subprocess.run([sys.executable, HERE / script, *options], timeout=left, check=False).returncode
            results[name] = f"exit code {code}" if code else f"{time.monotonic() - started:.0f} s"
        except subprocess.TimeoutExpired:
            results[name] = "stopped: the time was over"
    print()
    for name, result in results.items():
        print(f"{result:28}{name}")


if __name__ == "__main__":
    main()
