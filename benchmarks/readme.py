"""The figures of README, one benchmark after another: ``build/bench/bin/python benchmarks/readme.py ../shared/data``.

`make wheel` and ``python -m tools.bench`` make that environment, which has the wheel that users install. Flair and word
vectors are needed for the last figure (`recipes/prepare.py glove`); without --vectors it is skipped.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import trellis

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with ud_english_ewt, ud_chinese_gsd and wnut17")
    parser.add_argument("--vectors", type=Path, help="glove.6B.50d.txt")
    given = parser.parse_args()
    figures = {
        "CRF layer beside pytorch-crf": ["chain.py", "--only", "layer"],
        "feature CRF beside CRFsuite": ["feature_crf.py", given.data / "ud_english_ewt", "--only", "training"],
        "Chinese segmentation beside jieba": ["segmentation.py", given.data / "ud_chinese_gsd"],
        "EM of an HMM beside hmmlearn": ["hmm.py", "--only", "em", "agreement"],
    }
    if given.vectors:
        figures["BiLSTM-CRF beside Flair"] = ["neural.py", given.data / "wnut17", "--vectors", given.vectors]
    print(f"measured: {trellis.__file__}")
    for name, (script, *options) in figures.items():
        print(f"\n{name}: benchmarks/{script}", flush=True)
        subprocess.run([sys.executable, HERE / str(script), *options], check=True)


if __name__ == "__main__":
    main()
