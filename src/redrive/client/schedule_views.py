"""What a schedule shows: when it fires, what it started last, and what it skipped."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

import msgspec

from redrive.flows.schedules.schedule import Overlap, Schedule, ScheduleOrder, SkipReason
from redrive.flows.schedules.ticks import ticks_after
from redrive.flows.tags import read_tags
from redrive.stores.records import FlowStatus

NEXT_SHOWN = 5
MOST_NEXT_SHOWN = 100


class ShownRun(msgspec.Struct, frozen=True):
    """A flow that the schedule started."""

    flow_id: str
    tick: float
    """The tick that it was started for; the moment itself, when it was started by hand."""
    at: float
    by: str
    """Who started it by hand; empty for a tick."""
    why: str
    status: FlowStatus | None
    """None when the flow was removed."""


class ShownSkip(msgspec.Struct, frozen=True):
    """A tick that started nothing."""

    tick: float
    reason: SkipReason
    """overlap: an earlier flow still ran; missed: no worker was there until it was too late."""


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, its next ticks and its last ones. Times are epoch seconds."""

    name: str
    definition: str
    """What its flows run, such as "workflow:Report"."""
    state: Literal["active", "paused", "ended"]
    """ended: it has no tick to come."""
    cron: str | None
    timezone: str
    every: float | None
    at: float | None
    overlap: Overlap
    catch_up: float
    jitter: float
    queue: str
    priority: int
    tags: dict[str, str]
    source: Literal["call", "code"]
    """code: a decorator in the code of a worker; call: anything else."""
    revision: int
    created_at: float
    updated_at: float
    pause: ScheduleOrder | None
    """Who paused it, and why; None while it is not paused."""
    resumed: ScheduleOrder | None
    """How its last pause ended."""
    next_at: float | None
    """When the next tick is due, with its jitter."""
    next_ticks: tuple[float, ...]
    """The next ticks, without jitter."""
    pending: float | None
    """The tick whose flow begins once the running one has ended."""
    started: int
    """How many flows it has started."""
    overlapped: int
    """How many ticks were skipped because an earlier flow still ran."""
    missed: int
    """How many ticks were skipped because no worker was there in time."""
    last_runs: tuple[ShownRun, ...]
    """Its last flows, newest first."""
    last_skips: tuple[ShownSkip, ...]
    """The last ticks that it skipped, newest first."""


def view_of(
    schedule: Schedule,
    now: float,
    statuses: Mapping[str, FlowStatus],
    next_shown: int = NEXT_SHOWN,
    runs_shown: int | None = None,
) -> ScheduleView:
    """Return what the schedule shows. `statuses`: those of its last flows that exist."""
    if isinstance(next_shown, bool) or not isinstance(next_shown, int) or not 0 <= next_shown <= MOST_NEXT_SHOWN:
        raise ValueError(f"ticks: {next_shown!r:.40} is not allowed; use a whole number from 0 to {MOST_NEXT_SHOWN}")
    spec = schedule.spec
    # Ticks that are due at this moment, and are about to start their flows, still count as next ones.
    paused = schedule.pause is not None
    upcoming = () if paused else tuple(islice(ticks_after(spec.timing, schedule.anchor, schedule.settled), next_shown))
    shown: dict[str, Any] = {
        name: getattr(spec, name)
        for name in ("definition", "overlap", "catch_up", "jitter", "queue", "priority", "source", "revision")
    }
    return ScheduleView(
        **shown,
        name=schedule.name,
        state=schedule.state,
        cron=spec.timing.cron,
        timezone=spec.timing.timezone,
        every=spec.timing.every,
        at=spec.timing.at,
        tags=read_tags(spec.tags),
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
        pause=schedule.pause,
        resumed=schedule.resumed,
        next_at=schedule.next_at,
        next_ticks=upcoming,
        pending=schedule.pending,
        started=schedule.started,
        overlapped=schedule.overlapped,
        missed=schedule.missed,
        last_runs=tuple(
            ShownRun(run.flow_id, run.tick, run.at, run.by, run.why, statuses.get(run.flow_id))
            for run in schedule.runs[:runs_shown]
        ),
        last_skips=tuple(ShownSkip(one.tick, one.reason) for one in schedule.skips),
    )
