"""The batcher: answers go to those who asked, in time or not at all, and nobody waits forever."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.errors import ModelError
from trellis.server.batcher import Batcher, BatchJob, BatchRecord, JobPart
from trellis.server.inference import InputColumns
from trellis.server.jobs import parts_within
from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError

SMALL = ServerLimits(
    tokens=100, high_tokens=100, low_tokens=40, batch_tokens=10, sentence_tokens=100, seconds=20.0, linger=0.0
)


@dataclass(frozen=True)
class Echo:
    """Answers each part with itself, once the gate is open; remembers its batches."""

    name: str = "echo"
    gate: threading.Event = field(default_factory=threading.Event, compare=False)
    batches: list[list[Any]] = field(default_factory=list, compare=False)
    began: threading.Event = field(default_factory=threading.Event, compare=False)

    def answer(self, parts: Sequence[Any]) -> list[Any]:
        self.began.set()
        assert self.gate.wait(20)
        self.batches.append(list(parts))
        if any("bad" in part for part in parts if isinstance(part, str | list)):
            raise ModelError("bad is bad")
        if "bug" in parts:
            raise KeyError("bug")
        return [f"{self.name}:{part}" for part in parts]

    def sentences(self, part: Any) -> list[Any]:
        return part if isinstance(part, list) else [part]


@dataclass(frozen=True)
class Opened(Echo):
    def __post_init__(self) -> None:
        self.gate.set()


Answer = asyncio.Future[Any]


def echo_job(inference: Echo, *contents: Any, tokens: int = 1) -> BatchJob:
    return BatchJob(inference, [JobPart(content, tokens, i) for i, content in enumerate(contents)], tuple, 20.0)


def job(batcher: Batcher, inference: Echo, *contents: Any, tokens: int = 1) -> Answer:
    return batcher.submit(echo_job(inference, *contents, tokens=tokens))


def run(test: Callable[[Batcher], Awaitable[None]], limits: ServerLimits = SMALL, watch: Any = None) -> None:
    async def within() -> None:
        batcher = Batcher(limits, watch)
        try:
            await asyncio.wait_for(test(batcher), 30)
        finally:
            batcher.close()

    asyncio.run(within())


def batching(limits: ServerLimits = SMALL) -> Callable[[Callable[[Batcher], Awaitable[None]]], Callable[[], None]]:
    """A test with a batcher of these limits."""

    def decorated(test: Callable[[Batcher], Awaitable[None]]) -> Callable[[], None]:
        def in_a_loop() -> None:
            run(test, limits)

        return in_a_loop

    return decorated


async def behind(batcher: Batcher, inference: Echo) -> Answer:
    """A job that occupies the thread until the gate opens."""
    first = job(batcher, inference, "first")
    while not inference.began.is_set():
        await asyncio.sleep(0.001)
    return first


@batching()
async def test_requests_that_gather_behind_a_batch_share_the_next_one(batcher: Batcher) -> None:
    echo = Echo()
    first = await behind(batcher, echo)
    others = [job(batcher, echo, i) for i in range(6)]
    echo.gate.set()
    await asyncio.gather(first, *others)
    assert echo.batches == [["first"], [0, 1, 2, 3, 4, 5]]


@batching(ServerLimits(linger=20.0))
async def test_requests_that_come_within_the_linger_are_answered_together(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    together = [job(batcher, echo, i) for i in range(2)]
    echo.gate.set()
    await asyncio.gather(*together)
    await batcher.in_thread(str, "once the batch has ended")
    later = job(batcher, echo, "a")
    await asyncio.sleep(0.05)
    assert not later.done()
    assert await job(batcher, echo, "b") == ("echo:b",)
    assert echo.batches[1:] == [[0, 1], ["a", "b"]]


@batching(ServerLimits(linger=60.0))
async def test_a_client_by_itself_does_not_linger(batcher: Batcher) -> None:
    for i in range(3):
        assert await asyncio.wait_for(job(batcher, Opened(), i), 10) == (f"echo:{i}",)


@batching()
async def test_a_batch_is_bounded_in_tokens_but_a_longer_sentence_goes_alone(batcher: Batcher) -> None:
    echo = Echo()
    first = await behind(batcher, echo)
    jobs = [job(batcher, echo, i, tokens=5) for i in range(4)] + [job(batcher, echo, "long", tokens=50)]
    echo.gate.set()
    await asyncio.gather(first, *jobs)
    assert echo.batches == [["first"], [0, 1], [2, 3], ["long"]]


@batching(ServerLimits(batch_tokens=10, linger=0.0))
async def test_short_requests_overtake_a_long_one_whose_parts_spread_out(batcher: Batcher) -> None:
    echo = Echo()
    first = await behind(batcher, echo)
    long = job(batcher, echo, *(f"long {i}" for i in range(3)), tokens=4000)
    short = [job(batcher, echo, i) for i in range(2)]
    echo.gate.set()
    await asyncio.gather(first, long, *short)
    assert echo.batches == [["first"], [0, 1], ["long 0"], ["long 1"], ["long 2"]]


@batching()
async def test_keys_do_not_change_so_that_a_long_request_comes_before_later_short_ones(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    long = job(batcher, echo, "long", tokens=60)
    await asyncio.sleep(0.05)  # more than 60 tokens take at the pace
    short = [job(batcher, echo, i) for i in range(20)]
    echo.gate.set()
    await asyncio.gather(long, *short)
    assert echo.batches[1] == ["long"]


@batching()
async def test_above_the_high_mark_requests_are_refused_until_the_low_mark(batcher: Batcher) -> None:
    echo = Echo()
    first = await behind(batcher, echo)
    jobs = [job(batcher, echo, i, tokens=10) for i in range(10)]
    assert batcher.queued <= 100
    with pytest.raises(RequestError, match="tokens wait already: expected at most 100") as refused:
        job(batcher, echo, "more", tokens=20)
    assert 1 <= (refused.value.retry_after or 0) <= 60
    for one in jobs[4:6]:
        one.cancel()
    await asyncio.sleep(0)
    with pytest.raises(RequestError):  # below the high mark, but not yet at the low one
        job(batcher, echo, "more")
    for one in jobs[6:]:
        one.cancel()
    await asyncio.sleep(0)
    more = job(batcher, echo, "more")
    echo.gate.set()
    await asyncio.gather(first, more, *jobs[:4])


@batching(replace(SMALL, seconds=2.0))
async def test_no_more_is_accepted_than_a_slow_model_answers_in_time(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    batcher.set_speed(30.0)  # tokens per second: 30 in half of the two seconds that a request has
    job(batcher, echo, "fits", tokens=20)
    with pytest.raises(RequestError, match="expected at most 30 with this request"):
        job(batcher, echo, "too much", tokens=20)
    echo.gate.set()


@batching()
async def test_a_request_that_can_wait_is_woken_at_the_low_mark(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    jobs = [job(batcher, echo, i, tokens=10) for i in range(8)]
    patient = BatchJob(echo, [JobPart("patient", 1)], tuple, 20.0)
    waiting = asyncio.ensure_future(batcher.submit_patiently(patient))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    echo.gate.set()
    answer = await waiting
    assert batcher.queued <= 41
    await asyncio.gather(answer, *jobs)


@batching()
async def test_a_client_that_goes_away_costs_nothing_more(batcher: Batcher) -> None:
    echo = Echo()
    first = await behind(batcher, echo)
    gone = job(batcher, echo, *range(8))
    gone.cancel()
    await asyncio.sleep(0)
    assert batcher.queued == 0
    after = job(batcher, echo, "after")
    echo.gate.set()
    await asyncio.gather(first, after)
    assert echo.batches == [["first"], ["after"]]


@batching()
async def test_a_part_that_is_refused_harms_no_other_job(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    good, bad = job(batcher, echo, "good"), job(batcher, echo, "fine", "bad")
    echo.gate.set()
    assert await good == ("echo:good",)
    with pytest.raises(RequestError, match="bad is bad") as refused:
        await bad
    assert refused.value.input == 1


@batching(replace(SMALL, batch_tokens=2))
async def test_parts_of_a_refused_job_in_later_batches_do_no_harm(batcher: Batcher) -> None:
    bad, good = job(batcher, Opened(), "bad", *range(30)), job(batcher, Opened(), *range(30))
    with pytest.raises(RequestError, match="bad is bad"):
        await bad
    assert len(await good) == 30


@batching()
async def test_of_a_part_with_several_sentences_the_one_that_is_refused_is_named(batcher: Batcher) -> None:
    parts = [JobPart(["a", "b"], 2, 0), JobPart(["c", "d", "bad", "e"], 4, 2)]
    with pytest.raises(RequestError, match="bad is bad") as refused:
        await batcher.submit(BatchJob(Opened(), parts, tuple, 20.0))
    assert refused.value.input == 4


def test_a_mistake_of_ours_is_an_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    async def test(batcher: Batcher) -> None:
        with pytest.raises(RequestError, match="a mistake in the server") as refused:
            await job(batcher, Opened(), "bug")
        assert refused.value.status == 500
        assert "KeyError in answer, line" in caplog.text
        failing = batcher.submit(BatchJob(Opened(), [JobPart("x", 1)], lambda answers: 1 / 0, 20.0))
        with pytest.raises(RequestError, match="a mistake in the server"):
            await failing

    run(test)


@batching()
async def test_draining_answers_what_was_accepted_and_refuses_the_rest(batcher: Batcher) -> None:
    echo = Echo()
    first = await behind(batcher, echo)
    second = job(batcher, echo, "second")
    draining = asyncio.ensure_future(batcher.drain())
    await asyncio.sleep(0)
    with pytest.raises(RequestError, match="the server is stopping"):
        job(batcher, echo, "third")
    assert not draining.done()
    echo.gate.set()
    await draining
    assert (await first, await second) == (("echo:first",), ("echo:second",))


@batching()
async def test_draining_answers_what_was_being_read(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)

    async def ask() -> Any:
        return await batcher.submit(await batcher.in_thread(lambda content: echo_job(echo, content), "read"))

    asking = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    draining = asyncio.ensure_future(batcher.drain())
    await asyncio.sleep(0)
    with pytest.raises(RequestError, match="the server is stopping"):
        batcher.admit()
    with pytest.raises(RequestError, match="the server is stopping"):
        await batcher.in_thread(str, "later")
    echo.gate.set()
    assert await asking == ("echo:read",)
    await draining


@batching()
async def test_whoever_waits_at_the_end_is_told(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    second = job(batcher, echo, "second")
    batcher.close()
    echo.gate.set()
    with pytest.raises(RequestError):
        await second


def test_batches_are_reported() -> None:
    records: list[BatchRecord] = []

    async def test(batcher: Batcher) -> None:
        echo = Echo()
        await behind(batcher, echo)
        jobs = [job(batcher, echo, i, i, tokens=2) for i in range(2)]
        echo.gate.set()
        await asyncio.gather(*jobs)

    run(test, watch=records.append)
    assert [(record.jobs, record.tokens) for record in records] == [(1, 1), (2, 8)]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 12), st.integers(0, 2), st.booleans()), max_size=30))
def test_answers_are_never_mixed_and_nothing_is_left(jobs: list[tuple[int, int, int, bool]]) -> None:
    async def test(batcher: Batcher) -> None:
        questions, waiting = [Opened(str(n)) for n in range(3)], []
        for number, (parts, tokens, question, cancelled) in enumerate(jobs):
            one = job(batcher, questions[question], *(f"{number}/{i}" for i in range(parts)), tokens=tokens)
            expected = tuple(f"{question}:{number}/{i}" for i in range(parts))
            if cancelled:
                one.cancel()
            else:
                waiting.append((one, expected))
            if number % 5 == 0:
                await asyncio.sleep(0)
        for one, expected in waiting:
            assert await one == expected
        await batcher.drain()
        assert batcher.queued == 0

    run(test, ServerLimits(batch_tokens=20, linger=0.0))


@batching()
async def test_requests_are_refused_before_they_are_read_once_too_much_waits(batcher: Batcher) -> None:
    echo = Echo()
    await behind(batcher, echo)
    batcher.admit()
    job(batcher, echo, "much", tokens=100)
    with pytest.raises(RequestError):
        batcher.admit()
    echo.gate.set()


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 80), st.integers(1, 5))
def test_parts_are_all_sentences_in_their_order_and_bounded(lengths: list[int], batch: int, weight: int) -> None:
    asked = InputColumns([[f"{i}"] * n for i, n in enumerate(lengths)], [str(i) for i in range(len(lengths))])
    parts = parts_within(asked, ServerLimits(batch_tokens=batch), weight)
    assert [item for part in parts for item in part.content.items] == asked.items
    assert [text for part in parts for text in part.content.texts] == asked.texts
    for part in parts:
        items = part.content.items
        assert asked.items[part.first : part.first + len(items)] == items
        assert part.tokens == sum(max(1, len(item)) * weight for item in items)
        assert len(items) == 1 or part.tokens <= max(1, batch // 4)
