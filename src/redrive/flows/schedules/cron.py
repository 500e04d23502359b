"""Cron expressions in a time zone: the instants at which they fire, also when the clocks there are changed.

A time of day that the clocks skip fires at the next one that exists; a time of day that they repeat fires once. Where
the minute or the hour begins with `*`, the expression means every matching minute: those that are skipped do not fire,
and those that are repeated fire twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from redrive.errors import ScheduleError
from redrive.near_names import did_you_mean

LONGEST_CRON = 200
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_ALLOWED = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7, or SUN to SAT",
}
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of local times, which have no zone
_SECOND, _MINUTE, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
# What cronsim raises for an expression that it cannot read.
_UNREADABLE = (CronSimError, AssertionError, TypeError, ValueError, IndexError)


def check_cron(expression: object, zone: str) -> None:
    """Raise ScheduleError unless it is a cron expression that fires at some time in the zone."""
    if not isinstance(expression, str) or not expression.strip() or len(expression) > LONGEST_CRON:
        raise ScheduleError(f'cron: {expression!r:.60} is not allowed; use an expression such as "0 2 * * *"')
    parts = _plain(expression).split()
    if len(parts) != len(_FIELDS):
        known = "" if not expression.startswith("@") else f", or one of {', '.join(_NAMED)}"
        raise ScheduleError(
            f"cron: {expression!r} has {len(parts)} field{'s'[: len(parts) != 1]}; write five, {' '.join(_FIELDS)}, "
            f'such as "0 2 * * *"{known}'
        )
    for place, (field, part) in enumerate(zip(_FIELDS, parts, strict=True)):
        alone = ["*"] * len(_FIELDS)
        alone[place] = part
        try:
            CronSim(" ".join(alone), _EPOCH)
        except _UNREADABLE:
            allowed = f"use {_ALLOWED[field]}, with lists (1,2), ranges (1-5) and steps (*/2)"
            raise ScheduleError(f"cron: {expression!r}: {part!r} is not a valid {field}; {allowed}") from None
    try:
        fires = cron_after(expression, zone, 0.0) is not None
    except _UNREADABLE:
        fires = False
    if not fires:
        raise ScheduleError(f"cron: {expression!r} never fires: no month has such a day")


def check_zone(name: object) -> None:
    """Raise ScheduleError unless it is the name of a time zone."""
    try:
        if isinstance(name, str) and name and len(name) <= LONGEST_CRON:
            ZoneInfo(name)
            return
    except (ValueError, OSError, LookupError):
        # ZoneInfoNotFoundError is a LookupError; a folder of the zones is an OSError.
        pass
    known = sorted(available_timezones())
    cities = {zone.rpartition("/")[2]: zone for zone in known}
    text = name if isinstance(name, str) else ""
    hint = cities.get(text.replace(" ", "_").title(), "")
    meant = f"did you mean {hint!r}?" if hint else did_you_mean(text, known, 'use a name such as "Europe/Berlin"')
    raise ScheduleError(f"timezone: {name!r:.60} is not a time zone; {meant}")


def cron_after(expression: str, zone: str, after: float) -> float | None:
    """Return the first instant after that one (epoch seconds) at which the expression fires; None when never."""
    plain, tz = _plain(expression), ZoneInfo(zone)
    start = datetime.fromtimestamp(after // 1, UTC)
    minute, hour = plain.split()[:2]
    every_minute = minute.startswith("*") or hour.startswith("*")
    try:
        found = _matching_instant(plain, tz, start) if every_minute else _time_of_day(plain, tz, start)
    except OverflowError:
        return None  # after the year 9999
    return None if found is None else found.timestamp()


def _plain(expression: str) -> str:
    return _NAMED.get(expression.strip().lower(), expression)


def _local_times(expression: str, local: datetime) -> Iterator[datetime]:
    """The local times after that one which match, whether or not the clocks show them."""
    return iter(CronSim(expression, local))


def _time_of_day(expression: str, tz: ZoneInfo, start: datetime) -> datetime | None:
    for local in _local_times(expression, start.astimezone(tz).replace(tzinfo=None)):
        shown = local
        while (instant := shown.replace(tzinfo=tz).astimezone(UTC)).astimezone(tz).replace(tzinfo=None) != shown:
            shown += _MINUTE
        # The second time that the clocks show it, `start` is after the instant of the first.
        if instant > start:
            return instant
    return None


def _matching_instant(expression: str, tz: ZoneInfo, start: datetime) -> datetime | None:
    """Go from one change of the clocks to the next: in between, local time passes as time does."""
    offset = _offset(tz, start)
    before = start.replace(tzinfo=None) + offset
    while (local := next(_local_times(expression, before), None)) is not None:
        instant = (local - offset).replace(tzinfo=UTC)
        change = _next_change(tz, start, instant)
        if change is None:
            return instant
        start, offset = change, _offset(tz, change)
        before = start.replace(tzinfo=None) + offset - _SECOND
    return None


def _next_change(tz: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The first instant in (after, until] at which the offset changes."""
    offset, low = _offset(tz, after), after
    while low < until:
        high = min(low + _DAY, until)
        if _offset(tz, high) != offset:
            while high - low > _SECOND:
                middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
                low, high = (low, middle) if _offset(tz, middle) != offset else (middle, high)
            return high
        low = high
    return None


def _offset(tz: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(tz).utcoffset() or timedelta()
