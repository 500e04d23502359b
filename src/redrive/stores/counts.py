"""Counts of many flows at once: by status, by what they wait for, by how they failed."""

import msgspec

from redrive.stores.records import FlowStatus

MOST_GROUPS = 1000
"""How many groups an answer has at most, the largest first."""


class FlowCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many flows of a definition in a queue have a status."""

    definition: str
    queue: str
    status: FlowStatus
    count: int


class RetryGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Work items of the retry queue that wait for the same, after the same failure."""

    definition: str
    dependency: str
    waits_for: str
    error_type: str
    count: int
    next_at: float
    """When the first of them may go on."""
    last_at: float
    """When the last of them may."""
    since: float | None
    """Since when the one that waits longest does."""
    reason: str
    """Why one of them waits, in words; empty where the other fields say it."""


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of the same step with the same error."""

    definition: str
    step: str
    dependency: str
    error_type: str
    kind: str
    count: int
    first_at: float
    last_at: float
    flow_id: str
    """The flow that failed last."""
    message: str
    """Its error."""
