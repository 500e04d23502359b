"""Set a schedule from a request body: what to start, and when."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from msgspec import Meta

from redrive.errors import ScheduleError, StoreError
from redrive.flows.schedules.schedule import Overlap
from redrive.flows.schedules.settings import ScheduleSettings
from redrive.server.contract.models import RequestModel
from redrive.server.contract.problems import ProblemError, unprocessable
from redrive.server.requests.flow_selection import Moment
from redrive.server.requests.flow_start import StartRequest, call_of, settings_of

Duration = Annotated[float, Meta(ge=0, le=1e9)] | Annotated[str, Meta(max_length=50)]
_POINTERS = {
    "cron": "/timing/cron",
    "timezone": "/timing/timezone",
    "every": "/timing/every",
    "at": "/timing/at",
    "overlap": "/overlap",
    "catch_up": "/catch_up",
    "jitter": "/jitter",
}


class TimingRequest(RequestModel, frozen=True):
    """When it fires: one of cron, every and at."""

    cron: Annotated[str, Meta(max_length=200)] | None = None
    """Five fields, such as "0 2 * * *", or @daily and the like."""
    timezone: Annotated[str, Meta(max_length=100)] = "UTC"
    """The zone of the cron expression: Europe/Berlin."""
    every: Duration | None = None
    """An interval: seconds, or text such as "10m"."""
    at: Moment | None = None
    """One time."""


class ScheduleRequest(RequestModel, frozen=True):
    """What to start, and when. Putting the same again changes nothing."""

    flow: StartRequest
    """As it is started by hand, with a queue, a priority and tags, but without a key, and not by goals alone."""
    timing: TimingRequest
    overlap: Overlap = "skip"
    """What a tick does while an earlier flow still runs: skip, queue (one), cancel the earlier one, or allow both."""
    catch_up: Duration = "1h"
    """How late a tick may be that no worker was there for."""
    jitter: Duration = 0.0
    """Delays each tick by up to this."""


async def scheduled_call(wanted: ScheduleRequest) -> tuple[Any, dict[str, Any]]:
    """Return the call that the schedule makes, and the settings of `app.schedule`."""
    timing = wanted.timing
    try:
        settings = settings_of(wanted.flow)
        for name in settings.keys() - ScheduleSettings.__annotations__:
            if settings.pop(name) is not None:
                detail = f"`{name}` is not for the flows of a schedule; leave it out"
                raise ProblemError(422, detail, pointer=f"/{name}")
        call = await call_of(wanted.flow)
        if call is None:
            raise ProblemError(422, "a schedule does not start flows by goals alone; name a graph", pointer="/goals")
    except ProblemError as error:
        raise error.under("/flow") from None
    except (ValueError, TypeError) as error:
        raise unprocessable(error, "/flow") from None
    settings |= {"cron": timing.cron, "timezone": timing.timezone, "every": timing.every, "at": timing.at}
    return call, settings | {"overlap": wanted.overlap, "catch_up": wanted.catch_up, "jitter": wanted.jitter}


@contextmanager
def scheduling() -> Iterator[None]:
    """Name the field of the body that a schedule was refused for."""
    try:
        yield
    except StoreError:
        raise
    except ScheduleError as error:
        raise ProblemError(422, str(error), pointer=_POINTERS.get(str(error).partition(":")[0], "")) from None
    except (ValueError, TypeError) as error:
        raise unprocessable(error, "/flow") from None
