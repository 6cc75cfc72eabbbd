"""Deadlines of many requests, looked at by one timer: to set one costs next to nothing, and few ever ring.

They ring up to `TICK` late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

TICK = 0.02
"""Seconds between two looks."""


class Alarm:
    """A time, by the clock of the event loop, and what happens then."""

    __slots__ = ("when",)
    when: float

    def ring(self) -> None:
        """What happens; called once, unless the alarm is cancelled."""
        raise NotImplementedError


class Call(Alarm):
    """An alarm that calls a function."""

    __slots__ = ("_function",)

    def __init__(self, when: float, function: Callable[[], None]) -> None:
        self.when = when
        self._function: Callable[[], None] | None = function

    def ring(self) -> None:
        """Call it."""
        if self._function is not None:
            self._function()

    def forget(self) -> None:
        """Hold the function no longer: who keeps the alarm is mostly who is called, and no cycle may stay behind."""
        self._function = None


A = TypeVar("A", bound=Alarm)


class AlarmSet(Generic[A]):
    """The alarms that are set; for one event loop, whose clock they go by."""

    def __init__(self) -> None:
        self._set: set[A] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are set."""
        return len(self._set)

    def __contains__(self, alarm: A) -> bool:
        """Whether it is set."""
        return alarm in self._set

    def __iter__(self) -> Iterator[A]:
        """All that are set now."""
        return iter(tuple(self._set))

    def set(self, loop: asyncio.AbstractEventLoop, alarm: A) -> None:
        """Let it ring at its time."""
        self._set.add(alarm)
        if self._timer is None:
            self._timer = loop.call_later(TICK, self._look, loop)

    def drop(self, alarms: Iterable[A]) -> None:
        """Do not let them ring, if they have not rung."""
        self._set.difference_update(alarms)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        due = sorted((alarm for alarm in self._set if alarm.when <= now), key=lambda alarm: alarm.when)
        self._set.difference_update(due)
        self._timer = loop.call_later(TICK, self._look, loop) if self._set else None
        for alarm in due:
            alarm.ring()


class Alarms(AlarmSet[Call]):
    """Calls of functions."""

    def call(self, loop: asyncio.AbstractEventLoop, when: float, function: Callable[[], None]) -> Call:
        """Call a function at a time of the loop's clock."""
        alarm = Call(when, function)
        self.set(loop, alarm)
        return alarm

    def cancel(self, alarm: Call) -> None:
        """Do not let it ring, if it has not rung."""
        self._set.discard(alarm)
        alarm.forget()
