"""Which names a queue may have."""

import functools
import re

from redrive.flows.values.json_form import is_storable

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
