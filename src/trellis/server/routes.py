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
from trellis.server.annotation import Annotation
from trellis.server.batcher import Batcher
from trellis.server.body_limits import BodyReader, answer_or_disconnect, check_type, media_type
from trellis.server.fair_queue import BatchJob
from trellis.server.jobs import JobBuilder
from trellis.server.json_lines import LinesResponse
from trellis.server.labelstudio import LabelStudioHealth, LabelStudioSetup, prediction_job, version_of
from trellis.server.limits import ServerLimits
from trellis.server.metrics import Metrics
from trellis.server.page import page_files
from trellis.server.problems import JSON, RequestError, logged
from trellis.server.registry import ModelRegistry
from trellis.server.schemas import (
    LINES,
    AnnotationState,
    AnyObject,
    Health,
    LearnerState,
    ModelsAnswer,
    NextSentence,
    Progress,
    Ready,
    decode,
    options_of,
)

_INLINE = 64 * 2**10
"""Bytes of a request up to which it is read in the event loop; longer ones would hold it up."""


class Routes:
    """One method per operation of `openapi.OPERATIONS`, and what they share."""

    def __init__(
        self, registry: ModelRegistry, limits: ServerLimits, batcher: Batcher, metrics: Metrics, annotation: Annotation
    ) -> None:
        self._registry, self._limits, self._batcher = registry, limits, batcher
        self._metrics, self._annotation = metrics, annotation
        self._jobs, self._bodies = JobBuilder(registry, limits), BodyReader(limits)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="trellis-reader")
        self._document, self._reference = encode(openapi.document(limits)), openapi.page(limits)
        self._files = page_files()
        self._active = 0
        self.status: Literal["ready", "starting", "stopping"] = "starting"

    def table(self) -> list[Route]:
        """All of them."""
        operations = [(own.path, own.method, getattr(self, own.name)) for own in openapi.OPERATIONS]
        pages = [("/", "GET", self.file), ("/page/{name}", "GET", self.file), ("/docs", "GET", self.docs)]
        return [Route(path, self._endpoint(handler), methods=[method]) for path, method, handler in operations + pages]

    async def close(self) -> None:
        """Answer what was accepted, and nothing more."""
        self.status = "stopping"
        await self._batcher.drain()
        self._batcher.close()
        self._readers.shutdown(wait=False)
        self._annotation.close()

    async def tag(self, request: Request) -> Any:
        if media_type(request) != LINES:
            return await self._ask(request, self._jobs.tag)
        check_type(request, LINES)
        return LinesResponse(self._batcher, self._limits, self._jobs.lines(options_of(dict(request.query_params))))

    async def trellis(self, request: Request) -> Response:
        return await self._ask(request, self._jobs.trellis)

    async def explain(self, request: Request) -> Response:
        return await self._ask(request, self._jobs.explain)

    async def predict(self, request: Request) -> Response:
        return await self._ask(request, lambda body: prediction_job(body, self._registry, self._jobs, self._limits))

    async def correct(self, request: Request) -> Progress:
        return await self._annotation.correct(await self._body(request))

    async def next(self, request: Request) -> NextSentence:
        decode(AnyObject, await self._body(request))
        return await self._annotation.next()

    async def learn(self, request: Request) -> LearnerState:
        decode(AnyObject, await self._body(request))
        return self._annotation.learn()

    async def accept(self, request: Request) -> LearnerState:
        decode(AnyObject, await self._body(request))
        return await self._annotation.accept()

    async def reject(self, request: Request) -> LearnerState:
        decode(AnyObject, await self._body(request))
        return self._annotation.reject()

    async def setup(self, request: Request) -> LabelStudioSetup:
        decode(AnyObject, await self._body(request))
        return LabelStudioSetup(version_of(self._registry.get()))

    async def models(self, request: Request) -> ModelsAnswer:
        return ModelsAnswer([model.about() for model in self._registry])

    async def annotation(self, request: Request) -> AnnotationState:
        return self._annotation.state()

    async def healthz(self, request: Request) -> Health:
        return Health()

    async def health(self, request: Request) -> LabelStudioHealth:
        return LabelStudioHealth()

    async def readyz(self, request: Request) -> Response:
        ready = Ready(self.status, self._registry.problems)
        return Response(encode(ready), 200 if self.status == "ready" else 503, media_type=JSON)

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return Response(self._document, media_type=JSON)

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(self._reference)

    async def file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            raise RequestError("not_found", "there is no such file")
        content, media = self._files[name]
        return Response(content, media_type=media)

    def _endpoint(self, handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
        """The handler's answer as a response, or that of its problem."""

        async def endpoint(request: Request) -> Any:
            self._active += 1
            try:
                if self._active > self._limits.connections:
                    raise RequestError("unavailable", "too many requests are open", retry_after=1)
                answer = await handler(request)
                return Response(encode(answer), media_type=JSON) if isinstance(answer, Struct) else answer
            except ClientDisconnect:
                return Response(status_code=499)  # for the metrics; nobody reads it
            except Exception as error:
                return logged(error).response()
            finally:
                self._active -= 1
                self._bodies.release(request)

        return endpoint

    async def _body(self, request: Request) -> bytes:
        """The body of a request that asks no model."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._bodies.read(request)
        except TimeoutError:
            raise self._too_slow() from None

    async def _ask(self, request: Request, build: Callable[[bytes], BatchJob]) -> Response:
        """Ask a model; the time of a request begins with its body."""
        loop = asyncio.get_running_loop()
        begin, seconds, body = loop.time(), self._limits.seconds, None
        try:
            async with asyncio.timeout_at(begin + seconds) as deadline:
                body = await self._bodies.read(request)
                self._batcher.admit()
                if len(body) <= _INLINE:
                    job = build(body)
                else:
                    job = await loop.run_in_executor(self._readers, build, body)
                if job.seconds < seconds:
                    seconds = job.seconds
                    deadline.reschedule(begin + seconds)
                answer = self._batcher.submit(job)
                return Response(await answer_or_disconnect(request.receive, answer), media_type=JSON)
        except TimeoutError:
            if body is None:
                raise self._too_slow() from None
            message = f"there was no answer within {seconds:g} seconds"
            raise RequestError("deadline_passed", message, retry_after=1) from None

    def _too_slow(self) -> RequestError:
        message = f"the body did not come within {self._limits.seconds:g} seconds"
        return RequestError("too_slow", message, closes=True)
