"""Which keys, queues and priorities a flow may be started with."""

import functools
import re

from redrive.flows.values.json_form import is_storable

LARGEST_PRIORITY = 2**31 - 1
QUEUE_NAME = "use a name of 1 to 200 characters, without control characters and unpaired surrogates"

# Names are printed as they are: a line break would forge a line, an escape sequence would reach the terminal.
CONTROL_CHARACTERS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")


@functools.lru_cache(maxsize=1000)
def _is_name(queue: str) -> bool:
    return 0 < len(queue) <= 200 and is_storable(queue) and _CONTROL.search(queue) is None


def is_queue(queue: object) -> bool:
    """Whether `queue` is a valid name of a queue."""
    return isinstance(queue, str) and _is_name(queue)


def check_queue(queue: str) -> None:
    """ValueError when `queue` is not a valid name of a queue."""
    if not is_queue(queue):
        raise ValueError(f"queue: {QUEUE_NAME}")


def check_concurrency_key(key: object) -> None:
    """ValueError when flows cannot have this concurrency key; None is none."""
    if key is not None and not is_queue(key):
        raise ValueError(
            "concurrency_key: use a text of 1 to 200 characters, without control characters and unpaired surrogates"
        )


def check_key(key: object) -> None:
    """ValueError when `key` is not a valid key of a flow; None is no key."""
    if key is not None and (not isinstance(key, str) or not key or len(key) > 500 or not is_storable(key)):
        raise ValueError("key: use a text of 1 to 500 characters, without NUL and unpaired surrogates")


def check_priority(priority: object) -> None:
    """ValueError when `priority` is not a valid priority of a flow."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > LARGEST_PRIORITY:
        raise ValueError(
            f"priority: {priority!r} is not allowed; use a whole number up to {LARGEST_PRIORITY}, higher goes first"
        )
