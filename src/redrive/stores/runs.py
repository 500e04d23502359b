"""The runs of a flow that continued as new: those that have ended, and logs that have grown long."""

from typing import NamedTuple, Protocol

import msgspec

LONG_RUN = 10_000
"""Events of one run, from which its replay is no longer quick. The stores' migrations repeat it: `events_long`."""

MOST_ROWS_PRUNED = 5_000
"""Rows of events that one transaction removes at most."""


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended because its flow continued as new. Its log may be pruned, all of it or its beginning."""

    run_from: int
    """The number of the event before its log."""
    run_to: int
    """The number of the last event of its log."""
    ended_at: float
    input: str


class LongRun(NamedTuple):
    flow_id: str
    definition: str
    events: int
    """How many events the log of its current run has."""


class Runs(Protocol):
    async def find_run(self, flow_id: str, back: int) -> EndedRun | None:
        """Return the run that many before the flow's current one: 1 for the last that ended; None when it is gone."""
        ...

    async def prune_runs(self, ended_before: float, limit: int) -> int:
        """Remove runs that ended before then with their events, a piece at a time; return 0 when none are left.

        One call works on up to `limit` runs, and removes fewer rows where that would hold up other writers. The
        current run of a flow stays.
        """
        ...

    async def list_long_runs(self, limit: int) -> list[LongRun]:
        """Return up to `limit` flows that have not finished and whose current run has more than LONG_RUN events."""
        ...
