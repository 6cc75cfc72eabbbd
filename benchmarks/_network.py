"""Two network namespaces joined by a link of a given rate, and processes that run in them; Linux, as root.

The kernel keeps to the rate (tbf). The delay is not the kernel's, since few have netem built in: a process waits for so
long before each exchange with the others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PLACES = ("trellis-a", "trellis-b")
LINKS = ("trellis-va", "trellis-vb")
ADDRESSES = ("10.231.77.1", "10.231.77.2")


@dataclass(frozen=True)
class Link:
    """What lies between the two: bits per second and seconds one way; without a rate, what the kernel does."""

    rate: float | None = None
    delay: float = 0.0

    def __str__(self) -> str:
        return "none" if self.rate is None else f"{self.rate / 1e6:g} Mbit/s, {1000 * self.delay:g} ms"


def is_possible() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and bool(shutil.which("ip") and shutil.which("tc"))


@contextmanager
def joined(link: Link) -> Iterator[None]:
    """The namespaces of `PLACES`, which exist while the block runs; traffic goes between these two alone."""
    try:
        for place in PLACES:
            _run(f"ip netns add {place}")
        _run(f"ip link add {LINKS[0]} netns {PLACES[0]} type veth peer name {LINKS[1]} netns {PLACES[1]}")
        for place, name, address in zip(PLACES, LINKS, ADDRESSES, strict=True):
            _run(f"ip -n {place} addr add {address}/24 dev {name}")
            _run(f"ip -n {place} link set {name} up")
            _run(f"ip -n {place} link set lo up")
            if link.rate is not None:
                shaped = f"rate {int(link.rate)}bit burst {max(1 << 16, int(link.rate / 800))} latency 400ms"
                _run(f"ip netns exec {place} tc qdisc add dev {name} root tbf {shaped}")
        yield
    finally:
        for place in PLACES:
            subprocess.run(["ip", "netns", "del", place], check=False, stderr=subprocess.DEVNULL)


def within(rank: int) -> tuple[list[str], dict[str, str]]:
    """What comes before a command that runs in a namespace, and the environment by which the two find each other."""
    found = {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": LINKS[rank]}
    return ["ip", "netns", "exec", PLACES[rank]], found


@dataclass
class Exchanges:
    """The exchanges of this process with the others: counted, and each delayed."""

    delay: float
    count: int = 0

    def watch(self) -> None:
        from torch import distributed

        for name in ("broadcast", "reduce", "recv", "all_reduce", "all_gather", "gather", "all_gather_object"):
            setattr(distributed, name, self._delayed(getattr(distributed, name)))

    def _delayed(self, exchange: Callable[..., Any]) -> Callable[..., Any]:
        def delayed(*given: Any, **options: Any) -> Any:
            self.count += 1
            time.sleep(self.delay)
            return exchange(*given, **options)

        return delayed


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True)
