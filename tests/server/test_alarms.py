"""Alarms: each rings once, at its time or a little later, unless it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable

from trellis.server.alarms import TICK, Alarms


def run(test: Callable[[Alarms, asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Alarms(), asyncio.get_running_loop())

    asyncio.run(main())


def test_alarms_ring_in_their_order_and_not_before_their_time() -> None:
    async def test(alarms: Alarms, loop: asyncio.AbstractEventLoop) -> None:
        rung: list[tuple[str, bool]] = []
        begin = loop.time()
        for name, after in (("late", 3 * TICK), ("soon", 0.0), ("later", 6 * TICK)):
            alarms.call(loop, begin + after, lambda n=name, a=after: rung.append((n, loop.time() >= begin + a)))
        while len(rung) < 3:
            await asyncio.sleep(TICK)
        await asyncio.sleep(3 * TICK)
        assert rung == [("soon", True), ("late", True), ("later", True)]

    run(test)


def test_cancelled_alarms_do_not_ring() -> None:
    async def test(alarms: Alarms, loop: asyncio.AbstractEventLoop) -> None:
        rung: list[int] = []
        kept = [alarms.call(loop, loop.time(), lambda i=i: rung.append(i)) for i in range(4)]
        alarms.cancel(kept[1])
        alarms.cancel(kept[1])
        while len(rung) < 3:
            await asyncio.sleep(TICK)
        alarms.cancel(kept[0])
        assert sorted(rung) == [0, 2, 3]

    run(test)


def test_one_that_rings_may_set_another() -> None:
    async def test(alarms: Alarms, loop: asyncio.AbstractEventLoop) -> None:
        done = loop.create_future()
        alarms.call(loop, loop.time(), lambda: alarms.call(loop, loop.time(), lambda: done.set_result(True)) and None)
        assert await asyncio.wait_for(done, 10)

    run(test)
