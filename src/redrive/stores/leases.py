"""The records about workers and their leases."""

import msgspec


class Lease(msgspec.Struct, frozen=True):
    """A worker's right to own flows, valid until it expires or is taken away."""

    epoch: int
    """The fencing token: never issued twice."""
    worker: str
    version: str = ""
    """The version of the code that the worker runs; empty where it names none."""


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that asks for a lease."""

    name: str
    """Host and process, to be shown."""
    definitions: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    """None: all."""
    version: str = ""
    """The version of its code: it claims flows that are pinned to it, too."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker with a lease."""

    epoch: int
    name: str
    definitions: tuple[str, ...]
    queues: tuple[str, ...] | None
    joined_at: float
    expires_at: float
    alive: bool
    """Whether the lease is valid by the store's clock."""
    flows: int
    """How many flows the worker owns."""
    version: str = ""
    """The version of its code; empty where it names none."""


class Reaped(msgspec.Struct, frozen=True):
    """A worker whose lease was reaped, and how many of its flows were released."""

    worker: str
    epoch: int
    flows: int
