"""What the benchmarks share: best-of timing, peak memory, bars, one table per section, one JSON file per benchmark."""

import gc
import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]


def best_of(function: Callable[[], object], *, seconds: float = 0.5, at_least: int = 5) -> float:
    """Seconds of the fastest of several calls; see `best_of_each`."""
    return best_of_each(function, seconds=seconds, at_least=at_least)[0]


def best_of_each(*functions: Callable[[], object], seconds: float = 0.5, at_least: int = 5) -> list[float]:
    """Seconds of the fastest call of each function, in turns of a few calls so that a busy moment hits them all.

    There are as many rounds as fit into `seconds` for each function, and no fewer than `at_least`, unless those would
    take ten times as long.
    """
    for function in functions:
        function()
    best = [math.inf] * len(functions)
    begin, rounds, budget = time.perf_counter(), 0, seconds * len(functions)
    with _no_collection():
        while rounds == 0 or _goes_on(time.perf_counter() - begin, budget, rounds, at_least):
            best = [min(old, _burst(function)) for old, function in zip(best, functions, strict=True)]
            rounds += 1
    return best


def _goes_on(spent: float, budget: float, rounds: int, at_least: int) -> bool:
    return spent < budget or (rounds < at_least and spent < 10 * budget)


def _burst(function: Callable[[], object], seconds: float = 0.02) -> float:
    """Fastest of a few calls: the first may still be slowed down by the threads of the function before it."""
    best, deadline = math.inf, time.perf_counter() + seconds
    while math.isinf(best) or time.perf_counter() < deadline:
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector out of the timings."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


@dataclass(frozen=True)
class Bar:
    """A figure and the limit that it must meet."""

    name: str
    value: float
    limit: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        verdict = "met   " if self.met else "MISSED"
        sign = ">=" if self.at_least else "<="
        return f"{verdict} {self.name}: {self.value:.2f} (bar {sign} {self.limit:g})"


def peak_memory() -> float:
    """The most memory, in MB, that this process had since it was last asked, or since it began.

    Linux forgets the peak when it is told to; elsewhere it is that of the whole run.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        found = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return own / (1024**2 if sys.platform == "darwin" else 1024)
    return found


def peak_of_children() -> float:
    """The most memory, in MB, of any process that this one started and waited for; 0 if there is none."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


@dataclass(frozen=True)
class Section:
    """One table: rows with the same keys, the bars they are held to, and the memory it took to make them.

    It is made when its rows are known, so that the peak since the section before is its own.
    """

    title: str
    rows: list[Row]
    bars: list[Bar] = field(default_factory=list)
    note: str = ""
    peak_mb: float = field(default_factory=peak_memory)
    peak_mb_of_children: float = field(default_factory=peak_of_children)

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left")
        for column in self.rows[0]:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(*(_cell(value) for value in row.values()))
        console.print(table)
        for line in (self.note, self._memory(), *map(str, self.bars)):
            if line:
                console.print(line, highlight=False)
        console.print()

    def _memory(self) -> str:
        children = f", largest child process so far {self.peak_mb_of_children:,.0f} MB"
        return f"peak memory {self.peak_mb:,.0f} MB" + (children if self.peak_mb_of_children else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "note": self.note,
            "peak_mb": round(self.peak_mb, 1),
            "peak_mb_of_children": round(self.peak_mb_of_children, 1),
            "rows": self.rows,
            "bars": [{**asdict(bar), "met": bar.met} for bar in self.bars],
        }


def make_console() -> Console:
    """A console as wide as the terminal, or wide enough for the tables if there is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 110)


def machine(packages: Iterable[str]) -> dict[str, Any]:
    """Describe the machine and the versions that a figure was measured with."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    """Model name as Linux gives it, or whatever Python knows elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
