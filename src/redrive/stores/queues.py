"""The records of queues: their limits and pauses, and how many flows they hold."""

import msgspec


class QueuePause(msgspec.Struct, frozen=True, kw_only=True):
    """Who paused a queue, when and why."""

    at: float
    by: str
    why: str


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
