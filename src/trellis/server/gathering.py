"""Short requests that come together and ask the same: one job of the queue for all of them.

What the queue, its lock, its clock and its thread cost is then paid once for all. Each request still has its own place
for the answer, may leave at any time, and is asked by itself if the model cannot answer all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from trellis.server.problems import OverloadedError, TooLateError, UnavailableError
from trellis.server.queueing import QueuedJob
from trellis.server.shelf import ServedModel
from trellis.text import PackedTokens

_FOR_ALL = (OverloadedError, TooLateError, UnavailableError)
"""Problems that are not about what a request says."""


class Member(Protocol):
    """A request of a group."""

    packed: PackedTokens
    tokens: int

    def done(self) -> bool:
        """Whether nobody waits for its answer any more."""

    def set_result(self, result: bytes, /) -> None:
        """The answer."""

    def set_exception(self, exception: Exception, /) -> None:
        """The error instead of it."""


class Group:
    """Requests for the tags of token lists with the same model and time; the place for the answers to all of them.

    `ask` is who asks for one of them by itself.
    """

    __slots__ = ("_ask", "_taken", "job", "longest", "members", "model", "seconds", "tokens")

    def __init__(self, model: ServedModel, seconds: float, ask: Callable[[Member, ServedModel, float], None]) -> None:
        self.model, self.seconds, self._ask = model, seconds, ask
        self.members: list[Member] = []
        self._taken: list[Member] = []
        self.tokens = self.longest = 0
        self.job: QueuedJob | None = None

    def add(self, member: Member) -> None:
        """One more request."""
        self.members.append(member)
        self.tokens += member.tokens
        self.longest = max(self.longest, member.tokens)

    def remove(self, member: Member) -> None:
        """A request whose client has gone; it is not asked, unless the model has it already."""
        self.members.remove(member)
        self.tokens -= member.tokens

    def take(self) -> list[PackedTokens]:
        """What is asked now; called in the thread of the models."""
        self._taken = list(self.members)
        return [member.packed for member in self._taken]

    def done(self) -> bool:
        """Whether nobody waits any more."""
        return not self.members

    def set_result(self, result: Sequence[bytes], /) -> None:
        """The answers to all requests that were taken."""
        for member, answer in zip(self._end(), result, strict=True):
            if not member.done():
                member.set_result(answer)

    def set_exception(self, exception: Exception, /) -> None:
        """A problem of all; or one of some, who will be found when each is asked by itself."""
        members, model, seconds, ask = self.members, self.model, self.seconds, self._ask
        self._end()
        for member in members:
            if isinstance(exception, _FOR_ALL):
                member.set_exception(exception)
            elif not member.done():
                ask(member, model, seconds)

    def _end(self) -> list[Member]:
        """Let everything go: members hold their group, and the job does."""
        taken, self._taken, self.members, self.job = self._taken, [], [], None
        return taken


@dataclass(frozen=True, slots=True)
class GroupQuestion:
    """The best labels of groups; the answer to one is a list with the whole answer to each of its requests."""

    model: ServedModel

    @classmethod
    def of(cls, model: ServedModel) -> GroupQuestion:
        """The same object each time, since jobs are compared by it."""
        found: GroupQuestion = model.kept.setdefault("group", cls(model))
        return found

    def answer(self, parts: Sequence[Group]) -> list[list[bytes]]:
        """One posterior for all."""
        taken = [group.take() for group in parts]
        every = list(chain.from_iterable(taken))
        if not every:
            return [[] for _ in taken]
        posterior = self.model.tagger.posterior(PackedTokens.joined(every))
        texts = iter(posterior.best_json(self.model.labels, [len(own) for own in every], b'{"tags":[', b"]}"))
        opening = self.model.opening
        return [[b"%b%b]}" % (opening, next(texts)) for _ in own] for own in taken]

    def sentences(self, part: Group) -> list[Group]:
        """None: who cannot be answered is found by asking each request by itself."""
        return []


def first(answers: list[list[bytes]]) -> list[bytes]:
    """The answers to a group, which is a single part of its job."""
    return answers[0]
