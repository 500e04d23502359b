"""The rows of schedules, and the verbs that keep them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from redrive.stores.records import FlowRecord, NewFlow

MOST_DUE = 100
"""How many due schedules a store returns at once."""
MOST_WAITING = 1000
"""How many flows that schedules wait for a store tells at most."""


class ScheduleRow(msgspec.Struct, frozen=True):
    """A schedule as it is stored."""

    name: str
    body: str
    """Its definition and state, as JSON that a store does not read."""
    next_at: float | None
    """When it is due; None: never by time."""
    waits_for: str | None
    """It is due as well once this flow has ended."""
    version: int
    """How often it was written. Who writes it says which version they have read."""


class DueSchedules(NamedTuple):
    rows: list[ScheduleRow]
    """Those that are due."""
    next_at: float | None
    """When the next one is due by time."""
    waits_for: frozenset[str]
    """The flows that others wait for, or some of them."""


class Schedules(Protocol):
    """Schedules: written by whoever has seen their latest version, together with the flows that begin."""

    async def due_schedules(self, now: float, limit: int = MOST_DUE) -> DueSchedules:
        """Return up to `limit` schedules whose time has come, and those whose flow has ended."""
        ...

    async def find_schedule(self, name: str) -> ScheduleRow | None: ...

    async def list_schedules(self, after: str, limit: int) -> list[ScheduleRow]:
        """Return up to `limit` schedules by name, those after that name."""
        ...

    async def write_schedule(
        self,
        row: ScheduleRow,
        flows: Sequence[NewFlow] = (),
        messages: Sequence[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> list[FlowRecord | None] | None:
        """Write the schedule, add the flows and send the messages (flow id, body): all of it or nothing.

        `row.version` is the version that was read, and grows by one; 0 adds the schedule. Return None, and write
        nothing, when it has another version by now; else what `add_flows` returns.
        """
        ...

    async def drop_schedule(self, name: str) -> bool:
        """Remove the schedule; return False when there is none."""
        ...
