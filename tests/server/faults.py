"""A server under fire: random bytes, killed workers, models that are replaced, clients that leave, and checked answers.

    make siege                                      half a minute
    python -m tests.server.faults --seconds 600     as long as you like
    python -m tests.server.faults --random 100000   so many requests of random bytes, and nothing else

Two workers serve two models. Several threads ask, each in its own way, for the seconds given. Nothing may be answered
with another status than those that openapi.json declares, no answer may belong to another request, the processes may
not grow, and in the end the server answers as it did in the beginning.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import trellis
from tests.cli.conftest import sentences
from tests.server.process import Running, running, until
from trellis.models import CRF, HMM, folder

WORDS = "Anna Smith Paul Jones lives met in New York Rome Delhi likes old It rained . ,"
DECLARED = {200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 431, 503}
HEAD = "POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


class Siege:
    """What was seen, and until when to go on."""

    def __init__(self, server: Running, models: dict[str, Path], seconds: float) -> None:
        self.server, self.models, self.end = server, models, time.monotonic() + seconds
        self.statuses: Counter[int] = Counter()
        self.mixed = self.lost = 0
        self.taggers = {name: trellis.load(path) for name, path in models.items()}
        self._lock = threading.Lock()

    def run(self, *works: Callable[[random.Random], None]) -> None:
        """Each work again and again, in a thread of its own."""
        threads = [threading.Thread(target=self._repeat, args=(work, seed)) for seed, work in enumerate(works)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < self.end:
            try:
                work(rng)
            except (OSError, http.client.HTTPException):  # a worker was killed with our request in its hands
                with self._lock:
                    self.lost += 1

    def wrong(self, code: int, errors: str) -> list[str]:
        """What should not have been seen, with the exit code of the server and what it said."""
        undeclared = set(self.statuses) - DECLARED
        found = [f"{self.mixed} answers belong to another request"] if self.mixed else []
        found += [f"undeclared statuses {undeclared}"] if undeclared else []
        found += [f"exit code {code}"] if code not in (0, -signal.SIGTERM) else []
        return found + (["a traceback on standard error"] if "Traceback" in errors else [])

    def seen(self, status: int) -> None:
        with self._lock:
            self.statuses[status] += 1

    def ask(self, rng: random.Random) -> None:
        """A request whose answer is known: tokens that nobody else sends."""
        tokens = [*rng.choices(WORDS.split(), k=rng.randrange(1, 30)), str(rng.random())]
        model = rng.choice(sorted(self.taggers))
        status, answer = self.server.ask("/v1/tag", {"model": model, "tokens": [tokens], "probabilities": False})
        self.seen(status)
        if status == 200 and answer["results"] != [{"tags": self.taggers[model].predict([tokens])[0]}]:
            self.mixed += 1

    def pipeline(self, rng: random.Random) -> None:
        """Several requests, each of a length of its own, in pieces of any size: their answers come in their order."""
        counts = [rng.randrange(1, 40) for _ in range(rng.randrange(1, 10))]
        data = b"".join(tagging(rng, count) for count in counts)
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data:
                size = rng.choice([1, 20, 300, 5000])
                sock.sendall(data[:size])
                data = data[size:]
                time.sleep(rng.choice([0, 0, 0.001, 0.03]))
            found = b""
            while found.count(b"HTTP/1.1 ") < len(counts) or not found.endswith(b"}"):
                piece = sock.recv(65536)
                found += piece
                if not piece:  # a killed worker leaves the rest unanswered
                    break
        answers = re.findall(rb"HTTP/1.1 200 .*?\r\n\r\n(\{.*?\]\}\]\})", found, re.DOTALL)
        lengths = [len(json.loads(answer)["results"][0]["tags"]) for answer in answers]
        self.mixed += lengths != counts[: len(lengths)] or b"HTTP/1.1 4" in found

    def disturb(self, rng: random.Random) -> None:
        """Bytes of any kind, in a request or instead of one; the client may leave at any moment."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as sock:
            sock.sendall(anything(rng))
            if rng.random() < 0.5:
                sock.shutdown(socket.SHUT_WR)
            sock.settimeout(rng.choice([0.001, 0.05]))
            try:
                answer = sock.recv(4096)
            except TimeoutError:
                return
        if answer:
            self.seen(int(answer.split()[1]))

    def kill(self, rng: random.Random) -> None:
        """One of the workers, and wait for the next one to take its place.

        granian gives up if the same worker dies within 5.5 seconds of its start, and a server that is stopped before it
        has replaced a dead worker exits with 1.
        """
        time.sleep(rng.uniform(6.0, 8.0))
        if time.monotonic() < self.end:
            before = self.server.workers()
            os.kill(rng.choice(before), signal.SIGKILL)
            until(lambda: set(self.server.workers()) - set(before))

    def replace(self, rng: random.Random) -> None:
        """A model's file by half of it, by nothing, by itself."""
        time.sleep(rng.uniform(0.2, 1.0))
        file = self.models["crf"] / "model.safetensors"
        whole = file.with_suffix(".whole").read_bytes()
        file.write_bytes(rng.choice([whole[: len(whole) // 2], b"", whole]))


def tagging(rng: random.Random, count: int) -> bytes:
    """A request for as many tags, with its length, or in chunks."""
    body = json.dumps({"tokens": [["Anna"] * count], "probabilities": False}).encode()
    if rng.random() < 0.7:
        return HEAD.format(len(body)).encode() + body
    place = rng.randrange(1, len(body))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(own), own) for own in (body[:place], body[place:]))
    return HEAD.replace("Content-Length: {}", "Transfer-Encoding: chunked").encode() + chunks + b"0\r\n\r\n"


def anything(rng: random.Random) -> bytes:
    """Random bytes: alone, as the body of a request, in a string of its JSON, or a request with some bytes replaced."""
    junk = rng.randbytes(rng.randrange(200))
    whole = bytearray(HEAD.format(47).encode() + b'{"texts": ["Anna Smith met Paul in New York."]}')
    for _ in range(rng.randrange(1, 6)):
        whole[rng.randrange(len(whole))] = rng.randrange(256)
    head = HEAD.format(rng.choice([len(junk), 5, 10**6, -1])).encode()
    quoted = b'{"texts": ["' + junk + b'"]}'
    return rng.choice([junk, head + junk, head[: rng.randrange(len(head))], head + quoted, bytes(whole)])


def showered(count: int) -> list[str]:
    """What went wrong when so many requests of random bytes came, four at a time."""
    with tempfile.TemporaryDirectory() as place:
        folder.save_model(folder.prepare(Path(place) / "crf"), CRF(features="ner").fit(sentences()))
        with running(Path(place) / "crf", "--timeout", 5) as server:
            siege = Siege(server, {"crf": Path(place) / "crf"}, math.inf)
            rngs = [random.Random(seed) for seed in range(4)]
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda i: siege.disturb(rngs[i % 4]), range(count)))
            (worker,) = server.workers()
            memory = Path(f"/proc/{worker}/status").read_text().partition("VmRSS:")[2].split()[0]
            status, _ = server.ask("/readyz")
            code, errors = server.stop()
    print(
        f"{count} requests, {sum(siege.statuses.values())} answers {json.dumps(siege.statuses)}, {memory} kB at the end"
    )
    return siege.wrong(code, errors) + ([f"/readyz says {status}"] if status != 200 else [])


def besieged(seconds: float) -> list[str]:
    """What went wrong."""
    with tempfile.TemporaryDirectory() as place:
        models = {"crf": Path(place) / "crf", "hmm": Path(place) / "hmm"}
        for path, tagger in zip(
            models.values(), (CRF(features="ner").fit(sentences()), HMM().fit(sentences())), strict=True
        ):
            folder.save_model(folder.prepare(path), tagger)
        shutil.copy(models["crf"] / "model.safetensors", models["crf"] / "model.whole")
        with running(*(f"{name}={path}" for name, path in models.items()), "--workers", 2, "--timeout", 5) as server:
            siege = Siege(server, models, seconds)
            siege.run(siege.ask, siege.ask, siege.pipeline, siege.disturb, siege.disturb, siege.kill, siege.replace)
            (models["crf"] / "model.safetensors").write_bytes((models["crf"] / "model.whole").read_bytes())
            server.until("/readyz", lambda content: not content["problems"])
            code, errors = server.stop()
    print(f"{sum(siege.statuses.values())} answers {json.dumps(siege.statuses)}, {siege.lost} lost with killed workers")
    return siege.wrong(code, errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--random", type=int, default=0, metavar="N")
    options = parser.parse_args()
    wrong = showered(options.random) if options.random else besieged(options.seconds)
    raise SystemExit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
