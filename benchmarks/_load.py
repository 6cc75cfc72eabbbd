"""Clients of a server, in a process of their own: as many at a time as asked for, each with one request after another.

    python benchmarks/_load.py PORT CLIENTS SECONDS REQUESTS.json

Requests are pairs of a body and the answer that is expected; the result on standard output counts statuses, seconds and
answers that differ.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

_HEAD = "POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


class Client:
    """One connection, opened again when the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and content."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await reader.readexactly(size)
        if b"connection: close" in head:
            writer.close()
            self._streams = None
        return int(head.split(b" ", 2)[1]), content


async def work(client: Client, requests: list[tuple[bytes, bytes]], start: int, end: float, found: Any) -> None:
    i = start
    while time.perf_counter() < end:
        body, expected = requests[i % len(requests)]
        begin = time.perf_counter()
        status, content = await client.ask(body)
        found["seconds"].append(time.perf_counter() - begin)
        found["statuses"][str(status)] += 1
        found["mixed"] += status == 200 and content.partition(b'"results":')[2] != expected
        i += 1
        if status == 429:
            await asyncio.sleep(0.05)


async def load(port: int, clients: int, seconds: float, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    requests = [((_HEAD.format(len(b.encode())) + b).encode(), e.encode()) for b, e in pairs]
    found: dict[str, Any] = {"seconds": [], "statuses": Counter(), "mixed": 0}
    begin = time.perf_counter()
    tasks = [work(Client(port), requests, i * 7, begin + seconds, found) for i in range(clients)]
    await asyncio.gather(*tasks)
    times = sorted(found.pop("seconds"))
    share = lambda part: times[min(len(times) - 1, int(part * len(times)))]  # noqa: E731
    return found | {"took": time.perf_counter() - begin, "p50": share(0.5), "p99": share(0.99)}


if __name__ == "__main__":
    port, clients, seconds, file = sys.argv[1:]
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    print(json.dumps(asyncio.run(load(int(port), int(clients), float(seconds), content))))
