"""The settings of a worker."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from redrive.failures.duration import read_duration
from redrive.flows.retry_policy import Retry, as_policy
from redrive.flows.stored_policy import write_stored_policy
from redrive.notation.durations import write_duration
from redrive.policies.policy import Policy
from redrive.runners.http.settings import HttpSettings
from redrive.stores.queue_names import QUEUE_NAME, is_queue

# Larger values would exhaust the machine.
_MOST = {"concurrency": 1_000_000, "threads": 10_000, "processes": 1000, "flows": 1_000_000}
_LEAST = {
    # The lease is renewed at a third of this, and the store must answer in time.
    "lease": 0.5,
    "poll": 0.01,
    "grace": 0.0,
    "keep_finished": 0.0,
}
# A hundred years: a larger value is a mistaken unit.
_LONGEST = 36_500 * 86_400.0


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations may be given in seconds, as a timedelta, or as text such as "30s"; they are stored in seconds."""

    queues: tuple[str, ...] | None = None
    """The queues whose flows it claims; None for all."""
    concurrency: int = 1000
    """How many coroutine actions run at once."""
    threads: int = 32
    """How many plain functions run at once, in threads."""
    processes: int = max(1, os.cpu_count() or 1)
    """How many actions run at once in processes of their own."""
    flows: int = 1000
    """How many flows are in memory at once, including those that wait briefly."""
    lease: float = 10.0
    """Seconds after which a worker that does not renew its lease loses its flows to others."""
    poll: float = 1.0
    """Seconds between polls for work when the store sends no wake-up."""
    grace: float = 10.0
    """Seconds that running attempts have to finish when the worker is stopped."""
    keep_finished: float | None = None
    """Seconds after which finished flows are removed; None for never."""
    version: str = ""
    """The version of its code, to be shown; flows that are pinned to a version go only to workers of it."""
    pin: bool = False
    """Whether flows that begin here are pinned to `version`; otherwise only those of `@workflow(pinned=True)`."""
    http: HttpSettings = HttpSettings()
    """How HTTP steps are called, and which addresses are allowed."""
    default_policy: Retry | None = None
    """The policy of actions, jobs and steps without one, as `retry=` takes it; None for the durable default."""
    queue_policies: Mapping[str, Retry] = {}
    """The default policy of a queue's flows, by the queue's name."""
    definition_policies: Mapping[str, Retry] = {}
    """The default policy of a definition's flows, by its name; it takes precedence over that of the queue.

    The name may include the kind: "Billing" or "workflow:Billing".
    """

    @property
    def default(self) -> Policy | None:
        return None if self.default_policy is None else as_policy(self.default_policy)

    @property
    def by_queue(self) -> dict[str, Policy]:
        return {queue: as_policy(retry) for queue, retry in self.queue_policies.items()}

    @property
    def by_definition(self) -> dict[str, Policy]:
        return {name: as_policy(retry) for name, retry in self.definition_policies.items()}

    def __post_init__(self) -> None:
        for field in ("queue_policies", "definition_policies"):
            if not isinstance(given := getattr(self, field), Mapping):
                raise ValueError(
                    f'{field}: {given!r} is not allowed; use a mapping, such as {{"mail": RetryPolicy(...)}}'
                )
        for queue in self.queue_policies:
            if not is_queue(queue):
                raise ValueError(f"queue_policies: {queue!r} is not allowed; {QUEUE_NAME}")
        for policy in (self.default, *self.by_queue.values(), *self.by_definition.values()):
            if policy is not None:
                write_stored_policy(policy)
        for field, most in _MOST.items():
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"{field}: {value!r} is not allowed; use a whole number from 1 to {most}")
        for field, least in _LEAST.items():
            value = getattr(self, field)
            if value is not None or field != "keep_finished":
                msgspec.structs.force_setattr(self, field, _seconds(field, value, least))
        if self.queues is not None:
            msgspec.structs.force_setattr(self, "queues", _queues(self.queues))
        if not isinstance(self.version, str) or (self.version and not is_queue(self.version)):
            raise ValueError(f"version: {self.version!r} is not allowed; {QUEUE_NAME}")
        if self.pin and not self.version:
            raise ValueError("pin: flows can be pinned only to a version; name that of this code with version=...")
        if not isinstance(self.http, HttpSettings):
            raise ValueError(f"http: {self.http!r} is not allowed; use redrive.HttpSettings(...)")


def _seconds(field: str, value: Any, least: float) -> float:
    try:
        seconds = read_duration(value)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
    if not least <= seconds <= _LONGEST:
        shown = f"{write_duration(least)} to {write_duration(_LONGEST)}"
        raise ValueError(f"{field}: {value!r} is not allowed; use {shown}")
    return seconds


def _queues(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ValueError(f"queues: {given!r} is not allowed; use a list of names, such as [{given!r}]")
    names = tuple(given) if isinstance(given, Iterable) else ()
    if not names:
        raise ValueError(f"queues: {given!r} is not allowed; use a list of names, or None for all queues")
    for name in names:
        if not is_queue(name):
            raise ValueError(f"queues: {name!r} is not allowed; {QUEUE_NAME}")
    return names
