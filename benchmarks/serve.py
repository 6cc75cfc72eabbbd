"""The server under load, against the same model in this process: throughput, latency, refusals, memory, mixed answers.

    python benchmarks/serve.py                        a short run, about two minutes
    python benchmarks/serve.py --seconds 600          what the bar of memory is about
    python benchmarks/serve.py --families crf

Load and server share this machine, each in a process of its own. The bars are ratios of one run:

    saturation    tokens per second of large requests, against `predict` with batches of the same size; and per second
                  of the processors' time, which a busy machine does not change
    together      requests per second of 64 clients with one sentence each, against one client that waits for each
                  answer, and against 64 clients of a server whose batches are single sentences
    overload      more clients than fill the queue: the 99th percentile stays within the deadline, the rest is refused
    memory        growth of the server's resident memory from the second half of the load to its end
    mixed         answers that belong to another request, of all that were checked
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, make_console, write_json

import trellis
from trellis import demo
from trellis.models import folder

HERE = Path(__file__).parent
BATCH_TOKENS = 4096
DEADLINE = 2.0
Pair = tuple[str, str]


def trained(family: str, place: Path) -> trellis.models.Tagger[Any]:
    """A tagger of the demo corpus, saved in a folder; a BiLSTM learns for one epoch, since only its speed counts."""
    data = demo.english()
    if family == "crf":
        tagger: Any = trellis.CRF(features="ner", c2=0.1).fit(data.train)
    else:
        tagger = trellis.NeuralTagger(training={"epochs": 1}).fit(data.train[:400], dev=data.dev[:50])
    folder.save_model(folder.prepare(place), tagger)
    return tagger


@contextmanager
def server(place: Path, *options: object) -> Iterator[tuple[int, int]]:
    """Port and process of a server."""
    command = [sys.executable, "-m", "trellis", "serve", f"model={place}", "--port", "0", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        try:
            yield int(line.split("http://")[1].split()[0].rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def load(port: int, clients: int, seconds: float, pairs: Sequence[Pair], place: Path) -> dict[str, Any]:
    """What clients in a process of their own saw."""
    file = place.with_suffix(".json")
    file.write_text(json.dumps(pairs))
    command = [sys.executable, str(HERE / "_load.py"), str(port), str(clients), str(seconds), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def pair(tagger: Any, sentences: list[list[str]]) -> Pair:
    """A request for tags, and the end of the answer to it."""
    results = [{"tags": tags} for tags in tagger.predict(sentences)]
    body = json.dumps({"tokens": sentences, "probabilities": False}, separators=(",", ":"))
    return body, json.dumps(results, ensure_ascii=False, separators=(",", ":")) + "}"


def batches(sentences: list[list[str]], tokens: int) -> list[list[list[str]]]:
    """The sentences in requests of about so many tokens."""
    found: list[list[list[str]]] = [[]]
    for sentence in sentences:
        if sum(map(len, found[-1])) + len(sentence) > tokens:
            found.append([])
        found[-1].append(sentence)
    return found


def memory(process: int) -> float:
    """Megabytes that a process occupies."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def processor_seconds(process: int) -> float:
    """The time that all threads of a process have computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_process(tagger: Any, requests: Sequence[list[list[str]]], seconds: float) -> tuple[float, float]:
    """Tokens per second of `predict`, and per second of the processors' time; over as long as the server has."""
    tokens, rounds = sum(len(s) for own in requests for s in own), 0
    begin, spent = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        for own in requests:
            tagger.predict(own)
        rounds += 1
    total = tokens * rounds
    return total / (time.perf_counter() - begin), total / (time.process_time() - spent)


def saturation(family: str, tagger: Any, place: Path, seconds: float) -> Section:
    """Large requests from a few clients, against `predict` with the same batches."""
    sentences = [list(s.tokens) for s in demo.english().train]
    requests = batches(sentences, BATCH_TOKENS)[:-1]
    tokens = sum(map(len, sentences[: sum(map(len, requests))])) / len(requests)
    alone = in_process(tagger, requests, seconds)
    with server(place) as (port, process):
        pairs = [pair(tagger, own) for own in requests]
        load(port, 4, 1.0, pairs, place)
        before = processor_seconds(process)
        found = load(port, 4, seconds, pairs, place)
        spent = processor_seconds(process) - before
    total = tokens * found["statuses"].get("200", 0)
    served = total / found["took"], total / spent
    limit = {"crf": 0.7}.get(family, 0.85)
    names = ("tokens per second", "per second of processors")
    rows: list[Row] = [
        {"what": "predict in this process", **dict(zip(names, alone, strict=True)), "p99, ms": None},
        {"what": "the server, 4 clients", **dict(zip(names, served, strict=True)), "p99, ms": 1000 * found["p99"]},
    ]
    bars = [
        Bar("served / in process", served[0] / alone[0], limit),
        Bar("served / in process, by the processors' time", served[1] / alone[1], limit),
        _none_mixed(found),
    ]
    return Section(f"{family}: saturation, requests of {BATCH_TOKENS} tokens", rows, bars)


def together(family: str, tagger: Any, place: Path, seconds: float) -> Section:
    """Many clients with one sentence each."""
    pairs = [pair(tagger, [list(s.tokens)]) for s in demo.english().train]
    with server(place) as (port, process):
        load(port, 8, 1.0, pairs, place)
        one = load(port, 1, seconds, pairs, place)
        many = load(port, 64, seconds, pairs, place)
        before = memory(process)
        more = load(port, 64, seconds, pairs, place)
        growth = memory(process) / before - 1
    with server(place, "--batch-tokens", 1) as (port, _):
        single = load(port, 64, seconds, pairs, place)
    found = {"one client": one, "64 clients": many, "64 clients, batches of one": single}
    rows: list[Row] = [
        {"who": who, "requests per second": _rate(own), "p50, ms": 1e3 * own["p50"], "p99, ms": 1e3 * own["p99"]}
        for who, own in found.items()
    ]
    bars = [
        Bar("64 clients / one", _rate(many) / _rate(one), 8.0),
        Bar("64 clients / the same without batches", _rate(many) / _rate(single), 1.0),
        Bar("growth of memory, %", 100 * growth, 3.0, at_least=False),
        *(_none_mixed(own) for own in (one, many, more)),
    ]
    return Section(f"{family}: one sentence per request", rows, bars)


def overload(family: str, tagger: Any, place: Path, seconds: float) -> Section:
    """More than the queue holds: what is answered is answered in time, and the rest is refused at once."""
    sentences = [list(s.tokens) for s in demo.english().train]
    pairs = [pair(tagger, own) for own in batches(sentences, BATCH_TOKENS)[:-1]]
    with server(place, "--timeout", DEADLINE, "--max-tokens", 2 * BATCH_TOKENS) as (port, _):
        found = load(port, 96, seconds, pairs, place)
    counts = found["statuses"]
    rows: list[Row] = [
        {"answered": counts.get("200", 0), "refused (429)": counts.get("429", 0), "late (503)": counts.get("503", 0)}
    ]
    bars = [Bar("p99, seconds", found["p99"], DEADLINE * 1.25, at_least=False), _none_mixed(found)]
    undeclared = {status: count for status, count in counts.items() if status not in ("200", "429", "503")}
    return Section(f"{family}: overload, 96 clients", rows, bars, note=f"other statuses: {undeclared or 'none'}")


def _rate(found: dict[str, Any]) -> float:
    return float(found["statuses"].get("200", 0) / found["took"])


def _none_mixed(found: dict[str, Any]) -> Bar:
    return Bar(f"mixed answers of {found['statuses'].get('200', 0):,}", found["mixed"], 0, at_least=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=["crf", "bilstm-crf"], choices=["crf", "bilstm-crf"])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    options = parser.parse_args()
    console, sections = make_console(), []
    with tempfile.TemporaryDirectory() as folder_:
        for family in options.families:
            place = Path(folder_) / family
            tagger = trained(family, place)
            for measure in (saturation, together, overload):
                sections.append(measure(family, tagger, place, options.seconds))
                sections[-1].show(console)
    packages = ("starlette", "uvicorn", "httptools", "uvloop")
    content = {"machine": machine(packages), "sections": [section.to_json() for section in sections]}
    write_json(HERE / "results" / "serve.json", content)


if __name__ == "__main__":
    main()
