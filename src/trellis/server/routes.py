"""The addresses of a server, each with what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import encode
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from trellis.server import openapi
from trellis.server.batcher import Batcher
from trellis.server.body_limits import BodyReader, answer_or_disconnect, check_type, media_type
from trellis.server.fair_queue import BatchJob
from trellis.server.jobs import JobBuilder
from trellis.server.json_lines import LinesResponse
from trellis.server.labelstudio import prediction_job, version_of
from trellis.server.limits import ServerLimits
from trellis.server.metrics import Metrics
from trellis.server.page import page_files
from trellis.server.problems import JSON, RequestError, logged
from trellis.server.registry import ModelRegistry
from trellis.server.schemas import (
    LINES,
    AnyObject,
    Health,
    LabelStudioHealth,
    LabelStudioSetup,
    ModelsAnswer,
    Ready,
    decode,
    options_of,
)
from trellis.server.teaching import Teaching

Handler = Callable[[Request], Awaitable[Any]]
_INLINE = 64 * 2**10
"""Bytes of a request up to which it is read in the event loop; longer ones would hold it up."""


class Routes:
    """The handlers, and what they share."""

    def __init__(
        self, registry: ModelRegistry, limits: ServerLimits, batcher: Batcher, metrics: Metrics, teaching: Teaching
    ) -> None:
        self._registry, self._limits, self._batcher = registry, limits, batcher
        self._metrics, self._teaching = metrics, teaching
        self._jobs, self._bodies = JobBuilder(registry, limits), BodyReader(limits)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="trellis-reader")
        self._document, self._reference = encode(openapi.document(limits)), openapi.page(limits)
        self._files = page_files()
        self._active = 0
        self.status: Literal["ready", "starting", "stopping"] = "starting"

    def table(self) -> list[Route]:
        """All of them."""
        jobs = self._jobs
        posts: dict[str, Handler] = {
            "/v1/tag": self._tag,
            "/v1/trellis": lambda request: self._ask(request, jobs.trellis),
            "/v1/explain": lambda request: self._ask(request, jobs.explain),
            "/v1/corrections": self._correct,
            "/v1/next": self._next,
            "/v1/learn": self._learn,
            "/v1/learn/accept": self._learn,
            "/v1/learn/reject": self._learn,
            "/predict": lambda request: self._ask(request, self._predict),
            "/setup": self._setup,
        }
        gives: dict[str, Callable[[], Response]] = {
            "/v1/models": lambda: _json(ModelsAnswer([model.about() for model in self._registry])),
            "/healthz": lambda: _json(Health()),
            "/readyz": lambda: _json(Ready(self.status, self._registry.problems), 200 if self._is_ready else 503),
            "/metrics": lambda: Response(self._metrics.text(), media_type="text/plain; version=0.0.4"),
            "/openapi.json": lambda: Response(self._document, media_type=JSON),
            "/docs": lambda: HTMLResponse(self._reference),
            "/v1/teaching": lambda: _json(self._teaching.state()),
            "/health": lambda: _json(LabelStudioHealth()),
        }
        gets = {path: _ignoring_request(give) for path, give in gives.items()}
        files = {"/": self._file, "/page/{name}": self._file}
        return [self._route(path, handler, "POST") for path, handler in posts.items()] + [
            self._route(path, handler, "GET") for path, handler in (gets | files).items()
        ]

    async def close(self) -> None:
        """Answer what was accepted, and nothing more."""
        self.status = "stopping"
        await self._batcher.drain()
        self._batcher.close()
        self._readers.shutdown(wait=False)
        self._teaching.close()

    @property
    def _is_ready(self) -> bool:
        return self.status == "ready"

    def _route(self, path: str, handler: Handler, method: str) -> Route:
        async def endpoint(request: Request) -> Any:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            response = await self._answered(handler, request)
            self._metrics.request(path, response.status_code, loop.time() - begin)
            return response

        return Route(path, endpoint, methods=[method])

    async def _answered(self, handler: Handler, request: Request) -> Any:
        """The handler's response, or that of its problem."""
        self._active += 1
        try:
            if self._active > self._limits.connections:
                raise RequestError("unavailable", "too many requests are open", retry_after=1)
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=499)  # for the metrics; nobody reads it
        except Exception as error:
            return logged(error).response()
        finally:
            self._active -= 1
            self._bodies.release(request)

    async def _body(self, request: Request) -> bytes:
        """The body of a request that asks no model."""
        seconds = self._limits.seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._bodies.read(request)
        except TimeoutError:
            message = f"the body did not come within {seconds:g} seconds"
            raise RequestError("too_slow", message, closes=True) from None

    async def _ask(self, request: Request, build: Callable[[bytes], BatchJob]) -> Response:
        """Ask a model; the time of a request begins with its body."""
        loop = asyncio.get_running_loop()
        begin, seconds = loop.time(), self._limits.seconds
        body = await self._body(request)
        self._batcher.admit()
        try:
            async with asyncio.timeout_at(begin + seconds) as deadline:
                if len(body) <= _INLINE:
                    job = build(body)
                else:
                    job = await loop.run_in_executor(self._readers, build, body)
                seconds = job.seconds
                deadline.reschedule(begin + seconds)
                answer = self._batcher.submit(job)
                return Response(await answer_or_disconnect(request.receive, answer), media_type=JSON)
        except TimeoutError:
            message = f"there was no answer within {seconds:g} seconds"
            raise RequestError("deadline_passed", message, retry_after=1) from None

    async def _tag(self, request: Request) -> Any:
        if media_type(request) != LINES:
            return await self._ask(request, self._jobs.tag)
        check_type(request, LINES)
        return LinesResponse(self._batcher, self._limits, self._jobs.lines(options_of(dict(request.query_params))))

    def _predict(self, body: bytes) -> BatchJob:
        return prediction_job(body, self._registry, self._jobs, self._limits)

    async def _setup(self, request: Request) -> Response:
        decode(AnyObject, await self._body(request))
        return _json(LabelStudioSetup(version_of(self._registry.get())))

    async def _correct(self, request: Request) -> Response:
        return _json(await self._teaching.correct(await self._body(request)))

    async def _next(self, request: Request) -> Response:
        decode(AnyObject, await self._body(request))
        return _json(await self._teaching.next())

    async def _learn(self, request: Request) -> Response:
        decode(AnyObject, await self._body(request))
        if request.url.path.endswith("/accept"):
            return _json(await self._teaching.accept())
        return _json(self._teaching.reject() if request.url.path.endswith("/reject") else self._teaching.learn())

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            raise RequestError("not_found", "there is no such file")
        content, media = self._files[name]
        return Response(content, media_type=media)


def _ignoring_request(give: Callable[[], Response]) -> Handler:
    async def handler(request: Request) -> Response:
        return give()

    return handler


def _json(value: Struct, status: int = 200) -> Response:
    return Response(encode(value), status, media_type=JSON)
