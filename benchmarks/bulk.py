"""Bulk tagging of a folder of shards with a feature CRF: one process, two, and Ray with two; reading, writing and all.

    python benchmarks/bulk.py [--data FOLDER OF UD_ENGLISH_EWT] [--model DIR] [--tokens 5000000] [--engines local ray]

Without corpora the model is that of the demo and the texts are its sentences, over and over. Each run tags the same
Parquet shards of texts into Parquet with tokens, tags and spans, and all outputs must be the same byte for byte. The
bar is that two workers do at least 1.6 times the tokens per second of one process, and that the memory of a worker does
not grow: its largest in the last third of a run is at most 1.1 times that in the second third. Seconds are those of the
run with the start of its workers; the start of a cluster is told apart. Steady is the rate without any start. Writes
benchmarks/results/bulk.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from _harness import Bar, Row, Section, machine, make_console, write_json

from trellis import corpus, demo
from trellis.distributed import tag_folder
from trellis.distributed.engines import open_engine
from trellis.models import CRF
from trellis.models.folder import MODEL, prepare, save_model
from trellis.text import Sentence

RESULTS = Path(__file__).parent / "results" / "bulk.json"
SHARDS = 20
SIZES = (5, 1)
"""All tokens are divided by these."""
GAIN, GROWTH = 1.6, 1.1


@dataclass
class Memory:
    """The resident memory of the processes below this one that tag, sampled while the block runs."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    def __enter__(self) -> Memory:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            found = [resident(pid) for pid in workers_below(os.getpid())]
            if found:
                self.samples.append((time.monotonic(), max(found)))

    def thirds(self) -> tuple[float, float]:
        """The largest worker in the second third of the run and in the last, in megabytes; in the first they start."""
        begin, end = self.samples[0][0], self.samples[-1][0]
        third = (end - begin) / 3
        parts = [
            [size for when, size in self.samples if start <= when <= start + third]
            for start in (begin + third, begin + 2 * third)
        ]
        return max(parts[0]) / 1e6, max(parts[1]) / 1e6


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def workers_below(root: int) -> list[int]:
    """The processes below this one that tag: those of ours, and Ray's at work."""
    below, found = children_of(root), []
    while below:
        pid = below.pop()
        below += children_of(pid)
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"trellis.distributed.worker" in line or line.startswith(b"ray::attempt"):
            found.append(pid)
    return found


def children_of(pid: int) -> list[int]:
    """The processes that a process has started; this takes so little time that it does not disturb them."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def sentences_of(data: Path | None) -> tuple[list[Sentence], list[Sentence], str]:
    """What the model learns from, what is tagged, and the kind of features."""
    if data is None:
        return demo.english().train, demo.english().test, "ner"
    parts = [list(corpus.read(data / f"en_ewt-ud-{part}.conllu")) for part in ("train", "dev", "test")]
    return parts[0], [*parts[1], *parts[2], *parts[0]], "pos"


def write_shards(folder: Path, sentences: list[Sentence], tokens: int) -> int:
    """Texts in Parquet, of together at least this many tokens; how many they are."""
    folder.mkdir()
    texts = cycle([(sentence.text or " ".join(sentence.tokens), len(sentence)) for sentence in sentences])
    written = 0
    for number in range(SHARDS):
        own: list[str] = []
        while written < tokens * (number + 1) / SHARDS:
            text, count = next(texts)
            own.append(text)
            written += count
        table = pa.table({"id": pa.array(range(len(own)), pa.int64()), "text": own})
        pq.write_table(table, folder / f"part-{number:03}.parquet", compression="zstd")
    return written


def outputs_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def measured(model: Path, shards: Path, out: Path, engine: str, workers: int) -> Row:
    """One run: its seconds, those of starting a cluster, and the memory of its workers."""
    begin = time.monotonic()
    with open_engine(engine, workers) if engine != "local" else nullcontext():
        started = time.monotonic()
        with Memory() as memory:
            report = tag_folder(model, [shards], out, engine=engine, workers=workers)
        seconds = time.monotonic() - started
    second, third = memory.thirds()
    row: Row = {"engine": engine, "workers": workers, "tokens": report.tokens, "seconds": seconds}
    row |= {"cluster": started - begin, "tokens/s": report.tokens / seconds}
    return row | {"MB, 2nd third": second, "MB, last third": third, "growth": third / second}


def both_sizes(model: Path, place: Path, engine: str, workers: int) -> list[Row]:
    """A fifth of the tokens and all of them: the difference is what they take once the workers have started."""
    rows = [
        measured(model, place / f"in-{size}", place / f"{engine}-{workers}-{size}", engine, workers) for size in SIZES
    ]
    few, many = rows
    few["steady tokens/s"] = None
    many["steady tokens/s"] = (many["tokens"] - few["tokens"]) / (many["seconds"] - few["seconds"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", type=Path, help="a trained model; trained there if there is none")
    parser.add_argument("--tokens", type=int, default=5_000_000)
    parser.add_argument("--engines", nargs="*", default=["local", "ray"])
    given = parser.parse_args()
    learned, tagged, features = sentences_of(given.data)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        model = prepare(given.model or place / "model")
        if not (model / MODEL).exists():
            save_model(model, CRF(features=features, c2=0.1, max_iterations=30).fit(learned))
        for size in SIZES:
            write_shards(place / f"in-{size}", tagged, given.tokens // size)
        for engine, workers in [("local", 1), *((engine, 2) for engine in given.engines)]:
            rows += both_sizes(model, place, engine, workers)
            for size in SIZES:
                same = outputs_of(place / f"{engine}-{workers}-{size}") == outputs_of(place / f"local-1-{size}")
                assert same, f"{engine} with {workers} workers writes other files"
        read, written = (sum(map(len, outputs_of(place / name).values())) for name in ("in-1", "local-1-1"))
    wholes = rows[1::2]
    one, count = wholes[0], wholes[0]["tokens"]
    bars = [
        Bar(f"{row['engine']}, 2 workers to one process, {name}", row[name] / one[name], GAIN)
        for row in wholes[1:]
        for name in ("tokens/s", "steady tokens/s")
    ]
    bars += [Bar(f"memory of a worker, {row['engine']}", row["growth"], GROWTH, at_least=False) for row in wholes]
    note = f"Bytes per token: {read / count:.2f} read, {written / count:.2f} written. All outputs are the same."
    section = Section(f"Bulk tagging of {count:,} tokens in {SHARDS} shards", rows, bars, note)
    section.show(make_console())
    write_json(RESULTS, {"machine": machine(["trellis-crf", "pyarrow", "ray"]), "sections": [section.to_json()]})


if __name__ == "__main__":
    main()
