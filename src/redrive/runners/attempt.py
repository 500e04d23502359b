"""The current attempt, as the code of its action sees it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import msgspec

from redrive.calls.scope import OWNER, Scope
from redrive.determinism.clock import Clock
from redrive.failures.redaction import redact
from redrive.flows.action import Executor
from redrive.policies.policy import Policy
from redrive.telemetry.tracing import current_tracer

MAX_DETAILS_BYTES = 64 * 1024
Slot = Executor | Literal["alone"]
"""A slot of an executor, or the one for attempts that may take their worker down."""
Beat = Callable[[str, int, str, str], None]
"""Called for each heartbeat with the flow id, the item, the delivery token and the details as JSON."""

_current: "ContextVar[Attempt | None]" = ContextVar("redrive_attempt", default=None)


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """One execution of a work item; an action gets its own with `redrive.current_attempt()`."""

    flow_id: str
    item: int
    step: str
    number: int
    """From 1."""
    delivery_token: str
    """One id per attempt."""
    policy: Policy
    timeout: float | None
    """How many seconds the attempt may take."""
    timeout_at: float | None
    """When that time is over, in seconds since 1970."""
    details: msgspec.Raw | None
    """The heartbeat details of the attempt before this one."""
    on_beat: Beat
    executor: Executor = "loop"
    slot: Slot = "loop"
    """What it occupies in its worker."""
    own_details: msgspec.Raw | None = None
    """The details of this attempt's last heartbeat that had any."""
    traceparent: str | None = None
    """The W3C trace context of the attempt's span, to send on; None where nothing is traced."""
    http_status: int | None = None
    """The status of an HTTP step's answer, once there is one."""
    thread_call: "Future[str] | None" = None
    """The call in a thread: it cannot be stopped, and may outlive the attempt."""

    # With these, guarded calls inside the attempt take it for the call around them.
    owns_retries: bool = True
    dependency: ClassVar[None] = None

    @property
    def receipt_token(self) -> str:
        """The id of the work item, the same on every attempt: pass it on as the idempotency key."""
        return f"{self.flow_id}.{self.item}"

    @property
    def deadline(self) -> datetime | None:
        """When the attempt is cut; None if it has no timeout."""
        return None if self.timeout_at is None else datetime.fromtimestamp(self.timeout_at, UTC)

    @property
    def last_details(self) -> Any:
        """The heartbeat details of an earlier attempt, as plain JSON data; None if there are none."""
        return None if self.details is None else msgspec.json.decode(self.details)

    def heartbeat(self, details: Any = None) -> None:
        """Report progress. The next attempt finds `details`, plain data such as a cursor, in `last_details`.

        Without details, the last ones are kept: those of this attempt, or else those of the one before.
        """
        last = self.details if self.own_details is None else self.own_details
        if details is None and last is not None:
            self.beat(bytes(last).decode())
            return
        try:
            text = msgspec.json.encode(details).decode()
        except (TypeError, ValueError) as error:
            raise TypeError(f"heartbeat details must be plain data: {redact(str(error), 200)}") from None
        if len(text) > MAX_DETAILS_BYTES:
            raise ValueError(f"heartbeat details take {len(text)} bytes; use at most {MAX_DETAILS_BYTES}")
        self.own_details = msgspec.Raw(text.encode())
        self.beat(text)

    def beat(self, details: str) -> None:
        """Send a heartbeat with details that are already JSON."""
        self.on_beat(self.flow_id, self.item, self.delivery_token, details)

    def beat_from_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send further heartbeats through the loop: they come from another thread."""
        beat = self.on_beat

        def send(flow_id: str, item: int, delivery: str, text: str) -> None:
            # A thread may outlive the loop; nobody is left to record its heartbeat then.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(beat, flow_id, item, delivery, text)

        self.on_beat = send

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self.step} in flow {self.flow_id}>"


class NotCalled(Exception):
    """The attempt was dropped right before its call: its worker may not act any more."""


def attempt_here() -> Attempt | None:
    """Return the attempt that this code runs in; None outside of attempts."""
    return _current.get()


def current_attempt() -> Attempt:
    """Return the attempt that this action runs in."""
    attempt = _current.get()
    if attempt is None:
        raise RuntimeError("current_attempt() works only inside an action that a flow runs")
    return attempt


def scope_of(attempt: Attempt, clock: Clock) -> Scope:
    """Return the scope of the attempt: guarded calls inside make one try each, and end with the attempt."""
    now = clock.monotonic()
    attempt.owns_retries = attempt.policy.attempts != 1
    return [attempt, now] if attempt.timeout is None else [attempt, now, now + attempt.timeout]


def close_scope(scope: Scope) -> None:
    """Let work that outlives the attempt own its retries again."""
    scope[OWNER] = None


def enter_attempt(attempt: Attempt) -> None:
    """Make the attempt, and its span where there is one, the current ones of this task, thread or process."""
    _current.set(attempt)
    if attempt.traceparent is not None and (tracer := current_tracer()) is not None:
        tracer.enter(attempt.delivery_token, attempt.traceparent)
