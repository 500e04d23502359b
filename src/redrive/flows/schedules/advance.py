"""What a schedule does now: which ticks start flows, which are skipped, and which flows are cancelled. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from redrive.flows.schedules.schedule import (
    MOST_KEPT,
    Schedule,
    ScheduledRun,
    SkippedTick,
    flow_id_of_tick,
    key_of_tick,
)
from redrive.flows.schedules.ticks import due_at, tick_after

MOST_TICKS_AT_ONCE = 100
"""How many ticks one transaction deals with, so that many at once hold up nobody."""
ON_TIME = 10.0
"""A tick that is later than this, in seconds, is one that nobody was there for."""


class Advance(NamedTuple):
    schedule: Schedule
    """The schedule afterwards; the same object when there was nothing to do."""
    started: list[ScheduledRun]
    """The flows to start."""
    cancelled: list[str]
    """The ids of the running flows to cancel."""


def advance(schedule: Schedule, now: float, unfinished: Collection[str]) -> Advance:
    """Deal with the ticks that are due. `unfinished`: those of its last flows that have not ended."""
    return _Ticking(schedule, now, unfinished).run()


def run_of_tick(schedule: Schedule, tick: float, at: float, by: str = "", why: str = "") -> ScheduledRun:
    """Return the flow that the tick starts, or that somebody starts by hand."""
    key = key_of_tick(schedule.name, tick, bool(by))
    return ScheduledRun(flow_id_of_tick(schedule.spec.definition, key, tick), tick, at, by, why)


def with_runs(schedule: Schedule, new: list[ScheduledRun]) -> Schedule:
    """Return the schedule that has started these flows, in their order, too."""
    runs = (*reversed(new), *schedule.runs)[:MOST_KEPT]
    return replace(schedule, runs=runs, started=schedule.started + len(new))


class _Ticking:
    def __init__(self, schedule: Schedule, now: float, unfinished: Collection[str]) -> None:
        self._before = schedule
        self._now = now
        self._running = [run.flow_id for run in schedule.runs if run.flow_id in unfinished]
        self._pending = schedule.pending
        self._started: list[ScheduledRun] = []
        self._skipped: list[SkippedTick] = []
        self._cancelled: list[str] = []

    def run(self) -> Advance:
        before, now = self._before, self._now
        if before.pause is not None:
            return Advance(before, [], [])
        if self._pending is not None and not self._running:
            self._start(self._pending)
            self._pending = None
        settled, dealt = before.settled, 0
        too_late = now - max(before.spec.catch_up, ON_TIME)
        while dealt < MOST_TICKS_AT_ONCE:
            tick = tick_after(before.spec.timing, before.anchor, settled)
            if tick is None or (due := due_at(before.name, tick, before.spec.jitter)) > now:
                break
            if due < too_late:
                self._skipped.append(SkippedTick(tick, "missed"))
            else:
                self._fire(tick)
            settled, dealt = tick, dealt + 1
        if not dealt and self._pending == before.pending:
            return Advance(before, [], [])
        missed = sum(one.reason == "missed" for one in self._skipped)
        after = replace(
            with_runs(before, self._started),
            settled=settled,
            pending=self._pending,
            skips=(*reversed(self._skipped), *before.skips)[:MOST_KEPT],
            missed=before.missed + missed,
            overlapped=before.overlapped + len(self._skipped) - missed,
        )
        return Advance(after, self._started, self._cancelled)

    def _fire(self, tick: float) -> None:
        overlap = self._before.spec.overlap
        if overlap == "allow" or not self._running:
            self._start(tick)
        elif overlap == "queue" and self._pending is None:
            self._pending = tick
        elif overlap == "cancel":
            self._cancelled += [one for one in self._running if one not in {new.flow_id for new in self._started}]
            # What would be cancelled at once need not begin.
            self._skipped += [SkippedTick(run.tick, "overlap") for run in self._started]
            self._started, self._running = [], []
            self._start(tick)
        else:
            self._skipped.append(SkippedTick(tick, "overlap"))

    def _start(self, tick: float) -> None:
        run = run_of_tick(self._before, tick, self._now)
        self._started.append(run)
        self._running.append(run.flow_id)
