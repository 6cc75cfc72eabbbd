"""Everything together: an ASGI application that any server of that kind runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from trellis.server.annotation import Annotation, AnnotationSettings
from trellis.server.batcher import Batcher
from trellis.server.limits import ServerLimits
from trellis.server.metrics import Metrics, RequestCounter
from trellis.server.problems import RequestError
from trellis.server.registry import ModelRegistry
from trellis.server.routes import Routes
from trellis.server.security import LOCAL, Guard, Keys


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves."""

    limits: ServerLimits = field(default_factory=ServerLimits)
    hosts: tuple[str, ...] = LOCAL
    """What it may be called in the Host header; ``*`` is any name."""
    keys: Keys = field(default_factory=Keys)
    annotation: AnnotationSettings = field(default_factory=AnnotationSettings)
    reload_seconds: float = 1.0
    """How often the files of models are looked at; 0 is never."""


def create_app(registry: ModelRegistry, settings: ServerSettings | None = None) -> ASGIApp:
    """The application; it starts and stops with ASGI's lifespan."""
    chosen = settings or ServerSettings()
    metrics = Metrics(lambda: batcher.queued)
    batcher = Batcher(chosen.limits, metrics.batch)
    annotation = Annotation(registry, chosen.limits, batcher, chosen.annotation)
    routes = Routes(registry, chosen.limits, batcher, metrics, annotation)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if chosen.reload_seconds > 0:
            await asyncio.to_thread(registry.refresh)
        watching = asyncio.ensure_future(_watch(registry, metrics, chosen.reload_seconds))
        routes.status = "ready"
        try:
            yield
        finally:
            watching.cancel()
            await routes.close()

    table = routes.table()
    app = Starlette(routes=table, exception_handlers={HTTPException: _not_here}, lifespan=lifespan)
    app.router.redirect_slashes = False  # nobody is sent to an address that is made of the Host header
    return RequestCounter(Guard(app, chosen.hosts, chosen.keys), metrics, {route.path for route in table})


async def _watch(registry: ModelRegistry, metrics: Metrics, seconds: float) -> None:
    """Look at the files of models now and then; they are opened in a thread, and requests go on meanwhile."""
    with suppress(asyncio.CancelledError):
        while seconds > 0:
            await asyncio.sleep(seconds)
            metrics.reloads.inc(len(await asyncio.to_thread(registry.refresh)))


async def _not_here(request: Request, error: Exception) -> Response:
    """An address that does not exist, or not with this method."""
    assert isinstance(error, HTTPException)
    problem = RequestError("not_found", "there is nothing at this address: see /docs")
    if error.status_code == 405:
        problem = RequestError("wrong_method", f"this address does not take {request.method[:20]}: see /docs")
    response = problem.response()
    response.headers.update(error.headers or {})
    return response
