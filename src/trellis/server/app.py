"""Everything together: an ASGI application that any server of that kind runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trellis.server.lane import Lane
from trellis.server.limits import ServerLimits
from trellis.server.metrics import Metrics
from trellis.server.problems import NotFoundError, RequestError, WrongMethodError
from trellis.server.routes import Routes
from trellis.server.security import LOCAL, Gate, Guard, Keys, problem_response
from trellis.server.shared import Shared
from trellis.server.shelf import ModelShelf
from trellis.server.teaching import Teaching, TeachingSettings


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves."""

    limits: ServerLimits = field(default_factory=ServerLimits)
    hosts: tuple[str, ...] = LOCAL
    """What it may be called in the Host header; ``*`` is any name."""
    keys: Keys = field(default_factory=Keys)
    teaching: TeachingSettings = field(default_factory=TeachingSettings)
    reload_seconds: float = 1.0
    """How often the files of models are looked at; 0 is never."""


class Direct:
    """An application that calls the endpoints of plain addresses itself, since the way there costs more than they do.

    Everything else (addresses with parameters, other methods, what does not exist, the lifespan) is Starlette's.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._endpoints = {(method, route.path): route.endpoint for route in routes for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        endpoint = self._endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
        else:
            response = await endpoint(Request(scope, receive))
            await response(scope, receive, send)


class Application(Guard):
    """The whole: an ASGI application, and for a protocol that knows it the short way past it."""

    def __init__(self, app: ASGIApp, gate: Gate, lane: Lane) -> None:
        super().__init__(app, gate)
        self.gate, self.lane = gate, lane


def create_app(shelf: ModelShelf, settings: ServerSettings | None = None) -> Application:
    """The application; it starts and stops with ASGI's lifespan."""
    chosen = settings or ServerSettings()
    shared = Shared.of(shelf, chosen.limits)
    routes = Routes(shared, Teaching(shelf, chosen.limits, shared.batcher, chosen.teaching))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.ensure_future(_watch(shelf, shared.metrics, chosen.reload_seconds))
        routes.status = "ready"
        try:
            yield
        finally:
            watching.cancel()
            await routes.close()

    table = routes.table()
    whole = Starlette(routes=table, exception_handlers={HTTPException: _not_here}, lifespan=lifespan)
    return Application(Direct(whole, table), Gate(chosen.hosts, chosen.keys), Lane(shared))


async def _watch(shelf: ModelShelf, metrics: Metrics, seconds: float) -> None:
    """Look at the files of models now and then; they are opened in a thread, and requests go on meanwhile."""
    with suppress(asyncio.CancelledError):
        while seconds > 0:
            metrics.reloaded(len(await asyncio.to_thread(shelf.refresh)))
            await asyncio.sleep(seconds)


async def _not_here(request: Request, error: Exception) -> Response:
    """An address that does not exist, or not with this method."""
    assert isinstance(error, HTTPException)
    problem: RequestError = NotFoundError("there is nothing at this address: see /docs")
    if error.status_code == 405:
        problem = WrongMethodError(f"this address does not take {request.method[:20]}: see /docs")
    response = problem_response(problem)
    response.headers.update(error.headers or {})
    return response
