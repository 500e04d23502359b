"""One attempt, as the action that makes it sees it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from redrive.calls.scope import OWNER, Scope
from redrive.determinism.clock import Clock
from redrive.failures.redaction import redact
from redrive.flows.action import Executor
from redrive.policies.policy import Policy

LARGEST_DETAILS = 64 * 1024
Beat = Callable[[str, int, str, str], None]
"""Takes the details of a heartbeat, after the flow, the item and the delivery token of the attempt that beats."""

_current: "ContextVar[Attempt | None]" = ContextVar("redrive_attempt", default=None)


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """The attempt that an action is in: `redrive.current_attempt()`."""

    flow_id: str
    item: int
    step: str
    number: int
    """From 1."""
    delivery_token: str
    """One id per attempt."""
    policy: Policy
    timeout: float | None
    """Seconds the attempt may take."""
    timeout_at: float | None
    details: msgspec.Raw | None
    on_beat: Beat
    executor: Executor = "loop"
    kept: msgspec.Raw | None = None
    """What its own last heartbeat with details left."""
    thread_call: "Future[str] | None" = None
    """What occupies a thread, where it runs in one: that cannot be stopped, and may outlive the attempt."""

    # Guarded calls inside see it as the call around them.
    owns_retries: bool = True
    dependency: ClassVar[None] = None

    @property
    def receipt_token(self) -> str:
        """One id per work item, the same on every attempt: the idempotency key to hand on."""
        return f"{self.flow_id}.{self.item}"

    @property
    def deadline(self) -> datetime | None:
        """When the attempt will be cut."""
        return None if self.timeout_at is None else datetime.fromtimestamp(self.timeout_at, UTC)

    @property
    def last_details(self) -> Any:
        """What the last heartbeat of an earlier attempt left, as plain JSON data; None when there is nothing."""
        return None if self.details is None else msgspec.json.decode(self.details)

    def heartbeat(self, details: Any = None) -> None:
        """Say that the work goes on; `details` (plain data, a cursor say) are kept for the attempt that may follow.

        Without details, the last ones are kept: those of this attempt, or else of the one before.
        """
        last = self.details if self.kept is None else self.kept
        if details is None and last is not None:
            self.beat(bytes(last).decode())
            return
        try:
            text = msgspec.json.encode(details).decode()
        except (TypeError, ValueError) as error:
            raise TypeError(f"the details of a heartbeat must be plain data: {redact(str(error), 200)}") from None
        if len(text) > LARGEST_DETAILS:
            raise ValueError(f"the details of a heartbeat take {len(text)} bytes; at most {LARGEST_DETAILS} are kept")
        self.kept = msgspec.Raw(text.encode())
        self.beat(text)

    def beat(self, details: str) -> None:
        """Say so with details that are JSON already."""
        self.on_beat(self.flow_id, self.item, self.delivery_token, details)

    def beat_from_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on the heartbeats come from another thread."""
        beat = self.on_beat

        def hand_over(flow_id: str, item: int, delivery: str, text: str) -> None:
            # A thread may outlive the loop; there is nobody left then who would keep what it says.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(beat, flow_id, item, delivery, text)

        self.on_beat = hand_over

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self.step} in flow {self.flow_id}>"


def current_attempt() -> Attempt:
    """The attempt that this action is in."""
    attempt = _current.get()
    if attempt is None:
        raise RuntimeError("current_attempt() works only inside an action that a flow runs")
    return attempt


def scope_of(attempt: Attempt, clock: Clock) -> Scope:
    """The scope of the attempt: guarded calls inside it make one try each, and end with it."""
    now = clock.monotonic()
    attempt.owns_retries = attempt.policy.attempts != 1
    return [attempt, now] if attempt.timeout is None else [attempt, now, now + attempt.timeout]


def close_scope(scope: Scope) -> None:
    """Work that outlives the attempt owns its retries again."""
    scope[OWNER] = None


enter_attempt = _current.set
