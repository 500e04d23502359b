"""Activity as series for charts: one number a minute, zero where nothing happened."""

from collections.abc import Sequence

from redrive.server.contract.models import ResponseModel
from redrive.stores.activity import MINUTE, ActivityName, ActivityRow


class Sparkline(ResponseModel, frozen=True):
    """Attempts, minute by minute."""

    minutes: list[int]
    """When each minute began, in epoch seconds; the last one is not over."""
    succeeded: list[int]
    retried: list[int]
    gave_up: list[int]


class Series(ResponseModel, frozen=True):
    """Attempts of one name, minute by minute."""

    name: str
    """Empty for attempts of steps that talk to nothing with a name; "(other)" where there are too many names."""
    succeeded: list[int]
    retried: list[int]
    gave_up: list[int]
    deferred: list[int]
    """Attempts that were not begun: their dependency was held back."""
    seconds: list[float]
    """How long the attempts that ended in a minute took together."""


def minutes_until(now: float, count: int) -> list[int]:
    """Return when each of the last minutes began, the present one included."""
    last = int(now // MINUTE) * int(MINUTE)
    return list(range(last - (count - 1) * int(MINUTE), last + 1, int(MINUTE)))


def sparkline(rows: Sequence[ActivityRow], minutes: list[int]) -> Sparkline:
    of_outcome = {one: [0] * len(minutes) for one in ("succeeded", "retried", "gave_up")}
    places = {minute: place for place, minute in enumerate(minutes)}
    for row in rows:
        place = places.get(round(row.at))
        if place is not None and (counts := of_outcome.get(row.outcome)) is not None:
            counts[place] += row.count
    return Sparkline(minutes=minutes, **of_outcome)


def series_by(name: ActivityName | None, rows: Sequence[ActivityRow], minutes: list[int], most: int) -> list[Series]:
    """Return a series for each value of the name, those with the most attempts first; None: one for all."""
    places = {minute: place for place, minute in enumerate(minutes)}
    found: dict[str, Series] = {}
    totals: dict[str, int] = {}
    for row in rows:
        place = places.get(round(row.at))
        if place is None or row.outcome.startswith("flow_"):
            continue
        value = "" if name is None else getattr(row, name)
        one = found.get(value)
        if one is None:
            one = found[value] = _empty(value, len(minutes))
            totals[value] = 0
        getattr(one, row.outcome)[place] += row.count
        one.seconds[place] += row.seconds
        totals[value] += row.count
    largest = sorted(found, key=lambda value: (-totals[value], value))[:most]
    return [found[value] for value in largest]


def _empty(name: str, length: int) -> Series:
    return Series(
        name=name,
        succeeded=[0] * length,
        retried=[0] * length,
        gave_up=[0] * length,
        deferred=[0] * length,
        seconds=[0.0] * length,
    )
