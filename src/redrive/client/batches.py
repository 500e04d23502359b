"""Starts batches, and reads how far they are."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.client.flow_inputs import input_of
from redrive.client.flow_settings import new_flow
from redrive.client.many_starts import CallToStart, ManyStarts, Prepared, Progress, check_shared
from redrive.client.readable_payloads import refuse_unreadable
from redrive.errors import BatchNotFoundError, BatchTakenError
from redrive.flows.action import ActionCall
from redrive.flows.flow_call import FlowCall
from redrive.flows.tags import write_tags
from redrive.flows.values.json_form import is_storable
from redrive.stores.batches import BatchCounts, BatchQuery, BatchRow, BatchStatus, OnDone, batch_status
from redrive.worker.maintenance.batch_ender import end_batch
from redrive.worker.store_retries import retry_until_available

LONGEST_NAME = 200
BATCH_NAME = r"[^\x00-\x1f\x7f/]+"
_NAME = re.compile(BATCH_NAME)
_COUNTS = "counts"


def check_batch_name(name: str) -> None:
    """ValueError when this cannot be the name of a batch."""
    if (
        not isinstance(name, str)
        or _NAME.fullmatch(name) is None
        or len(name) > LONGEST_NAME
        or name in (".", "..")
        or not is_storable(name)
    ):
        raise ValueError(
            f"batch: {name!r:.80} is not a valid name; use 1 to {LONGEST_NAME} characters without control characters "
            "and slashes, such as 'night 2026-11-19'"
        )


class Batches:
    def __init__(self, flows: FlowAccess, starts: ManyStarts, new_id: Callable[[float], str]) -> None:
        self._flows = flows
        self._starts = starts
        self._new_id = new_id

    async def start(
        self,
        name: str,
        calls: Iterable[CallToStart],
        keys: Iterable[str] | None,
        on_done: CallToStart | None,
        progress: Progress | None,
        settings: Mapping[str, Any],
    ) -> bool:
        """Add the batch and its flows; return whether there was none of its name.

        A batch that was added in part is completed. One that is complete is left as it is: its calls are compared.
        """
        check_batch_name(name)
        check_shared("app.batch", settings)
        store, now = self._flows.store, self._flows.now()
        following = None if on_done is None else self._on_done(on_done, settings, now)
        row = BatchRow(
            name=name,
            created_at=now,
            tags=write_tags(settings.get("tags")),
            on_done=None if following is None else msgspec.json.encode(following).decode(),
        )
        await refuse_unreadable(store)
        existing = await retry_until_available(store, store.add_batch, row)
        known = existing or row
        digest, added = hashlib.sha256(), 0
        async for piece in self._starts.pieces(calls, keys, settings, name):
            _add_to(digest, piece)
            if known.total is None:
                await self._starts.add(piece)
            added += len(piece)
            if known.total is None and progress is not None:
                progress(added)
        if known.total is None:
            # Counted, since calls with the same key are one flow.
            counts = (await store.count_batches([name])).get(name, BatchCounts())
            total = counts.unfinished + counts.ended
            await retry_until_available(store, store.complete_batch, name, total, digest.hexdigest())
            # There may have been no calls, or all flows may have ended meanwhile.
            await self.end(name)
        elif known.digest != digest.hexdigest():
            raise BatchTakenError(name, known.total)
        return existing is None

    def _on_done(self, on_done: CallToStart, settings: Mapping[str, Any], now: float) -> OnDone:
        call, own = on_done if isinstance(on_done, tuple) else (on_done, {})
        check_shared("on_done", own)
        if "delay" in own:
            raise TypeError("on_done: it begins when all flows have ended; leave out delay")
        given = input_of(call)
        chosen: dict[str, Any] = {"tags": settings.get("tags"), **own}
        flow = new_flow(self._new_id(now), now, given.definition, given.text, **chosen)
        return OnDone(
            id=flow.id,
            definition=flow.definition,
            input=flow.input,
            queue=flow.queue,
            priority=flow.priority,
            tags=flow.tags,
            traceparent=flow.traceparent,
            takes_counts=_takes_counts(call),
        )

    async def row(self, name: str) -> BatchRow:
        row = await self._flows.store.find_batch(name) if is_storable(name) else None
        if row is None:
            raise BatchNotFoundError(name, self._flows.store.address)
        return row

    async def status(self, name: str) -> BatchStatus:
        row = await self.row(name)
        return batch_status(row, (await self._flows.store.count_batches([name])).get(name))

    async def list(self, query: BatchQuery) -> list[BatchStatus]:
        rows = await self._flows.store.list_batches(query)
        counts = await self._flows.store.count_batches([row.name for row in rows])
        return [batch_status(row, counts.get(row.name)) for row in rows]

    async def end(self, name: str) -> BatchStatus:
        """Start what follows the batch if all its flows have ended, as a worker would soon; return its status."""
        status = await self.status(name)
        if status.is_done and status.done_at is None:
            await end_batch(self._flows.store, await self.row(name), self._flows.now())
            status = await self.status(name)
        return status


def _takes_counts(call: ActionCall[Any] | FlowCall[Any]) -> bool:
    """Whether the function has a parameter `counts` that the call does not give."""
    if isinstance(call, ActionCall):
        signature, given = call.action.signature, call.arguments
    elif call.kind == "workflow":
        signature, given = call.definition.signature, call.given
    else:
        return False
    return any(one.name == _COUNTS for one in signature.parameters) and _COUNTS not in msgspec.json.decode(
        given.encoded
    )


def _add_to(digest: Any, piece: list[Prepared]) -> None:
    for flow, _ in piece:
        digest.update(msgspec.json.encode((flow.definition, flow.key, flow.input)))
