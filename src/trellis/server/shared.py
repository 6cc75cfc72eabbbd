"""What all ways to an answer share."""

from __future__ import annotations

from typing import NamedTuple

from trellis.server.alarms import Alarms
from trellis.server.batcher import Batcher
from trellis.server.bodies import Bodies
from trellis.server.limits import ServerLimits
from trellis.server.metrics import Metrics
from trellis.server.requests import RequestReader
from trellis.server.shelf import ModelShelf

INLINE = 64 * 2**10
"""Bytes of a request up to which it is read in the event loop; longer ones would hold it up."""


class Shared(NamedTuple):
    """The parts of a server that answers are made with."""

    shelf: ModelShelf
    limits: ServerLimits
    alarms: Alarms
    metrics: Metrics
    batcher: Batcher
    bodies: Bodies
    reader: RequestReader

    @classmethod
    def of(cls, shelf: ModelShelf, limits: ServerLimits) -> Shared:
        """New ones."""
        metrics, alarms = Metrics(), Alarms()
        batcher = Batcher(limits, metrics.batch)
        metrics.watch_queue(lambda: batcher.queued)
        return cls(shelf, limits, alarms, metrics, batcher, Bodies(limits, alarms), RequestReader(shelf, limits))
