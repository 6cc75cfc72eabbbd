"""Clients of a server, in a process of their own: as many at a time as asked for, each with one request after another.

    python benchmarks/_load.py PORT CLIENTS SECONDS REQUESTS.json [--pause SECONDS] [--requests N]

Requests are pairs of a body and the answer that is expected; the result on standard output counts statuses, seconds and
answers that differ. Clients run on the cores of the server, so they must cost little: all bytes are made before, and
one loop serves all sockets.
"""

from __future__ import annotations

import argparse
import heapq
import json
import selectors
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

_HEAD = "POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
_AT_ONCE = 2**20  # bytes read at a time


class Client:
    """One connection with one request under way, opened again when the server closes it."""

    def __init__(self, port: int, number: int) -> None:
        self.port, self.number = port, number
        self.begin = 0.0
        self._expected, self._answer = b"", b""
        self.sock = self._opened()

    def _opened(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def send(self, request: tuple[bytes, bytes]) -> None:
        """Begin the next request."""
        data, self._expected = request
        self._answer, self.begin = b"", time.perf_counter()
        self.sock.sendall(data)

    def receive(self) -> tuple[int, bool, bool] | None:
        """Status, whether the answer is not the expected one, and whether the connection ends; None if more comes."""
        piece = self.sock.recv(_AT_ONCE)
        self._answer = self._answer + piece if self._answer else piece
        end = self._answer.find(b"\r\n\r\n")
        if end < 0 and piece:
            return None
        head = self._answer[:end].lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._answer) < end + 4 + size and piece:
            return None
        status = int(head[9:12])
        return status, status == 200 and not self._answer.endswith(self._expected), b"connection: close" in head

    def reopen(self) -> None:
        """A new connection."""
        self.sock.close()
        self.sock = self._opened()


class Load:
    """Clients that ask until the time is over."""

    def __init__(self, port: int, clients: int, pairs: list[tuple[str, str]], pause: float) -> None:
        self._requests = [((_HEAD.format(len(b.encode())) + b).encode(), e.encode()) for b, e in pairs]
        self._clients = [Client(port, 7 * i) for i in range(clients)]
        self._selector, self._pause = selectors.EpollSelector(), pause
        self._resting: list[tuple[float, int, Client]] = []
        self.seconds: dict[int, list[float]] = {}
        self.statuses: Counter[str] = Counter()
        self.mixed = 0

    def run(self, seconds: float, most: int) -> float:
        """The seconds that it took."""
        begin = time.perf_counter()
        for client in self._clients:
            self._selector.register(client.sock, selectors.EVENT_READ, client)
            self._next(client)
        while time.perf_counter() < begin + seconds and self.statuses.total() < most:
            for key, _ in self._selector.select(0.01 if self._resting else 1.0):
                self._hear(key.data)
            while self._resting and self._resting[0][0] <= time.perf_counter():
                self._next(heapq.heappop(self._resting)[2])
        return time.perf_counter() - begin

    def _next(self, client: Client) -> None:
        client.number += 1
        client.send(self._requests[client.number % len(self._requests)])

    def _hear(self, client: Client) -> None:
        found = client.receive()
        if found is None:
            return
        status, mixed, ends = found
        now = time.perf_counter()
        self.seconds.setdefault(status, []).append(now - client.begin)
        self.statuses[str(status)] += 1
        self.mixed += mixed
        if ends:
            self._selector.unregister(client.sock)
            client.reopen()
            self._selector.register(client.sock, selectors.EVENT_READ, client)
        if status == 429 or self._pause:
            heapq.heappush(self._resting, (now + (self._pause or 0.05), id(client), client))
        else:
            self._next(client)


def share(times: list[float], part: float) -> float:
    """The time that such a part of the requests stays below."""
    return sorted(times)[min(len(times) - 1, int(part * len(times)))] if times else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("clients", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between an answer and the next request")
    parser.add_argument("--requests", type=int, default=2**62, help="after which it ends, if the time is not over")
    options = parser.parse_args()
    load = Load(options.port, options.clients, json.loads(options.file.read_text(encoding="utf-8")), options.pause)
    took = load.run(options.seconds, options.requests)
    every = [second for own in load.seconds.values() for second in own]
    found: dict[str, Any] = {"statuses": load.statuses, "mixed": load.mixed, "took": took}
    found |= {"p50": share(every, 0.5), "p99": share(every, 0.99), "own": time.process_time()}
    found["p99 of answers"] = share(load.seconds.get(200, []), 0.99)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
