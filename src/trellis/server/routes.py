"""The addresses of a server, each with what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from trellis.server import labelstudio, openapi
from trellis.server.answers import dumps
from trellis.server.bodies import BodyHeaders, unless_gone
from trellis.server.lines import LinesResponse
from trellis.server.page import page_files
from trellis.server.problems import NotFoundError, RequestError, TooLateError, UnavailableError, reported
from trellis.server.reading import check_object
from trellis.server.requests import Prepared
from trellis.server.security import JSONAnswer, problem_response
from trellis.server.shared import INLINE, Shared
from trellis.server.teaching import Teaching

Handler = Callable[[Request], Awaitable[Any]]


class Routes:
    """The handlers, and what they share."""

    def __init__(self, shared: Shared, teaching: Teaching) -> None:
        self._shelf, self._limits, self._batcher, self._metrics = (
            shared.shelf,
            shared.limits,
            shared.batcher,
            shared.metrics,
        )
        self._teaching = teaching
        self._alarms, self._bodies, self._reader = shared.alarms, shared.bodies, shared.reader
        self._tag_json = self._asks(self._reader.tag)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="trellis-reader")
        self._document, self._page = dumps(openapi.document(shared.limits)), openapi.page(shared.limits)
        self._files = page_files()
        self._active = 0
        self.status = "starting"

    def table(self) -> list[Route]:
        """All of them."""
        return [
            self._route("/v1/tag", self._tag, "POST"),
            self._route("/v1/trellis", self._asks(self._reader.trellis), "POST"),
            self._route("/v1/explain", self._asks(self._reader.explain), "POST"),
            self._route("/v1/models", self._models),
            self._route("/healthz", self._healthz),
            self._route("/readyz", self._readyz),
            self._route("/metrics", self._figures),
            self._route("/openapi.json", self._openapi),
            self._route("/docs", self._docs),
            self._route("/v1/teaching", self._teaching_state),
            self._route("/v1/corrections", self._correct, "POST"),
            self._route("/v1/next", self._next, "POST"),
            self._route("/v1/learn", self._learn, "POST"),
            self._route("/v1/learn/accept", self._learn, "POST"),
            self._route("/v1/learn/reject", self._learn, "POST"),
            self._route("/predict", self._asks(self._predict), "POST"),
            self._route("/setup", self._setup, "POST"),
            self._route("/health", self._health),
            self._route("/", self._file),
            self._route("/page/{name}", self._file),
        ]

    async def close(self) -> None:
        """Answer what was accepted, and nothing more."""
        self.status = "stopping"
        await self._batcher.drain()
        self._batcher.close()
        self._readers.shutdown(wait=False)
        self._teaching.close()

    def _route(self, path: str, handler: Handler, method: str = "GET") -> Route:
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
                raise UnavailableError("too many requests are open", retry_after=1)
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=499)  # for the figures; nobody reads it
        except Exception as error:
            return _closing(reported(error))
        finally:
            self._active -= 1
            self._bodies.release(request)

    def _asks(self, read: Callable[[bytes], Prepared]) -> Callable[..., Awaitable[JSONAnswer]]:
        async def handler(request: Request, about: BodyHeaders | None = None) -> JSONAnswer:
            begin = asyncio.get_running_loop().time()
            body = await self._bodies.read(request, about)
            self._batcher.admit()
            prepared = await self._prepared(read, body)
            left = prepared.seconds - (asyncio.get_running_loop().time() - begin)
            if left <= 0:
                raise TooLateError(f"there was no answer within {prepared.seconds:g} seconds")
            answer = self._batcher.submit(prepared.question, prepared.parts, prepared.finish, left)
            return JSONAnswer(await unless_gone(request.receive, answer, self._alarms))

        return handler

    async def _prepared(self, read: Callable[[bytes], Prepared], body: bytes) -> Prepared:
        if len(body) <= INLINE:
            return read(body)
        return await asyncio.get_running_loop().run_in_executor(self._readers, read, body)

    async def _tag(self, request: Request) -> Any:
        about = BodyHeaders.of(request.scope)
        if about.media_type != openapi.LINES:
            return await self._tag_json(request, about)
        about.check(openapi.LINES)
        return LinesResponse(self._batcher, self._limits, self._reader.lines(dict(request.query_params)))

    def _predict(self, body: bytes) -> Prepared:
        return labelstudio.prediction_request(body, self._shelf, self._limits)

    async def _setup(self, request: Request) -> Response:
        check_object(await self._bodies.read(request))
        return _json({"model_version": labelstudio.version_of(self._shelf.get())})

    async def _teaching_state(self, request: Request) -> Response:
        return _json(self._teaching.state())

    async def _correct(self, request: Request) -> Response:
        return _json(await self._teaching.correct(await self._bodies.read(request)))

    async def _next(self, request: Request) -> Response:
        check_object(await self._bodies.read(request))
        return _json(await self._teaching.next())

    async def _learn(self, request: Request) -> Response:
        check_object(await self._bodies.read(request))
        if request.url.path.endswith("/accept"):
            return _json(await self._teaching.accept())
        return _json(self._teaching.reject() if request.url.path.endswith("/reject") else self._teaching.learn())

    async def _health(self, request: Request) -> Response:
        return _json({"status": "UP", "model_class": "trellis"})

    async def _models(self, request: Request) -> Response:
        return _json({"models": [model.about() for model in self._shelf]})

    async def _healthz(self, request: Request) -> Response:
        return _json({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        content = dumps({"status": self.status, "problems": self._shelf.problems})
        return Response(content, 200 if self.status == "ready" else 503, media_type=openapi.JSON)

    async def _figures(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def _openapi(self, request: Request) -> Response:
        return Response(self._document, media_type=openapi.JSON)

    async def _docs(self, request: Request) -> Response:
        return HTMLResponse(self._page)

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            raise NotFoundError("there is no such file")
        content, media = self._files[name]
        return Response(content, media_type=media)


def _json(value: Any) -> Response:
    return Response(dumps(value), media_type=openapi.JSON)


def _closing(problem: RequestError) -> Response:
    """The response to a problem; if the body may not have been read, the connection ends with it."""
    response = problem_response(problem)
    if problem.closes:
        response.headers["connection"] = "close"
    return response
