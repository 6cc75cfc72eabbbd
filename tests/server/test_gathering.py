"""Requests that come together are asked together, and everybody gets the own answer, problem or peace."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trellis.server import ModelShelf, ServerLimits
from trellis.server.gathering import Group, GroupQuestion
from trellis.server.lane import Lane, Reply
from trellis.server.problems import RequestError
from trellis.server.questions import BestQuestion
from trellis.server.shared import Shared


class Asker:
    """A lane, and what it sent."""

    def __init__(self, shelf: ModelShelf, limits: ServerLimits) -> None:
        self.shared = Shared.of(shelf, limits)
        self.lane, self.answers, self.replies = Lane(self.shared), dict[int, Any](), list[Reply]()

    def ask(self, *sentences: list[str], **options: Any) -> None:
        body = json.dumps({"tokens": sentences, "probabilities": False} | options).encode()
        number = len(self.replies)

        def send(found: bytes, problem: RequestError | None) -> None:
            assert number not in self.answers
            self.answers[number] = json.loads(found)

        self.replies.append(self.lane.ask(body, send))

    async def learn(self, **options: Any) -> None:
        """Make such requests known: the first of them is read in the ordinary way."""
        self.ask(["Anna"], **options)
        await self.all()
        self.answers.clear()
        self.replies.clear()

    async def all(self, *but: int) -> None:
        while len(self.answers) < len(self.replies) - len(but):
            await asyncio.sleep(0.001)

    def tags(self, number: int) -> list[list[str]]:
        return [one["tags"] for one in self.answers[number]["results"]]

    def code(self, number: int) -> str:
        return str(self.answers[number]["error"]["code"])


def with_lane(shelf: ModelShelf, test: Callable[[Asker], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        asker = Asker(shelf, ServerLimits(**limits))
        await asker.learn()
        await asyncio.wait_for(test(asker), 60)
        await asker.shared.batcher.drain()
        assert asker.shared.batcher.queued == 0
        asker.shared.batcher.close()

    asyncio.run(run())


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The number of requests of each group in each batch."""
    found: list[list[int]] = []
    own = GroupQuestion.answer

    def answer(question: GroupQuestion, parts: list[Group]) -> list[list[bytes]]:
        answers = own(question, parts)
        found.append([len(one) for one in answers])
        return answers

    monkeypatch.setattr(GroupQuestion, "answer", answer)
    return found


class Gate:
    """Holds the model's thread up at the first batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.opened = threading.Event(), threading.Event()
        own = GroupQuestion.answer

        def answer(question: GroupQuestion, parts: list[Group]) -> list[list[bytes]]:
            self.began.set()
            assert self.opened.wait(30)
            return own(question, parts)

        monkeypatch.setattr(GroupQuestion, "answer", answer)

    async def begun(self) -> None:
        while not self.began.is_set():
            await asyncio.sleep(0.001)


WORDS = st.lists(st.lists(st.sampled_from(["Anna", "Smith", "met", "Paul", "é", "."]), max_size=6), max_size=4)
REQUESTS = st.lists(st.tuples(WORDS, st.sampled_from(["ner", "seg", "hmm", None])), max_size=30)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS, st.sampled_from([1, 7, 40, 4096]))
def test_everybody_gets_the_own_answer(shelf: ModelShelf, requests: list[Any], batch: int) -> None:
    async def test(asker: Asker) -> None:
        names = {name: {} if name is None else {"model": name} for name in ("ner", "seg", "hmm", None)}
        for options in names.values():
            await asker.learn(**options)
        for sentences, name in requests:
            asker.ask(*sentences, **names[name])
        await asker.all()
        for number, (sentences, name) in enumerate(requests):
            assert asker.tags(number) == shelf.get(name).tagger.predict(sentences)

    with_lane(shelf, test, batch_tokens=batch)


def test_requests_that_come_together_are_one_job(shelf: ModelShelf, groups: list[list[int]]) -> None:
    async def test(asker: Asker) -> None:
        for n in range(1, 6):
            asker.ask(["Anna"] * n)
        await asker.all()
        assert [len(asker.tags(n)[0]) for n in range(5)] == [1, 2, 3, 4, 5]

    with_lane(shelf, test)
    assert groups == [[5]]


def test_groups_hold_a_batch_and_one_model_and_time_each(shelf: ModelShelf, groups: list[list[int]]) -> None:
    async def test(asker: Asker) -> None:
        await asker.learn(model="seg")
        await asker.learn(timeout=9)
        for n, options in ((4, {}), (4, {}), (4, {}), (1, {"model": "seg"}), (1, {"timeout": 9}), (1, {"timeout": 9})):
            asker.ask(["Anna"] * n, **options)
        await asker.all()

    with_lane(shelf, test, batch_tokens=10)
    assert sorted(one for batch in groups for one in batch) == [1, 1, 2, 2]


def test_one_that_cannot_be_answered_harms_nobody(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = BestQuestion.answer

    def fail_together(question: GroupQuestion, parts: list[Group]) -> Any:
        raise ValueError("one of them is bad")

    def fail_one(question: BestQuestion, parts: Any) -> Any:
        if any(list(part.items[0]) == ["bad"] for part in parts):
            raise ValueError("bad")
        return alone(question, parts)

    async def test(asker: Asker) -> None:
        monkeypatch.setattr(GroupQuestion, "answer", fail_together)
        monkeypatch.setattr(BestQuestion, "answer", fail_one)
        for word in ("Anna", "bad", "Paul"):
            asker.ask([word])
        await asker.all()
        assert asker.code(1) == "internal_error"
        assert [asker.tags(n)[0] for n in (0, 2)] == shelf.get(None).tagger.predict([["Anna"], ["Paul"]])

    with_lane(shelf, test)


def test_who_leaves_before_the_model_comes_is_not_asked(
    shelf: ModelShelf, groups: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(asker: Asker) -> None:
        gate = Gate(monkeypatch)
        asker.ask(["first"])
        await gate.begun()
        for n in range(1, 5):
            asker.ask(["Anna"] * n)
        asker.lane.forget(asker.replies[1])  # before the group is in the queue
        await asyncio.sleep(0.01)
        assert asker.shared.batcher.queued == 9
        asker.lane.forget(asker.replies[3])
        assert asker.shared.batcher.queued == 6
        gate.opened.set()
        await asker.all(1, 3)
        assert [len(asker.tags(n)[0]) for n in (2, 4)] == [2, 4]

    with_lane(shelf, test)
    assert groups == [[1], [2]]


def test_groups_that_everybody_leaves_are_gone(
    shelf: ModelShelf, groups: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(asker: Asker) -> None:
        gate = Gate(monkeypatch)
        asker.ask(["first"])
        await gate.begun()
        for pause in (0.0, 0.01):
            mine = len(asker.replies)
            for n in range(1, 4):
                asker.ask(["Anna"] * n)
            await asyncio.sleep(pause) if pause else None
            for reply in asker.replies[mine:]:
                asker.lane.forget(reply)
            assert asker.shared.batcher.queued == 0
        asker.lane.forget(asker.replies[0])  # whose batch the thread has taken already
        gate.opened.set()
        await asker.shared.batcher.drain()
        assert not asker.answers

    with_lane(shelf, test)
    assert not any(map(any, groups))


def test_who_leaves_while_the_model_answers_is_not_told(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, opened, own = threading.Event(), threading.Event(), GroupQuestion.answer

    def answer(question: GroupQuestion, parts: list[Group]) -> list[list[bytes]]:
        found = own(question, parts)
        answered.set()
        assert opened.wait(30)
        return found

    async def test(asker: Asker) -> None:
        monkeypatch.setattr(GroupQuestion, "answer", answer)
        for n in range(1, 4):
            asker.ask(["Anna"] * n)
        while not answered.is_set():
            await asyncio.sleep(0.001)
        asker.lane.forget(asker.replies[1])
        opened.set()
        await asker.all(1)
        assert [len(asker.tags(n)[0]) for n in (0, 2)] == [1, 3]

    with_lane(shelf, test)


def test_a_deadline_is_told_to_all(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(asker: Asker) -> None:
        gate = Gate(monkeypatch)
        for n in (1, 2):
            asker.ask(["Anna"] * n)
        await asker.all()
        assert [asker.code(n) for n in (0, 1)] == ["deadline_passed"] * 2
        gate.opened.set()

    with_lane(shelf, test, seconds=0.1)


def test_what_is_too_much_is_refused_one_by_one(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(asker: Asker) -> None:
        gate = Gate(monkeypatch)
        asker.ask(["first"])
        await gate.begun()
        for _ in range(5):
            asker.ask(["Anna"] * 8)
        gate.opened.set()
        await asker.all()
        refused = [n for n in range(6) if "error" in asker.answers[n]]
        assert [asker.code(n) for n in refused] == ["overloaded"] * 3
        assert refused == [3, 4, 5]

    with_lane(shelf, test, tokens=10, high_tokens=20, low_tokens=10)


def test_a_server_that_stops_tells_all(shelf: ModelShelf) -> None:
    async def test(asker: Asker) -> None:
        for n in (1, 2):
            asker.ask(["Anna"] * n)
        asker.shared.batcher.close()
        await asker.all()
        assert [asker.code(n) for n in (0, 1)] == ["unavailable"] * 2

    with_lane(shelf, test)
