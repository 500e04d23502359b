"""What a flow waits for, and until when, in words."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from redrive.flows.waits import HELD_BACK, WaitsFor
from redrive.formatting.text import format_count
from redrive.formatting.times import format_duration, utc_datetime
from redrive.server.contract.models import ResponseModel
from redrive.stores.records import FlowRecord, RetryRow

FlowWaitsFor = (
    WaitsFor
    | Literal[
        "slot",  # it is due, and begins as soon as a worker has room
        "start",  # the time at which it is to begin
        "signal",  # a signal that someone sends, and no time
        "timer",  # a timer, or whatever else its code waits for
        "worker",  # a worker that claims it
        "resume",  # someone to resume it
        "repair",  # someone to repair what keeps it from going on
    ]
)


class FlowWait(ResponseModel, frozen=True):
    """Why a flow does not go on at this moment."""

    waits_for: FlowWaitsFor
    """Empty while a retry runs."""
    until: datetime | None
    """When it goes on at the earliest; null where nobody knows."""
    since: datetime | None
    step: str
    """Empty where no step waits."""
    attempt: int | None
    """The attempt that waits or runs, from 1."""
    of: int | None
    """How many attempts there are at most; null for no limit."""
    error_type: str
    """Of the last failure; empty before the first."""
    dependency: str
    reason: str
    """All of this in words."""


def wait_of(record: FlowRecord, row: RetryRow | None, now: float) -> FlowWait | None:
    """Return what the flow waits for, given its next work item in the retry queue; None when nothing is known to."""
    if record.status == "paused":
        return _of_flow("resume", None, "it is paused: someone has to resume it")
    if record.status == "parked":
        return _of_flow("repair", None, "it cannot go on as it is: `explain` says what to repair, then resume it")
    if row is not None and record.status in ("ready", "waiting", "running"):
        return _of_row(row, now)
    if record.status == "ready":
        return _of_flow("worker", None, "a worker has to claim it: none has room, or its queue is paused or full")
    if record.status == "waiting" and record.wake_at is not None:
        if not record.claims:
            return _of_flow("start", record.wake_at, "it is to begin then")
        return _of_flow("timer", record.wake_at, "its code waits until then")
    if record.status == "waiting":
        return _of_flow("signal", None, "its code waits for a signal: `explain` says for which, and how to send it")
    return None


def next_rows(rows: Iterable[RetryRow]) -> dict[str, RetryRow]:
    """Return the work item of each flow that goes on first; one that runs comes before those that wait."""
    found: dict[str, RetryRow] = {}
    for row in rows:
        known = found.get(row.flow_id)
        if known is None or _place(row) < _place(known):
            found[row.flow_id] = row
    return found


def _place(row: RetryRow) -> tuple[bool, float, int]:
    return row.status == "waiting", row.scheduled_at, row.item


def _of_flow(waits_for: FlowWaitsFor, until: float | None, reason: str) -> FlowWait:
    return FlowWait(
        waits_for=waits_for,
        until=None if until is None else utc_datetime(until),
        since=None,
        step="",
        attempt=None,
        of=None,
        error_type="",
        dependency="",
        reason=reason,
    )


def _of_row(row: RetryRow, now: float) -> FlowWait:
    waits_for: FlowWaitsFor = row.waits_for
    if row.status == "waiting" and row.scheduled_at <= now and waits_for not in HELD_BACK:
        waits_for = "slot"
    return FlowWait(
        waits_for=waits_for,
        until=utc_datetime(row.scheduled_at) if row.status == "waiting" else None,
        since=None if row.since is None else utc_datetime(row.since),
        step=row.step,
        attempt=row.attempt_number + 1,
        of=None if row.max_retries is None else max(0, row.max_retries) + 1,
        error_type=row.error_type,
        dependency=row.dependency,
        reason=_reason(row, waits_for),
    )


def _reason(row: RetryRow, waits_for: FlowWaitsFor) -> str:
    number = row.attempt_number + 1
    attempt = f"attempt {number}" if row.max_retries is None else f"attempt {number} of {row.max_retries + 1}"
    if not waits_for:
        return f"{attempt} of {row.step} runs"
    failed = f" after {row.error_type}" if row.error_type else ""
    if waits_for == "slot":
        return f"{attempt} of {row.step}{failed} is due: it begins as soon as a worker has room for it"
    if row.reason:
        return f"{attempt} of {row.step}{failed} waits: {row.reason}"
    why = {
        "backoff": _backoff(row),
        "retry_after": "the server asked to wait",
        "redrive": "it was redriven, and a worker has to claim it",
        "snooze": "it asked to be run again later",
    }.get(waits_for, "")
    return f"{attempt} of {row.step}{failed} waits{f': {why}' if why else ''}"


def _backoff(row: RetryRow) -> str:
    if row.backoff_kind == "none":
        return "its policy says when"
    return f"{row.backoff_kind} backoff from {format_duration(row.backoff_base_delay_ms / 1000)}"


def group_in_words(waits_for: str, dependency: str, count: int, *, due: bool = False) -> str:
    """What that many work items wait for, and what happens then."""
    name = dependency or "their dependency"
    items = format_count(count, "step")
    one = count == 1
    if due and waits_for not in HELD_BACK:
        return f"{items} {'is' if one else 'are'} due, and {'begins' if one else 'begin'} as workers have room"
    words = {
        "circuit": f"{items} {'waits' if one else 'wait'} for {name}, whose circuit is open",
        "recovery": f"{items} {'waits' if one else 'wait'} for {'its' if one else 'their'} turn: {name} is recovering",
        "budget": f"{items} {'waits' if one else 'wait'} for the retry budget of {name}",
        "limit": f"{items} {'waits' if one else 'wait'} for the request limit of {name}",
        "backoff": f"{items} {'is' if one else 'are'} tried again after a backoff",
        "retry_after": f"{items} {'is' if one else 'are'} tried again when the server asked for it",
        "snooze": f"{items} {'is' if one else 'are'} run again when asked for",
        "redrive": f"{items} {'was' if one else 'were'} redriven, and {'waits' if one else 'wait'} for a worker",
        "": f"{items} {'is' if one else 'are'} being tried again",
    }
    return words.get(waits_for, f"{items} {'waits' if one else 'wait'}")
