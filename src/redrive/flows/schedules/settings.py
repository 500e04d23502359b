"""Checks the settings of a schedule, and makes its definition."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, get_args

from redrive.errors import DurationError, ScheduleError
from redrive.failures.duration import read_duration
from redrive.flows.retry_policy import Timeout
from redrive.flows.schedules.cron import check_cron, check_zone
from redrive.flows.schedules.schedule import Overlap, ScheduleSpec
from redrive.flows.schedules.ticks import Timing, shortest_interval
from redrive.flows.tags import write_tags
from redrive.flows.values.json_form import is_storable
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.near_names import did_you_mean, unknown_setting

SHORTEST_INTERVAL = 1.0
LONGEST_INTERVAL = 3660 * 86400.0
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}")


class ScheduleSettings(TypedDict, total=False):
    """When a schedule starts its flows, and how. One of cron, every and at is needed."""

    cron: str | None
    """A cron expression of five fields, such as "0 2 * * *"."""
    timezone: str
    """The zone that the cron expression is meant in, such as "Europe/Berlin"; UTC by default."""
    every: Timeout | None
    """From one tick to the next: seconds, a timedelta, or text such as "10m"."""
    at: datetime | None
    """The only time: a datetime with a time zone."""
    overlap: Overlap
    """What a tick does while an earlier flow still runs: skip, queue (one), cancel the earlier one, or allow both."""
    catch_up: Timeout
    """How late a tick may be that no worker was there for; later ones are skipped and counted. One hour by default."""
    jitter: Timeout
    """Each tick is delayed by up to this, the same in the whole fleet."""
    queue: str
    """Which workers take the flows."""
    priority: int
    """Flows with a higher priority go first."""
    tags: Mapping[str, str] | None
    """Names and texts that operators find the flows by."""


def check_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not is_storable(name) or name != name.strip():
        raise ScheduleError(
            f"{name!r:.60} is not allowed as the name of a schedule; use 1 to 200 characters without control "
            "characters, and without spaces at the ends"
        )
    return name


def schedule_spec(
    definition: str,
    text: str,
    *,
    cron: str | None = None,
    timezone: str = "UTC",
    every: Any = None,
    at: Any = None,
    overlap: Any = "skip",
    catch_up: Any = "1h",
    jitter: Any = 0,
    queue: str = "default",
    priority: int = 0,
    tags: Any = None,
    source: Any = "call",
    revision: int = 0,
    **unknown: Any,
) -> ScheduleSpec:
    """Return the checked definition of a schedule that starts flows of `definition` with this input."""
    if unknown:
        raise unknown_setting("a schedule", unknown, ScheduleSettings.__annotations__)
    timing = _timing(cron, timezone, every, at)
    if overlap not in get_args(Overlap):
        hint = did_you_mean(str(overlap), get_args(Overlap), f"use {', '.join(get_args(Overlap))}")
        raise ScheduleError(f"overlap: {overlap!r:.40} is not allowed; {hint}")
    delayed = _seconds("jitter", jitter)
    shortest = shortest_interval(timing, 0.0)
    if shortest is not None and delayed > shortest:
        raise ScheduleError(
            f"jitter: {jitter!r} is longer than the shortest time between two ticks, {shortest:g} s; use less"
        )
    if len(text) > LARGE_JSON:
        raise ScheduleError(
            f"the input of the schedule's flows has {len(text)} characters, and {LARGE_JSON} are allowed; "
            "store it elsewhere and pass its name"
        )
    return ScheduleSpec(
        definition=definition,
        input=text,
        timing=timing,
        overlap=overlap,
        catch_up=_seconds("catch_up", catch_up),
        jitter=delayed,
        queue=queue,
        priority=priority,
        tags=_tags(tags),
        source=source,
        revision=revision,
    )


def _timing(cron: Any, timezone: Any, every: Any, at: Any) -> Timing:
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        wrong = f"{' and '.join(given)} are given" if given else "nothing says when it is due"
        raise ScheduleError(f'{wrong}; use one of cron="0 2 * * *", every="10m" and at=datetime(...)')
    check_zone(timezone)
    if cron is not None:
        check_cron(cron, timezone)
        return Timing(cron=cron, timezone=timezone)
    if timezone != "UTC":
        raise ScheduleError(f"timezone: {timezone!r} is for cron; {given[0]} needs none")
    if every is not None:
        seconds = _seconds("every", every)
        if not SHORTEST_INTERVAL <= seconds <= LONGEST_INTERVAL:
            raise ScheduleError(f"every: {every!r} is not allowed; use one second to ten years")
        return Timing(every=round(seconds, 3))
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ScheduleError(f"at: {at!r:.80} is not allowed; use a datetime with a time zone, such as datetime.UTC")
    return Timing(at=at.timestamp())


def _seconds(setting: str, value: Any) -> float:
    try:
        return read_duration(value)
    except DurationError as error:
        raise ScheduleError(f"{setting}: {error}") from None


def _tags(tags: Any) -> str | None:
    try:
        return write_tags(tags)
    except ValueError as error:
        raise ScheduleError(str(error)) from None
