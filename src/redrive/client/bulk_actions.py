"""Cancel, pause, resume, retry or redrive many flows, selected by a query."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from redrive.client.dead_letters import DeadLetters
from redrive.client.flow_access import FlowAccess
from redrive.client.handle import Handle
from redrive.errors import FlowFinishedError, FlowNotFoundError, InvalidStateError
from redrive.flows.messages import check_by_and_why
from redrive.stores.records import FlowQuery, FlowStatus

Action = Literal["cancel", "pause", "resume", "retry", "redrive"]
PAGE = 1000
SENT_AT_ONCE = 10
MAY: dict[Action, tuple[FlowStatus, ...]] = {
    "cancel": ("ready", "waiting", "running", "paused", "parked"),
    "pause": ("ready", "waiting", "running"),
    "resume": ("paused", "parked"),
    "retry": ("ready", "waiting", "running"),
    "redrive": ("failed",),
}
"""Action -> the statuses of flows that it is for; others are passed over."""
_EVERYTHING = FlowQuery()


class BulkOutcome(msgspec.Struct, frozen=True):
    """What became of a bulk action so far."""

    count: int
    """How many flows match, and are in a state for the action."""
    done: int
    """How many of them were asked; the others had ended meanwhile, or had nothing to retry or redrive."""


class BulkActions:
    def __init__(self, flows: FlowAccess, dead_letters: DeadLetters, handle: Callable[[str], Handle[Any]]) -> None:
        self._flows = flows
        self._dead_letters = dead_letters
        self._handle = handle

    async def run(
        self,
        action: Action,
        query: FlowQuery,
        by: str,
        why: str,
        *,
        dry_run: bool = False,
        progress: Callable[[BulkOutcome], None] | None = None,
    ) -> BulkOutcome:
        """Act on all flows that match, newest first, but for those that are started meanwhile."""
        check_by_and_why(by, why)
        statuses = [one for one in MAY[action] if not query.status or one in query.status]
        if msgspec.structs.replace(query, limit=_EVERYTHING.limit) == _EVERYTHING:
            raise ValueError(
                "the query is empty; name at least one field, such as status, so that not all flows are meant"
            )
        outcome = BulkOutcome(0, 0)
        query = msgspec.structs.replace(query, status=tuple(statuses), limit=PAGE)
        # Without a status left, the query would select all of them.
        while statuses:
            page = [flow.id for flow in await self._flows.store.list_flows(query)]
            done = 0 if dry_run else await self.send(action, page, by, why)
            outcome = BulkOutcome(outcome.count + len(page), outcome.done + done)
            if progress is not None and page:
                progress(outcome)
            if len(page) < PAGE:
                break
            query = msgspec.structs.replace(query, before=page[-1])
        return outcome

    async def send(self, action: Action, flow_ids: Sequence[str], by: str, why: str) -> int:
        """Ask these flows, a few at a time; return how many accepted."""
        if action == "redrive":
            return await self._redrive(flow_ids, by, why)
        done = 0
        for first in range(0, len(flow_ids), SENT_AT_ONCE):
            part = flow_ids[first : first + SENT_AT_ONCE]
            done += sum(await asyncio.gather(*(_send(self._handle(one), action, by, why) for one in part)))
        return done

    async def _redrive(self, flow_ids: Sequence[str], by: str, why: str) -> int:
        if not flow_ids:
            return 0
        try:
            return len(await self._dead_letters.redrive(flow_ids, by, why))
        except InvalidStateError:
            # All were compensated.
            return 0


async def _send(handle: Handle[Any], action: Action, by: str, why: str) -> bool:
    verbs: dict[str, Callable[..., Awaitable[None]]] = {
        "cancel": handle.cancel,
        "pause": handle.pause,
        "resume": handle.resume,
        "retry": handle.retry_now,
    }
    try:
        await verbs[action](by=by, why=why)
    except (FlowFinishedError, FlowNotFoundError, InvalidStateError):
        # Since it was selected it has ended, or its attempt has begun.
        return False
    return True
