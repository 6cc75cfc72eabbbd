"""The server under load, against the same model in this process: throughput, latency, refusals, memory, mixed answers.

    python benchmarks/serve.py                        a short run, about two minutes
    python benchmarks/serve.py --only endurance --endurance 600
    python benchmarks/serve.py --families crf --only saturation together

Load and server share this machine, each in a process of its own. The bars are ratios of one run: of three rounds the
best, or the median where processors' time is compared:

    saturation    tokens per second of large requests, against `predict` with batches of the same size; and per second
                  of the processors' time, which a busy machine does not change
    lines         the same for JSON Lines, one sentence per line, about 95,000 tokens in a body
    together      requests per second of 64 clients with one sentence each, against one client that waits for each
                  answer, and against 64 clients of a server whose batches are single sentences; what a request costs
                  the server in time of the processors, which a busy machine does not change as much
    overload      more clients than fill the queue: the 99th percentile stays within the deadline, the rest is refused
    endurance     growth of the server's resident memory from a tenth of the time to its end
    workers       proportional memory (PSS) of a server with two workers, against one
    rival         LitServe, if it is installed, with the same model and the same requests
    mixed         in all of them: answers that belong to another request
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, make_console, write_json
from _serving import HERE, Pair, litserve, load, memory, post_lines, processor_seconds, server

import trellis
from trellis import demo
from trellis.models import folder

BATCH_TOKENS = 4096
DEADLINE = 2.0
ROUNDS = 3


def trained(family: str, place: Path) -> trellis.models.Tagger[Any]:
    """A tagger of the demo corpus, saved in a folder; a BiLSTM learns for one epoch, since only its speed counts."""
    data = demo.english()
    if family == "crf":
        tagger: Any = trellis.CRF(features="ner", c2=0.1).fit(data.train)
    else:
        tagger = trellis.NeuralTagger(training={"epochs": 1}).fit(data.train[:400], dev=data.dev[:50])
    folder.save_model(folder.prepare(place), tagger)
    return tagger


def pair(tagger: Any, sentences: list[list[str]]) -> Pair:
    """A request for tags, and the end of the answer to it."""
    results = [{"tags": tags} for tags in tagger.predict(sentences)]
    body = json.dumps({"tokens": sentences, "probabilities": False}, separators=(",", ":"))
    return body, json.dumps(results, ensure_ascii=False, separators=(",", ":")) + "}"


def single_sentences(tagger: Any) -> list[Pair]:
    """Requests of one sentence."""
    return [pair(tagger, [list(s.tokens)]) for s in demo.english().train]


def batches(sentences: list[list[str]], tokens: int) -> list[list[list[str]]]:
    """The sentences in requests of about so many tokens."""
    found: list[list[list[str]]] = [[]]
    for sentence in sentences:
        if sum(map(len, found[-1])) + len(sentence) > tokens:
            found.append([])
        found[-1].append(sentence)
    return found


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


def saturation(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """Large requests from a few clients, against `predict` with the same batches, in turns."""
    sentences = [list(s.tokens) for s in demo.english().train]
    requests = batches(sentences, BATCH_TOKENS)[:-1]
    tokens = sum(map(len, sentences[: sum(map(len, requests))])) / len(requests)
    pairs, seconds, loads = [pair(tagger, own) for own in requests], options.seconds / ROUNDS, []
    alone: list[tuple[float, float]] = []
    served: list[tuple[float, float]] = []
    with server(place) as (port, process):
        load(port, 4, 0.5, pairs, place)
        for _ in range(ROUNDS):
            alone.append(in_process(tagger, requests, seconds))
            before = processor_seconds(process)
            loads.append(load(port, 4, seconds, pairs, place))
            total = tokens * loads[-1]["statuses"].get("200", 0)
            served.append((total / loads[-1]["took"], total / (processor_seconds(process) - before)))
    rows, bar = _beside_predict(family, alone, served, "the server, 4 clients")
    rows[1]["p99, ms"] = _least_p99(loads)
    return Section(f"{family}: saturation, requests of {BATCH_TOKENS} tokens", rows, [bar, _none_mixed(*loads)])


def lines(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """JSON Lines from one client, against `predict` with batches, in turns."""
    sentences = 8 * [list(s.tokens) for s in demo.english().train]
    requests, seconds = batches(sentences, BATCH_TOKENS), options.seconds / ROUNDS
    tokens, body = sum(map(len, sentences)), b"".join(json.dumps({"tokens": s}).encode() + b"\n" for s in sentences)
    expected = [{"tags": tags} for tags in tagger.predict(sentences)]
    alone: list[tuple[float, float]] = []
    served: list[tuple[float, float]] = []
    wrong = answered = 0
    with server(place) as (port, process):
        post_lines(port, body)
        for _ in range(ROUNDS):
            alone.append(in_process(tagger, requests, seconds))
            answers, before, begin = [], processor_seconds(process), time.perf_counter()
            while time.perf_counter() - begin < seconds:
                answers.append(post_lines(port, body))
            total = tokens * len(answers)
            spent = processor_seconds(process) - before
            served.append((total / (time.perf_counter() - begin), total / spent))
            answered += len(sentences) * len(answers)
            for answer in answers:
                found = [json.loads(line) for line in answer.splitlines()]
                wrong += len(found) != len(expected) or sum(
                    own != one for own, one in zip(found, expected, strict=True)
                )
    rows, bar = _beside_predict(family, alone, served, "the server, one client")
    mixed = Bar(f"mixed answers of {answered:,}", wrong, 0, at_least=False)
    return Section(f"{family}: JSON Lines, one sentence per line", rows, [bar, mixed])


def _beside_predict(
    family: str, alone: Sequence[tuple[float, float]], served: Sequence[tuple[float, float]], who: str
) -> tuple[list[Row], Bar]:
    """Tokens per second, and per second of the processors' time, of the best round; the ratio is the median's."""
    names = ("tokens per second", "per second of processors")
    best = [[max(own[i] for own in rounds) for i in (0, 1)] for rounds in (alone, served)]
    whos = ("predict in this process", who)
    rows: list[Row] = [
        {"what": what, **dict(zip(names, own, strict=True))} for what, own in zip(whos, best, strict=True)
    ]
    limit = {"crf": 0.55}.get(family, 0.85)
    ratio = statistics.median(there[1] / here[1] for here, there in zip(alone, served, strict=True))
    return rows, Bar("served / in process, by the processors' time", ratio, limit)


def together(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """Many clients with one sentence each."""
    pairs, seconds = single_sentences(tagger), options.seconds / ROUNDS
    who = ("one client", "8 clients", "64 clients", "64 clients, batches of one")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in who}
    with server(place) as batching, server(place, "--batch-tokens", 1) as single:
        load(batching[0], 8, 0.5, pairs, place)
        for _ in range(ROUNDS):
            for name, (port, process), clients in zip(who, (*[batching] * 3, single), (1, 8, 64, 64), strict=True):
                before = processor_seconds(process)
                found[name].append(load(port, clients, seconds, pairs, place))
                found[name][-1]["server"] = processor_seconds(process) - before
    rates = {name: max(map(_rate, own)) for name, own in found.items()}
    rows: list[Row] = [
        {
            "who": name,
            "requests per second": rates[name],
            "p50, ms": 1e3 * own[0]["p50"],
            "p99, ms": _least_p99(own),
            "server, µs of processors": min(1e6 * one["server"] / max(_answers([one]), 1) for one in own),
            "clients, µs": min(1e6 * one["own"] / max(_answers([one]), 1) for one in own),
        }
        for name, own in found.items()
    ]
    bars = [
        Bar("64 clients / one", rates["64 clients"] / rates["one client"], 2.0),
        Bar("64 clients / the same without batches", rates["64 clients"] / rates["64 clients, batches of one"], 1.0),
        _none_mixed(*(one for own in found.values() for one in own)),
    ]
    return Section(f"{family}: one sentence per request", rows, bars)


def overload(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """More than the queue holds: what is answered is answered in time, and the rest is refused at once."""
    sentences = [list(s.tokens) for s in demo.english().train]
    pairs = [pair(tagger, own) for own in batches(sentences, BATCH_TOKENS)[:-1]]
    with server(place, "--timeout", DEADLINE, "--max-tokens", 2 * BATCH_TOKENS) as (port, _):
        found = load(port, 96, options.seconds, pairs, place)
    counts = found["statuses"]
    rows: list[Row] = [
        {"answered": counts.get("200", 0), "refused (429)": counts.get("429", 0), "late (503)": counts.get("503", 0)}
    ]
    bars = [Bar("p99, seconds", found["p99"], DEADLINE, at_least=False), _none_mixed(found)]
    undeclared = {status: count for status, count in counts.items() if status not in ("200", "429", "503")}
    return Section(f"{family}: overload, 96 clients", rows, bars, note=f"other statuses: {undeclared or 'none'}")


def endurance(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """Moderate load for long: memory stays as it is, and no answer goes astray."""
    pairs, found, rows = single_sentences(tagger), [], []
    with server(place) as (port, process):
        for part in range(1, 11):
            found.append(load(port, 16, options.endurance / 10, pairs, place, "--pause", 0.02))
            rows.append({"seconds": part * options.endurance / 10, "MB": memory(process), "requests": _answers(found)})
    bars = [Bar("growth of memory, %", 100 * (rows[-1]["MB"] / rows[0]["MB"] - 1), 3.0, at_least=False)]
    return Section(f"{family}: endurance, 16 clients", rows, [*bars, _none_mixed(*found)])


def workers(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """Two processes share the model that was opened before they were forked."""
    pairs, rows = single_sentences(tagger), []
    for count in (1, 2):
        with server(place, "--workers", count) as (port, process):
            found = load(port, 16, options.seconds / 2, pairs, place)
            rows.append({"workers": count, "MB, shared in part": memory(process, proportional=True)})
            rows[-1]["requests per second"] = _rate(found)
    ratio = rows[1]["MB, shared in part"] / rows[0]["MB, shared in part"]
    bars = [Bar("two workers / one", ratio, 1.5, at_least=False)]
    return Section(f"{family}: memory of the server and its workers", rows, bars)


def rival(family: str, tagger: Any, place: Path, options: argparse.Namespace) -> Section:
    """LitServe, in turns with ours."""
    sentences, seconds = [list(s.tokens) for s in demo.english().train], options.seconds / ROUNDS
    loads = {
        "64 clients, one sentence": (64, single_sentences(tagger)),
        "one client, one sentence": (1, single_sentences(tagger)),
        "4 clients, 4096 tokens": (4, [pair(tagger, own) for own in batches(sentences, BATCH_TOKENS)[:-1]]),
    }
    rows: list[Row] = []
    every: list[dict[str, Any]] = []
    with server(place) as (ours, _), litserve(place) as theirs:
        for name, (clients, pairs) in loads.items():
            found: dict[int, list[dict[str, Any]]] = {ours: [], theirs: []}
            for _ in range(ROUNDS):
                for port, own in found.items():
                    own.append(load(port, clients, seconds, pairs, place))
            our, their = (max(map(_rate, own)) for own in found.values())
            times = (_least_p99(own) for own in found.values())
            rows.append({"load": name, "Trellis": our, "LitServe": their, "ratio": our / their})
            rows[-1] |= dict(zip(("our p99, ms", "their p99, ms"), times, strict=True))
            every += [one for own in found.values() for one in own]
    bars = [Bar("64 clients / LitServe", rows[0]["ratio"], 1.2), _none_mixed(*every)]
    return Section(f"{family}: requests per second beside LitServe", rows, bars)


def _rate(found: dict[str, Any]) -> float:
    return float(found["statuses"].get("200", 0) / found["took"])


def _answers(found: Sequence[dict[str, Any]]) -> int:
    return sum(own["statuses"].get("200", 0) for own in found)


def _least_p99(found: Sequence[dict[str, Any]]) -> float:
    return 1e3 * float(min(own["p99"] for own in found))


def _none_mixed(*found: dict[str, Any]) -> Bar:
    return Bar(f"mixed answers of {_answers(found):,}", sum(own["mixed"] for own in found), 0, at_least=False)


MEASURES = {
    "saturation": saturation,
    "lines": lines,
    "together": together,
    "overload": overload,
    "endurance": endurance,
    "workers": workers,
    "rival": rival,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=["crf", "bilstm-crf"], choices=["crf", "bilstm-crf"])
    parser.add_argument("--only", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--endurance", type=float, default=20.0, help="seconds of that one")
    parser.add_argument("--threads", type=int, help="of the core, here and in servers: 1 has no threads that wait")
    options = parser.parse_args()
    if options.threads:
        os.environ["TRELLIS_NUM_THREADS"] = str(options.threads)
        trellis.set_num_threads(options.threads)
    if find_spec("litserve") is None and "rival" in options.only:
        print("LitServe is not installed: no rival")
        options.only.remove("rival")
    console, sections = make_console(), []
    with tempfile.TemporaryDirectory() as folder_:
        for family in options.families:
            place = Path(folder_) / family
            tagger = trained(family, place)
            for name in options.only:
                sections.append(MEASURES[name](family, tagger, place, options))
                sections[-1].show(console)
    packages = ("granian", "starlette", "msgspec", "litserve")
    content = {"machine": machine(packages), "sections": [section.to_json() for section in sections]}
    write_json(HERE / "results" / "serve.json", content)


if __name__ == "__main__":
    main()
