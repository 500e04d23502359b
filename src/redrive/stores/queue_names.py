"""Which names, keys and limits a queue may have."""

import functools
import re

from redrive.flows.values.json_form import is_storable

LARGEST_LIMIT = 2**31 - 1
QUEUE_NAME = "use a name of 1 to 200 characters, without control characters and unpaired surrogates"
CONCURRENCY_KEY = "use a text of 1 to 200 characters, without control characters and unpaired surrogates"

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


def is_concurrency_key(key: object) -> bool:
    """Whether flows may have this concurrency key; None is none."""
    return key is None or is_queue(key)


def check_limit(limit: object, name: str = "limit") -> None:
    """Raise ValueError unless this is how many flows of a queue may run at once; None: any number."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_LIMIT):
        allowed = f"use a whole number from 1 to {LARGEST_LIMIT}, or None for no limit"
        raise ValueError(f"{name}: {limit!r:.40} is not allowed; {allowed}")
