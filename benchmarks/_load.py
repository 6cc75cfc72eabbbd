"""Clients of a server, in a process of their own: as many at a time as asked for, each with one request after another.

    python benchmarks/_load.py PORT CLIENTS SECONDS REQUESTS.json [--pause SECONDS] [--requests N]

Requests are pairs of a body and the answer that is expected; the result on standard output counts statuses, seconds and
answers that differ. Clients run on the cores of the server, so they must cost little: all bytes are made before, one
loop serves all sockets, and an answer that ends as it should is not looked at any further.
"""

from __future__ import annotations

import argparse
import heapq
import json
import select
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

_HEAD = "POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
_HEAD_ROOM = 2048  # bytes of an answer beside what is expected of it
_FINE = b"HTTP/1.1 200"


class Client:
    """One connection with one request under way, opened again when the server closes it."""

    __slots__ = ("answer", "begin", "expected", "number", "port", "recv", "send", "sock")

    def __init__(self, port: int, number: int) -> None:
        self.port, self.number = port, number
        self.begin, self.expected, self.answer = 0.0, b"", b""
        self.open()

    def open(self) -> None:
        """A new connection."""
        self.sock = socket.create_connection(("127.0.0.1", self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.recv, self.send = self.sock.recv, self.sock.sendall

    def complete(self, piece: bytes) -> tuple[int, bool, bool] | None:
        """Status, whether the answer is not the expected one, and whether the connection ends; None if more comes."""
        self.answer = self.answer + piece if self.answer else piece
        end = self.answer.find(b"\r\n\r\n")
        if end < 0 and piece:
            return None
        head = self.answer[:end].lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self.answer) < end + 4 + size and piece:
            return None
        status, mixed = int(head[9:12]), not self.answer.endswith(self.expected)
        self.answer = b""
        return status, status == 200 and mixed, b"connection: close" in head


class Load:
    """Clients that ask until the time is over."""

    def __init__(self, port: int, clients: int, pairs: list[tuple[str, str]], pause: float) -> None:
        self._requests = [((_HEAD.format(len(b.encode())) + b).encode(), e.encode()) for b, e in pairs]
        self._clients = [Client(port, 7 * i) for i in range(clients)]
        self._poll, self._pause = select.epoll(), pause
        self._by_number: dict[int, Client] = {}
        self._resting: list[tuple[float, int, Client]] = []
        self.fine: list[float] = []  # seconds of each answer that is as it should be
        self.others: dict[int, list[float]] = {}
        self.mixed = 0

    @property
    def statuses(self) -> Counter[str]:
        """How many answers had each status."""
        others = Counter({str(status): len(own) for status, own in self.others.items()})
        return others + Counter({"200": len(self.fine)})

    def run(self, seconds: float, most: int) -> float:
        """The seconds that it took."""
        begin = time.perf_counter()
        for client in self._clients:
            self._listen(client)
            self._next(client, begin)
        while time.perf_counter() < begin + seconds and len(self.fine) < most:
            for number, _ in self._poll.poll(0.01 if self._resting else 1.0):
                self._hear(self._by_number[number])
            while self._resting and self._resting[0][0] <= time.perf_counter():
                self._next(heapq.heappop(self._resting)[2], time.perf_counter())
        return time.perf_counter() - begin

    def _listen(self, client: Client) -> None:
        self._poll.register(client.sock, select.EPOLLIN)
        self._by_number[client.sock.fileno()] = client

    def _next(self, client: Client, now: float) -> None:
        client.number = (client.number + 1) % len(self._requests)
        data, client.expected = self._requests[client.number]
        client.begin = now
        client.send(data)

    def _hear(self, client: Client) -> None:
        """Take what has come; an answer in one piece that is as expected needs no other look."""
        piece = client.recv(len(client.expected) + _HEAD_ROOM)
        if not client.answer and piece.endswith(client.expected) and piece.startswith(_FINE):
            now = time.perf_counter()
            self.fine.append(now - client.begin)
            self._rest(client, now, self._pause)
        elif (found := client.complete(piece)) is not None:
            self._look(client, *found)

    def _look(self, client: Client, status: int, mixed: bool, ends: bool) -> None:
        now = time.perf_counter()
        times = self.fine if status == 200 else self.others.setdefault(status, [])
        times.append(now - client.begin)
        self.mixed += mixed
        if ends:
            self._poll.unregister(client.sock)
            client.sock.close()
            client.open()
            self._listen(client)
        self._rest(client, now, self._pause or (0.05 if status == 429 else 0.0))

    def _rest(self, client: Client, now: float, pause: float) -> None:
        if pause:
            heapq.heappush(self._resting, (now + pause, id(client), client))
        else:
            self._next(client, now)


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
    before = time.process_time()
    took = load.run(options.seconds, options.requests)
    own = time.process_time() - before
    every = [*load.fine, *(second for own in load.others.values() for second in own)]
    found: dict[str, Any] = {"statuses": load.statuses, "mixed": load.mixed, "took": took}
    found |= {"p50": share(every, 0.5), "p99": share(every, 0.99), "own": own}
    found["p99 of answers"] = share(load.fine, 0.99)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
