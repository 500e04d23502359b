"""What a key means to later starts: for how long it names the same flow, or whether a start replaces its input."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.failures.duration import read_duration
from redrive.flows.retry_policy import Timeout
from redrive.policies.backoff import LONGEST_WAIT

MOST_DEBOUNCES = 10
"""How many times the debounce a flow begins after its first start, however often it is started again."""


class RepeatedStarts(NamedTuple):
    unique_for: float | None = None
    debounce: float | None = None


NEVER_AGAIN = RepeatedStarts()
"""The key names the same flow until that is pruned."""


def repeated_starts(
    unique_for: Timeout | None, debounce: Timeout | None, connection: Any, settings: Mapping[str, Any]
) -> RepeatedStarts:
    """Read the settings of a start; ValueError when they do not fit each other."""
    given = {"unique_for": unique_for, "debounce": debounce}
    named = [name for name, value in given.items() if value is not None]
    if not named:
        return NEVER_AGAIN
    name = named[0]
    if len(named) > 1:
        raise ValueError("unique_for and debounce exclude each other; use one of them")
    if settings.get("key") is None:
        raise ValueError(f'{name}: it needs a key; use key="..."')
    if connection is not None:
        raise ValueError(f"{name}: it cannot be part of your own transaction; start the flow without connection=")
    if debounce is not None and settings.get("delay") is not None:
        raise ValueError("debounce: it decides when the flow begins; start it without delay=")
    seconds = read_duration(given[name])
    if not 0 < seconds * MOST_DEBOUNCES <= LONGEST_WAIT:
        raise ValueError(f"{name}: use a time of more than 0 seconds and at most a year")
    return NEVER_AGAIN._replace(**{name: seconds})
