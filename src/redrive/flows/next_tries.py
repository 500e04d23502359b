"""When the waiting work items of a flow are tried next."""

from collections.abc import Iterable

from redrive.flows.item import Item

# Stored times are rounded to microseconds.
_ROUNDING = 0.001


def next_tries(items: Iterable[Item], wake_at: float | None, now: float) -> dict[int, float | None]:
    """Return the time of each waiting item, by number; None for one that is held back until nobody knows when.

    An item that its dependency holds back again and again has only the first time in the log, so that the log need not
    grow. Its time is then that of the flow's wake-up, unless the flow wakes up for another item.
    """
    waiting = [item for item in items if item.state == "waiting"]
    held = {item.number for item in waiting if item.deferred and item.retry_at is not None and item.retry_at < now}
    others = [item.retry_at for item in waiting if item.number not in held and item.retry_at is not None]
    known = wake_at is not None and wake_at > now and all(abs(wake_at - other) > _ROUNDING for other in others)
    return {item.number: (wake_at if known else None) if item.number in held else item.retry_at for item in waiting}
