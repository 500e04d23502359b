"""Which names, keys and limits a queue may have."""

from redrive.flows.start_settings import CONTROL_CHARACTERS, QUEUE_NAME, check_queue, is_queue

__all__ = ["CONTROL_CHARACTERS", "LARGEST_LIMIT", "QUEUE_NAME", "check_limit", "check_queue", "is_queue"]

LARGEST_LIMIT = 2**31 - 1


def check_limit(limit: object, name: str = "limit") -> None:
    """Raise ValueError unless this is how many flows of a queue may run at once; None: any number."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_LIMIT):
        allowed = f"use a whole number from 1 to {LARGEST_LIMIT}, or None for no limit"
        raise ValueError(f"{name}: {limit!r:.40} is not allowed; {allowed}")
