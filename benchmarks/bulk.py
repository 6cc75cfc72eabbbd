"""Bulk tagging of a folder of shards with a feature CRF: one process, two, and Ray with two; reading, writing and all.

    python benchmarks/bulk.py [--data FOLDER OF UD_ENGLISH_EWT] [--model DIR] [--tokens 5000000] [--engines local ray]

Without corpora the model is that of the demo and the texts are its sentences, over and over. Each run tags the same
Parquet shards of texts into Parquet with tokens, tags and spans, and all outputs must be the same byte for byte. The
bar is that two workers do at least 1.6 times the tokens per second of one process, and that the memory of a worker does
not grow: its largest in the last third of a run is at most 1.1 times that in the second third.

Seconds are those of the quickest of three runs with the start of its workers. A cluster is started before, and its
seconds are told apart. "ray, fresh" is the first run in a cluster, whose workers have yet to import everything; "ray"
is the next run in the same cluster, with a copy of the model that its workers have not opened yet. Steady is the rate
without any start. Writes benchmarks/results/bulk.json.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from _harness import Bar, Row, Section, machine, make_console, write_json

import trellis
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
ROUNDS = 3
GAIN, GROWTH = 1.6, 1.1
WATCH = "--watch"


@dataclass
class Memory:
    """The resident memory of the processes below this one that tag, sampled by another process while the block runs.

    A thread of this process would keep its workers from being copies of it.
    """

    samples: list[tuple[float, int]] = field(default_factory=list)

    def __enter__(self) -> Memory:
        command = [sys.executable, __file__, WATCH, str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun
        return self

    def __exit__(self, *problem: object) -> None:
        self.samples = [(when, size) for when, size in json.loads(self._process.communicate()[0])]

    def thirds(self) -> tuple[float, float]:
        """The largest worker in the second third of the run and in the last, in megabytes; in the first they start."""
        begin, end = self.samples[0][0], self.samples[-1][0]
        third = (end - begin) / 3
        parts = [
            [size for when, size in self.samples if start <= when <= start + third]
            for start in (begin + third, begin + 2 * third)
        ]
        return max(parts[0]) / 1e6, max(parts[1]) / 1e6


def watch(root: int) -> None:
    """What the other process does, until its input ends."""
    print("begun", flush=True)
    samples = []
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        found = [resident(pid) for pid in workers_below(root)]
        if found:
            samples.append((time.monotonic(), max(found)))
    print(json.dumps(samples))


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
        copied = Path(__file__).name.encode() in line and WATCH.encode() not in line
        if copied or b"multiprocessing.spawn" in line or line.startswith(b"ray::attempt"):
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
    """One run: its seconds, and the memory of its workers."""
    with Memory() as memory:
        started = time.monotonic()
        report = tag_folder(model, [shards], out, engine=engine, workers=workers)
        seconds = time.monotonic() - started
    second, third = memory.thirds()
    row: Row = {"engine": engine, "workers": workers, "tokens": report.tokens, "seconds": seconds}
    row |= {"cluster": None, "tokens/s": report.tokens / seconds}
    return row | {"MB, 2nd third": second, "MB, last third": third, "growth": third / second}


def runs(model: Path, shards: Path, out: Path, engine: str, workers: int) -> list[Row]:
    """The run of processes, or the first two in a cluster."""
    if engine == "local":
        return [measured(model, shards, out, engine, workers)]
    begin = time.monotonic()
    with open_engine(engine, workers):
        cluster = time.monotonic() - begin
        first = measured(model, shards, out.with_name(f"{out.name}-fresh"), engine, workers)
        other = shutil.copytree(model, out.with_name(f"{out.name}-model"))
        again = measured(other, shards, out, engine, workers)
    return [first | {"engine": f"{engine}, fresh", "cluster": cluster}, again]


def best_runs(model: Path, place: Path, size: int, engine: str, workers: int) -> list[Row]:
    """The quickest of several."""
    found = [
        runs(model, place / f"in-{size}", place / f"{engine}-{workers}-{size}-{number}", engine, workers)
        for number in range(ROUNDS)
    ]
    return [min(rows, key=lambda row: row["seconds"]) for rows in zip(*found, strict=True)]


def all_sizes(model: Path, place: Path, engine: str, workers: int) -> Iterator[list[Row]]:
    """Of each run: a fifth of the tokens and all of them; the difference is what they take without any start."""
    sizes = [best_runs(model, place, size, engine, workers) for size in SIZES]
    for few, many in zip(*sizes, strict=True):
        few["steady tokens/s"] = None
        many["steady tokens/s"] = (many["tokens"] - few["tokens"]) / (many["seconds"] - few["seconds"])
        yield [few, many]


def main() -> None:
    if sys.argv[1:2] == [WATCH]:
        watch(int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", type=Path, help="a trained model; trained there if there is none")
    parser.add_argument("--tokens", type=int, default=5_000_000)
    parser.add_argument("--engines", nargs="*", default=["local", "ray"])
    given = parser.parse_args()
    compileall.compile_dir(Path(trellis.__file__).parent, quiet=1)  # as pip does; workers would do it in each run
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
            rows += [row for pair in all_sizes(model, place, engine, workers) for row in pair]
        for size in SIZES:
            for out in (path.parent.parent for path in place.glob(f"*-[12]-{size}-*/_trellis/SHA256SUMS")):
                assert outputs_of(out) == outputs_of(place / f"local-1-{size}-0"), f"{out.name} has other files"
        read, written = (sum(map(len, outputs_of(place / name).values())) for name in ("in-1", "local-1-1-0"))
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
