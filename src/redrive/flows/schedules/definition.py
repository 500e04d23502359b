"""Create a schedule, or change the definition of one that exists."""

import math

from msgspec.structs import replace

from redrive.errors import ScheduleError
from redrive.flows.schedules.schedule import Schedule, ScheduleSpec


def define(name: str, spec: ScheduleSpec, now: float, known: Schedule | None) -> Schedule:
    """Return the schedule with this definition; `known` itself where it has that already.

    Its ticks count from now on, unless only something else than their times is changed.
    """
    if known is not None and known.spec == spec:
        return known
    if known is not None and known.spec.timing == spec.timing:
        return replace(known, spec=spec, updated_at=now)
    if spec.timing.at is not None and spec.timing.at <= now:
        raise ScheduleError("at: that time has passed; use a later one")
    anchor = float(math.floor(now))
    if known is not None:
        return replace(known, spec=spec, updated_at=now, anchor=anchor, settled=now)
    return Schedule(name=name, spec=spec, created_at=now, updated_at=now, anchor=anchor, settled=now)


def is_replaced_by(known: ScheduleSpec, declared: ScheduleSpec) -> bool:
    """Whether the stored definition gives way to the one in the code of a worker that starts.

    The higher revision wins; of the same one, the worker that started last.
    """
    return known != declared and known.revision <= declared.revision
