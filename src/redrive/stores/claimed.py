"""The answer to a claim."""

import msgspec

from redrive.stores.records import FlowRecord


class Claimed(msgspec.Struct, frozen=True):
    """The answer to a claim."""

    flows: list[FlowRecord]
    next_wake: float | None
    """When the next waiting flow that matches the claim becomes due; always after `now`."""
    more: bool = False
    """Whether more flows may be claimable right away."""
    limited: bool = False
    """Whether a queue's limit may hold flows back until others end."""
    paused: frozenset[str] | None = None
    """All queues that are paused, whatever was claimed; None: the answer does not say."""
