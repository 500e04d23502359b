"""Checks durations in settings."""

SHORTEST, LONGEST = 0.001, 10 * 365 * 86_400.0


def check_seconds(name: str, value: object) -> None:
    """Raise a ValueError that names the setting unless `value` is a usable number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not SHORTEST <= value <= LONGEST:
        shown = value if isinstance(value, float) else f"{value!r:.40}"
        raise ValueError(f"{name}: {shown} is not allowed; use seconds from 0.001 to ten years, as a number")
