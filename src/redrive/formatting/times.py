"""Format times and durations."""

from datetime import UTC, datetime

from redrive.notation.durations import write_duration

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_LATEST = datetime.max.replace(tzinfo=UTC).timestamp() - 1.0


def utc_datetime(epoch_seconds: float) -> datetime:
    """Convert epoch seconds to a UTC datetime; times past the year 9999 become the last second of it."""
    return datetime.fromtimestamp(min(epoch_seconds, _LATEST), UTC)


def format_duration(seconds: float) -> str:
    """Format a duration with at most two units, rounded to what a reader needs: 4ms, 1.25s, 2m5s, 3h20m, 2d4h."""
    if abs(seconds) < _MINUTE:
        precision = 0.001
    elif abs(seconds) < _HOUR:
        precision = 1.0
    else:
        precision = _MINUTE if abs(seconds) < _DAY else _HOUR
    rounded = round(round(abs(seconds) / precision) * precision, 3)
    return ("-" if seconds < 0 and rounded else "") + write_duration(rounded)
