"""The application in processes of granian, which accept connections, read HTTP, and are replaced if they die.

On Linux granian forks its workers after the models were opened here, so that they share their memory; elsewhere each
worker opens them itself. A worker opens a file again only when it has changed.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from starlette.types import ASGIApp

from trellis.chain import get_num_threads, set_num_threads
from trellis.errors import ConfigError
from trellis.server.app import ServerSettings, create_app
from trellis.server.metrics import forget_dead_workers
from trellis.server.registry import ModelRegistry

_SWITCH = 0.0005
"""Seconds after which a thread lets others run: the event loop must not wait long for the model's thread."""
_GARBAGE = 50_000
"""Objects that may gather until the garbage collector looks at them: a request of many sentences has hundreds."""
_PATIENCE = 5
"""Seconds that a worker has beyond the longest request to end by itself."""
_DRAIN = 10.0
"""Seconds for what was accepted, once nobody can stop a worker any more."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LOG = {
    "formatters": {"plain": {"format": "trellis: %(message)s"}},
    "handlers": {"errors": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "plain"}},
    "loggers": {name: {"handlers": ["errors"], "propagate": False} for name in ("_granian", "trellis.server")},
}


@dataclass(frozen=True)
class AppLoader:
    """Makes the application in a worker."""

    registry: ModelRegistry
    settings: ServerSettings
    workers: int

    def __call__(self) -> ASGIApp:
        if self.workers > 1 and "TRELLIS_NUM_THREADS" not in os.environ:
            set_num_threads(max(1, get_num_threads() // self.workers))
        sys.setswitchinterval(_SWITCH)
        gc.set_threshold(_GARBAGE)
        forget_dead_workers()
        with suppress(AttributeError, OSError):  # glibc alone has it
            # What one batch of a network frees, the next one takes: given back, it would be thousands of page faults.
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
            mallopt(_M_TRIM_THRESHOLD, 64 * 2**20)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        if multiprocessing.get_start_method() == "spawn":
            # Such a process takes its interpreter down at the end; a thread of granian that wants it then would abort.
            atexit.register(os._exit, 0)
        return create_app(self.registry, self.settings)


def free_port(host: str, port: int) -> int:
    """The port, if nobody listens there; for 0 any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as sock:
            return int(sock.getsockname()[1])
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen at {host}, port {port}: {error}") from None


def run(
    registry: ModelRegistry,
    settings: ServerSettings,
    host: str,
    port: int,
    *,
    workers: int = 1,
    max_memory: int | None = None,
) -> None:
    """Serve until a signal comes, which is answered after the requests that are under way.

    The port is not 0 (see `free_port`); a worker with more than `max_memory` megabytes is replaced.
    """
    limits = settings.limits
    server = Granian(
        "trellis",
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        workers=workers,
        http=HTTPModes.http1,
        websockets=False,
        backlog=2048,
        backpressure=limits.connections,
        http1_settings=HTTP1Settings(
            header_read_timeout=int(1000 * limits.head_seconds), max_buffer_size=max(8192, limits.head_bytes)
        ),
        log_level=LogLevels.error,
        log_dictconfig=_LOG,
        respawn_failed_workers=True,
        workers_max_rss=max_memory,
        workers_kill_timeout=int(limits.seconds) + _PATIENCE,
    )
    gc.collect()
    gc.freeze()  # what exists now is not looked at again, which would copy it for each worker
    if hasattr(os, "register_at_fork"):
        # A worker that is stopped before it listens for signals would not hear it, and keep everybody waiting.
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    server.serve(target_loader=AppLoader(registry, settings, workers), wrap_loader=False)


def _end_with_parent() -> None:
    """Stop this worker if the process that started it is gone: nobody would start or stop it any more."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if os.name == "nt":
        parent.join()
    else:  # not by its pipe, of which workers that were forked later may hold the other end
        while os.getppid() == parent.pid:
            time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_DRAIN)
    os._exit(1)
