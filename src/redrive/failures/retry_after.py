"""Parse Retry-After: seconds, or one of the three date formats HTTP allows. Pure; it never raises."""

import re
from datetime import UTC, datetime

import msgspec

from redrive.failures.redaction import redact

_LONGEST_VALUE = 100
_LONGEST_SHOWN = 40

# Some servers send decimals, although only whole seconds are allowed.
_SECONDS = r"[0-9]+(?:\.[0-9]+)?"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_DAY = r"(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)"
_WEEKDAY_IN_FULL = r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_ZONE = r"(?:gmt|utc)"
# Kept as text: `re` compiles and caches them on first use, so that the import stays cheap.
_DATES = (
    # IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
    rf"{_WEEKDAY}\s*,\s*{_DAY}\s+{_MONTH}\s+(?P<year>[0-9]{{4}})\s+{_TIME}\s+{_ZONE}",
    # RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
    rf"{_WEEKDAY_IN_FULL}\s*,\s*{_DAY}-{_MONTH}-(?P<short_year>[0-9]{{2}})\s+{_TIME}\s+{_ZONE}",
    # asctime: Sun Nov  6 08:49:37 1994
    rf"{_WEEKDAY}\s+{_MONTH}\s+{_DAY}\s+{_TIME}\s+(?P<year>[0-9]{{4}})",
)


class RetryAfterReading(msgspec.Struct, frozen=True):
    """A parsed Retry-After value."""

    seconds: float | None
    """Seconds to wait, counted from now; None when the value was ignored."""
    note: str = ""
    """What was unusual about it; empty when nothing was."""


def parse_retry_after(value: str, wall_now: float) -> RetryAfterReading:
    """Parse the header's value, relative to `wall_now` (seconds since 1970, UTC)."""
    trimmed = value.strip()
    if not trimmed:
        return RetryAfterReading(None, "Retry-After was empty and is ignored")
    if len(trimmed) > _LONGEST_VALUE:
        return RetryAfterReading(None, f"Retry-After is ignored, it has {len(trimmed)} characters")
    if re.fullmatch(_SECONDS, trimmed):
        return RetryAfterReading(float(trimmed))
    when = _read_date(trimmed, wall_now)
    if when is None:
        return RetryAfterReading(
            None, f"Retry-After is ignored, it is neither seconds nor an HTTP date: {_shown(trimmed)}"
        )
    if when < wall_now:
        return RetryAfterReading(0.0, f"Retry-After names a time in the past, read as now: {_shown(trimmed)}")
    return RetryAfterReading(when - wall_now)


def _read_date(text: str, wall_now: float) -> float | None:
    for form in _DATES:
        if (found := re.fullmatch(form, text, re.IGNORECASE | re.ASCII)) is not None:
            break
    else:
        return None
    part = found.groupdict()
    month = _MONTHS.index(part["month"].lower()) + 1
    day, hour, minute, second = (int(part[name]) for name in ("day", "hour", "minute", "second"))
    # 60 is a leap second; a clock without leap seconds reads it as the start of the next minute.
    if second > 60:
        return None
    if "short_year" in part:
        year = _full_year(int(part["short_year"]), (month, day, hour, minute, second), wall_now)
    else:
        year = int(part["year"])
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() + second
    except ValueError:
        return None


def _full_year(short_year: int, rest: tuple[int, ...], wall_now: float) -> int:
    """Return the latest year with these two digits that is at most 50 years ahead."""
    now = datetime.fromtimestamp(wall_now, UTC)
    latest = (now.year + 50, now.month, now.day, now.hour, now.minute, now.second)
    year = latest[0] - latest[0] % 100 + short_year
    return year if (year, *rest) <= latest else year - 100


def _shown(value: str) -> str:
    # A broken proxy may put anything there, even a credential.
    return repr(redact(value, _LONGEST_SHOWN))
