"""Everything together: the addresses of a server as an ASGI application that any server of that kind runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from inspect import isawaitable
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import encode
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive

from trellis.server import openapi, schemas
from trellis.server.annotation import Annotation, AnnotationSettings
from trellis.server.batcher import Batcher, BatchJob
from trellis.server.jobs import JobBuilder
from trellis.server.json_lines import LinesResponse
from trellis.server.labelstudio import LabelStudioHealth, LabelStudioSetup, prediction_job, version_of
from trellis.server.limits import BodyReader, ServerLimits, check_type, media_type
from trellis.server.metrics import Metrics, RequestCounter
from trellis.server.problems import JSON, RequestError, invalid, problem_of
from trellis.server.registry import ModelRegistry
from trellis.server.security import LOCAL, Guard, Keys

_INLINE = 4 * 2**10
"""Bytes of a request up to which it is read in the event loop; longer ones are read where the model runs."""
_PROMPT = 0.02  # seconds until a client is watched: most answers are there by then
_MEDIA = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


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
    settings = settings or ServerSettings()
    routes = Routes(registry, settings)
    table = routes.table()
    app = Starlette(routes=table, exception_handlers={HTTPException: _not_here}, lifespan=routes.lifespan)
    app.router.redirect_slashes = False  # nobody is sent to an address that is made of the Host header
    return RequestCounter(Guard(app, settings.hosts, settings.keys), routes.metrics, {route.path for route in table})


async def _not_here(request: Request, error: Exception) -> Response:
    """The answer at an address that does not exist, or not with this method."""
    assert isinstance(error, HTTPException)
    problem = RequestError("not_found", "there is nothing at this address: see /docs")
    if error.status_code == 405:
        problem = RequestError("wrong_method", f"this address does not take {request.method[:20]}: see /docs")
    response = problem.response()
    response.headers.update(error.headers or {})
    return response


class Routes:
    """What answers at each address, and what they share."""

    def __init__(self, registry: ModelRegistry, settings: ServerSettings) -> None:
        self._registry, self._limits, self._settings = registry, settings.limits, settings
        self.metrics = Metrics(lambda: self._batcher.queued)
        self._open()
        self._builder, self._bodies = JobBuilder(registry, self._limits), BodyReader(self._limits)
        self._document, self._reference = encode(openapi.document(self._limits)), openapi.page(self._limits)
        page = (file for file in resources.files("trellis.server").joinpath("page").iterdir() if file.is_file())
        self._files = {file.name: (file.read_bytes(), _MEDIA[file.name.rpartition(".")[2]]) for file in page}

    def _open(self) -> None:
        self._batcher = Batcher(self._limits, self.metrics.batch)
        self._annotation = Annotation(self._registry, self._limits, self._batcher, self._settings.annotation)
        self._status: Literal["ready", "starting", "stopping"] = "starting"

    def table(self) -> list[Route]:
        """A route for each operation of the interface, and those of the page."""
        builder = self._builder
        handlers: dict[str, Callable[[Request], Any]] = {
            "tag": self._tag,
            "trellis": lambda request: self._ask(request, builder.trellis),
            "explain": lambda request: self._ask(request, builder.explain),
            "predict": lambda request: self._ask(request, lambda body: prediction_job(body, builder)),
            "correct": self._correct,
            "next": lambda request: self._annotation.next(),
            "learn": self._learn,
            "accept": lambda request: self._annotation.accept(),
            "reject": lambda request: self._annotation.reject(),
            "setup": lambda request: LabelStudioSetup(version_of(self._registry.get())),
            "webhook": lambda request: LabelStudioHealth(),
            "models": lambda request: schemas.ModelsAnswer(
                [model.about() for model in self._registry], self._limits.body_bytes
            ),
            "annotation": lambda request: self._annotation.state(),
            "healthz": lambda request: schemas.Health(),
            "health": lambda request: LabelStudioHealth(),
            "readyz": self._readyz,
            "metrics": lambda request: Response(self.metrics.text(), media_type="text/plain; version=0.0.4"),
            "openapi": lambda request: Response(self._document, media_type=JSON),
        }
        pages = {"/": self._file, "/page/{name}": self._file, "/docs": lambda request: HTMLResponse(self._reference)}
        return [
            Route(one.path, self._endpoint(handlers[one.name], one.request), methods=[one.method])
            for one in openapi.OPERATIONS
        ] + [Route(path, self._endpoint(handler)) for path, handler in pages.items()]

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Watch the files of models from start to stop; then answer what was accepted, and nothing more."""
        if self._status == "stopping":  # it was stopped before, and is started again
            self._open()
        if self._settings.reload_seconds > 0:
            await asyncio.to_thread(self._registry.refresh)
        watching = asyncio.create_task(self._watch())
        self._status = "ready"
        try:
            yield
        finally:
            self._status = "stopping"
            watching.cancel()
            await self._batcher.drain()
            self._batcher.close()
            self._annotation.close()

    async def _watch(self) -> None:
        """Look at the files of models now and then; they are opened in a thread, and requests go on meanwhile."""
        while self._settings.reload_seconds > 0:
            await asyncio.sleep(self._settings.reload_seconds)
            self.metrics.reloads.inc(len(await asyncio.to_thread(self._registry.refresh)))

    async def _tag(self, request: Request) -> Any:
        check_type(request, JSON, schemas.LINES)
        if media_type(request) == JSON:
            if request.url.query:
                raise invalid("the options of a request in JSON are fields of its body, not of the query")
            return await self._ask(request, self._builder.tag)
        jobs = self._builder.lines(schemas.options_of(request.query_params.multi_items()))
        return LinesResponse(self._batcher, self._limits, jobs)

    async def _correct(self, request: Request) -> schemas.Progress:
        body = await self._body(request)
        self._annotation.writable()  # a server that keeps none says so, whatever is sent
        return await self._annotation.correct(await self._batcher.in_thread(self._builder.correction, body))

    async def _learn(self, request: Request) -> schemas.LearnerState:
        return self._annotation.learn(schemas.decode(schemas.LearnRequest, await self._body(request)).model)

    def _readyz(self, request: Request) -> Response:
        ready = schemas.Ready(self._status, self._registry.problems)
        return Response(encode(ready), 200 if self._status == "ready" else 503, media_type=JSON)

    def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            raise RequestError("not_found", "there is no such file")
        content, media = self._files[name]
        return Response(content, media_type=media)

    def _endpoint(self, handler: Callable[[Request], Any], body: type | None = None) -> Callable[[Request], Any]:
        """A handler whose struct or problem becomes a response; a body without fields is read before it is called."""

        async def endpoint(request: Request) -> Any:
            try:
                if body is schemas.AnyObject:
                    schemas.decode(schemas.AnyObject, await self._body(request))
                answer = handler(request)
                if isawaitable(answer):
                    answer = await answer
                return Response(encode(answer), media_type=JSON) if isinstance(answer, Struct) else answer
            except ClientDisconnect:
                return Response(status_code=499)  # for the metrics; nobody reads it
            except Exception as error:
                return problem_of(error).response()
            finally:
                self._bodies.release(request)

        return endpoint

    async def _body(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._bodies.read(request)
        except TimeoutError:
            message = f"the body did not come within {self._limits.seconds:g} seconds"
            raise RequestError("too_slow", message, closes=True) from None

    async def _ask(self, request: Request, build: Callable[[bytes], BatchJob]) -> Response:
        """Ask a model; the time of a request begins with its body."""
        begin, seconds = asyncio.get_running_loop().time(), self._limits.seconds
        body = await self._body(request)
        try:
            async with asyncio.timeout_at(begin + seconds) as deadline:
                self._batcher.admit()
                job = build(body) if len(body) <= _INLINE else await self._batcher.in_thread(build, body)
                if job.seconds < seconds:
                    seconds = job.seconds
                    deadline.reschedule(begin + seconds)
                answer = self._batcher.submit(job)
                try:
                    await asyncio.wait((answer,), timeout=_PROMPT)
                    if not answer.done():
                        await _wait_unless_disconnected(answer, request.receive)
                    return Response(answer.result(), media_type=JSON)
                finally:
                    answer.cancel()  # whoever stops waiting costs nothing more
        except TimeoutError:
            message = f"there was no answer within {seconds:g} seconds"
            raise RequestError("deadline_passed", message, retry_after=1) from None


async def _wait_unless_disconnected(answer: asyncio.Future[bytes], receive: Receive) -> None:
    """Wait for an answer; raises ClientDisconnect if the client goes away first."""

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watcher = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait((answer, watcher), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watcher.cancel()
    if not answer.done():
        raise ClientDisconnect
