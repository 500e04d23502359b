"""Redrives and discards dead letters."""

from collections.abc import Sequence

from redrive.client.flow_access import FlowAccess, ids_of
from redrive.errors import InvalidStateError
from redrive.explain.compensation import describe_compensation, uncompensated_items, uncompensated_steps
from redrive.flows.messages import Redrive, check_by_and_why, write_message
from redrive.stores.records import DeadLetter, DeadQuery


class DeadLetters:
    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def found(self, query: DeadQuery) -> list[DeadLetter]:
        return await self._flows.store.list_dead_letters(query)

    async def redrive(self, flow_ids: str | Sequence[str], by: str, why: str) -> list[str]:
        """Put dead flows back to work; those that were compensated stay as they are. Return the ids of the others."""
        ids = ids_of(flow_ids)
        query = DeadQuery(flow_ids=tuple(ids), kind="compensated", limit=max(1, len(ids)))
        compensated = [
            one.flow_id
            for one in await self.found(query)
            if not uncompensated_items(await self._flows.log(one.flow_id))
        ]
        ids = [one for one in ids if one not in set(compensated)]
        if compensated and not ids:
            how = describe_compensation(uncompensated_steps(await self._flows.log(compensated[0])))
            raise InvalidStateError(f"flow {compensated[0]} was compensated: {how}. Start another flow")
        message = write_message(Redrive(by=by, why=why))
        return await self._flows.store.close_dead_letters(ids, "redriven", by, why, self._flows.wall(), message)

    async def discard(self, flow_ids: str | Sequence[str], by: str, why: str) -> list[str]:
        check_by_and_why(by, why)
        now = self._flows.wall()
        return await self._flows.store.close_dead_letters(ids_of(flow_ids), "discarded", by, why, now, None)
