"""Requests leave no reference cycles behind: the server lets the garbage collector come rarely."""

import asyncio
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest

from trellis.server import ModelShelf, ServerSettings, create_app


class Cycle:
    """A request as servers have it: an object that holds the scope, and whose methods the application is given."""

    def __init__(self, body: bytes) -> None:
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        self.scope = {"type": "http", "method": "POST", "path": "/v1/tag", "headers": headers, "query_string": b""}
        self.bodies, self.sent = [body], list[Any]()

    async def receive(self) -> Any:
        while not self.bodies:
            await asyncio.sleep(1)
        return {"type": "http.request", "body": self.bodies.pop()}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("probabilities", [False, True])
def test_answers_leave_no_cycles_behind(model_folders: dict[str, Path], probabilities: bool) -> None:
    app = create_app(ModelShelf(model_folders), ServerSettings())
    body = json.dumps({"tokens": [["Anna", "Smith"]], "probabilities": probabilities}).encode()

    async def ask() -> weakref.ref[Cycle]:
        cycle = Cycle(body)
        await app(cycle.scope, cycle.receive, cycle.send)
        assert cycle.sent[0]["status"] == 200
        return weakref.ref(cycle)

    async def main() -> list[Cycle | None]:
        asked = [await ask() for _ in range(10)]
        await asyncio.sleep(0.1)
        return [one() for one in asked]

    gc.disable()
    try:
        assert asyncio.run(main()) == [None] * 10
    finally:
        gc.enable()
