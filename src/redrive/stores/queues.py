"""The records of queues: their settings and pauses, and how many flows they hold."""

import math

import msgspec

from redrive.stores.rates import read_rate


class QueuePause(msgspec.Struct, frozen=True, kw_only=True):
    """Who paused a queue, when and why."""

    at: float
    by: str
    why: str


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a queue in the whole fleet; None: nothing."""

    limit: int | None = None
    """How many of its flows may be owned at once, across all workers."""
    per_key: int | None = None
    """How many of these may have the same concurrency key."""
    rate: str | None = None
    """How many of its flows may begin in which time, such as "100/m"."""
    key_rate: str | None = None
    """How many of the flows that have the same concurrency key may begin in which time."""
    aging: float | None = None
    """After how many seconds of waiting the priority of a flow rises by one."""

    @property
    def is_per_key(self) -> bool:
        """Whether anything is set for each key."""
        return self.per_key is not None or self.key_rate is not None

    def closed_above(self, now: float) -> float:
        """The level of `key_rate` above which a key may begin nothing now."""
        if self.key_rate is None:
            return math.inf
        rate = read_rate(self.key_rate)
        return now + (rate.at_once - 1) * rate.interval


SETTINGS = QueueSettings.__struct_fields__
NO_SETTINGS = QueueSettings()


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and its flows that have not finished."""

    name: str
    limit: int | None
    """How many of its flows may be owned at once, across all workers; None: no limit."""
    ready: int
    waiting: int
    running: int
    due: int = 0
    """How many of the waiting flows could go on now."""
    paused: int = 0
    """How many of its flows were paused one by one."""
    parked: int = 0
    pause: QueuePause | None = None
    """Set while the whole queue is paused: no worker begins an attempt of its flows."""
    per_key: int | None = None
    """How many of its flows with the same concurrency key may be owned at once."""
    rate: str | None = None
    """How many of its flows may begin in which time, such as "100/m"."""
    key_rate: str | None = None
    """How many of its flows with the same concurrency key may begin in which time."""
    aging: float | None = None
    """After how many seconds of waiting the priority of a flow rises by one."""
