"""The rows of the registry: steps of the catalogue, and access keys."""

import msgspec


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the catalogue, from which graphs are planned by their goals."""

    name: str
    body: str
    """The step as it was registered."""
    updated_at: float


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An access key of the HTTP API. Only its digest is stored."""

    id: str
    name: str
    """Its holder, to be shown."""
    role: str
    digest: str
    created_at: float
    queues: tuple[str, ...] = ()
    """The queues whose flows it may see and use; empty: all."""
    definitions: tuple[str, ...] = ()
    """The definitions whose flows it may see and use; empty: all."""
    expires_at: float | None = None
    """When it stops being accepted; None: never."""
    used_at: float | None = None
    """When it was last used, to about a minute."""
