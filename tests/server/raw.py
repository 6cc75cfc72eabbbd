"""A server in this process, and clients that write bytes to it."""

import asyncio
from collections.abc import Awaitable, Callable

import uvicorn

from trellis.server import ModelShelf, ServerSettings
from trellis.server.workers import listening, uvicorn_config

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def with_server(
    shelf: ModelShelf,
    test: Callable[[int], Awaitable[None]],
    settings: ServerSettings,
    *,
    keep_alive: float = 5.0,
) -> None:
    """Run a test with the port of a server."""

    async def run() -> None:
        with listening("127.0.0.1", 0) as sock:
            config = uvicorn_config(shelf, settings)
            config.timeout_keep_alive = keep_alive  # type: ignore[assignment]
            server = uvicorn.Server(config)
            serving = asyncio.ensure_future(server.serve(sockets=[sock]))
            while not server.started:
                await asyncio.sleep(0.01)
            try:
                await asyncio.wait_for(test(sock.getsockname()[1]), 60)
            finally:
                server.should_exit = True
                await serving

    asyncio.run(run())


async def opened(port: int) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port)


async def closed(streams: Streams) -> bytes:
    """What comes until the server ends the connection."""
    found = await asyncio.wait_for(streams[0].read(), 30)
    streams[1].close()
    return found
