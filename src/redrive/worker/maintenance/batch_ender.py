"""Start what follows a batch once all its flows have ended."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK, whole_microseconds
from redrive.errors import StoreUnavailableError
from redrive.flows.registry import ACTION
from redrive.stores.batches import BatchCounts, BatchRow, OnDone, batch_status, read_on_done
from redrive.stores.interface import Store
from redrive.stores.records import NewFlow
from redrive.worker.store_outages import log_outage

LOOK_EVERY = 0.5
ENDED_AT_ONCE = 20
_READ = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def end_batches(store: Store, wall: Callable[[], float]) -> None:
    """Look for batches whose flows have all ended, until cancelled."""
    while True:
        try:
            for row in await store.list_ended_batches(ENDED_AT_ONCE):
                await end_batch(store, row, whole_microseconds(wall()))
        except StoreUnavailableError as error:
            log_outage(store.address, error)
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + LOOK_EVERY)


async def end_batch(store: Store, row: BatchRow, now: float) -> None:
    """Start the `on_done` of a complete batch whose flows have ended, and mark the batch as done.

    Several workers may do so at once: the key of the flow makes it one.
    """
    if (on_done := read_on_done(row)) is not None:
        counts = batch_status(row, (await store.count_batches([row.name])).get(row.name)).counts
        await store.add_flows([_flow(row.name, on_done, counts, now)])
    await store.end_batch(row.name, now)


def _flow(batch: str, on_done: OnDone, counts: BatchCounts, now: float) -> NewFlow:
    return NewFlow(
        id=on_done.id,
        definition=on_done.definition,
        input=_with_counts(on_done, counts) if on_done.takes_counts else on_done.input,
        created_at=now,
        start_at=now,
        queue=on_done.queue,
        priority=on_done.priority,
        key=f"batch:{batch}:done",
        tags=on_done.tags,
        traceparent=on_done.traceparent,
    )


def _with_counts(on_done: OnDone, counts: BatchCounts) -> str:
    """Return the input with the argument `counts`."""
    whole = _READ.decode(on_done.input)
    if on_done.definition.startswith(ACTION):
        # The input of a job is its arguments and its policy.
        return _text({**whole, "args": msgspec.Raw(_text(_filled(_READ.decode(whole["args"]), counts)).encode())})
    return _text(_filled(whole, counts))


def _filled(arguments: Mapping[str, msgspec.Raw], counts: BatchCounts) -> Mapping[str, Any]:
    return {**arguments, "counts": counts}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
