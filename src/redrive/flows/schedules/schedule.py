"""A schedule: what it starts and when, and what became of its ticks so far."""

import re
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Literal

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.schedules.ticks import Timing, due_at, tick_after

Overlap = Literal["skip", "queue", "cancel", "allow"]
SkipReason = Literal["overlap", "missed"]

MOST_KEPT = 10
"""How many of its last flows, and of its last skipped ticks, a schedule keeps."""


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What someone asked for. Two that are equal are the same definition."""

    definition: str
    """What its flows run, such as "workflow:Report"."""
    input: str
    """Their input, as JSON."""
    timing: Timing
    overlap: Overlap = "skip"
    """What happens to a tick while the flow of an earlier one still runs."""
    catch_up: float = 3600.0
    """How late, in seconds, a tick may be that nobody was there for."""
    jitter: float = 0.0
    """Each tick is delayed by up to so many seconds."""
    queue: str = "default"
    priority: int = 0
    tags: str | None = None
    """A JSON object of texts."""
    revision: int = 0
    """Of a declared schedule: one in the code with a lower revision does not replace it."""
    source: Literal["call", "code"] = "call"
    """Whether a call made it, or a decorator in the code of a worker."""


class ScheduleOrder(msgspec.Struct, frozen=True):
    """Who paused or resumed it last, and why."""

    at: float
    by: str
    why: str


class ScheduledRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A flow that the schedule started."""

    flow_id: str
    tick: float
    at: float
    """When it was started."""
    by: str = ""
    """Who started it by hand; empty for a tick."""
    why: str = ""

    @property
    def by_hand(self) -> bool:
        return bool(self.by)


class SkippedTick(msgspec.Struct, frozen=True):
    tick: float
    reason: SkipReason


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored state of a schedule. Times are epoch seconds."""

    name: str
    spec: ScheduleSpec
    created_at: float
    updated_at: float
    """When its definition was last changed."""
    anchor: float
    """What the ticks of an interval are counted from."""
    settled: float
    """Every tick up to this time was dealt with."""
    pause: ScheduleOrder | None = None
    """None while it is not paused."""
    resumed: ScheduleOrder | None = None
    """How its last pause ended."""
    pending: float | None = None
    """The tick whose flow begins once the running one has ended."""
    runs: tuple[ScheduledRun, ...] = ()
    """The last flows, newest first."""
    skips: tuple[SkippedTick, ...] = ()
    """The last ticks that started nothing, newest first."""
    started: int = 0
    """How many flows it has started, by ticks and by hand."""
    overlapped: int = 0
    """How many ticks were skipped because an earlier flow still ran."""
    missed: int = 0
    """How many ticks were too late: nobody was there, for longer than the catch-up window."""

    @property
    def next_tick(self) -> float | None:
        """The next tick; None when there is none, or while it is paused."""
        return None if self.pause is not None else tick_after(self.spec.timing, self.anchor, self.settled)

    @property
    def next_at(self) -> float | None:
        """When the next tick is due, with its delay."""
        tick = self.next_tick
        return None if tick is None else due_at(self.name, tick, self.spec.jitter)

    @property
    def state(self) -> Literal["active", "paused", "ended"]:
        if self.pause is not None:
            return "paused"
        return "ended" if self.next_tick is None and self.pending is None else "active"


_DECODER = msgspec.json.Decoder(Schedule)


def write_schedule_body(schedule: Schedule) -> str:
    return msgspec.json.encode(schedule).decode()


def read_schedule_body(name: str, body: str) -> Schedule:
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise DeserializationError(f"schedule {name!r}: its stored state cannot be read: {error}") from None


# What a flow says of the tick that began it is its key: there is one flow for each key.

_KEY = re.compile(r"schedule:(?P<name>.+):(?P<tick>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z)(?P<by_hand>:by-hand)?")


class TickOfFlow(msgspec.Struct, frozen=True):
    """Which tick of which schedule began a flow."""

    schedule: str
    tick: str
    """In ISO 8601, UTC."""
    by_hand: bool
    """Whether somebody triggered it then."""


def tick_text(tick: float) -> str:
    return datetime.fromtimestamp(tick, UTC).isoformat().removesuffix("+00:00") + "Z"


def key_of_tick(name: str, tick: float, by_hand: bool = False) -> str:
    """Return the key of the flow that this tick starts."""
    return f"schedule:{name}:{tick_text(tick)}{':by-hand' * by_hand}"


def tick_of_key(key: str | None) -> TickOfFlow | None:
    """Return the tick that began the flow with this key; None when it was started in another way."""
    found = _KEY.fullmatch(key or "")
    return None if found is None else TickOfFlow(found["name"], found["tick"], found["by_hand"] is not None)


def flow_id_of_tick(definition: str, key: str, tick: float) -> str:
    """Return the id of the flow that a tick starts: the same for everyone, so that starting it twice is harmless.

    As other ids of flows it begins with a time, here the tick's.
    """
    chance = blake2b(f"{definition}\0{key}".encode(), digest_size=10).hexdigest()
    when = f"{max(0, int(tick * 1000)):012x}"
    return f"{when[:8]}-{when[8:12]}-7{chance[:3]}-{'89ab'[int(chance[3], 16) % 4]}{chance[4:7]}-{chance[7:19]}"
