"""The end of a worker that was told to stop: what it has goes to others, and nothing is lost or counted twice."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.flows.history import Item
from redrive.runners.attempt import Attempt
from redrive.stores.interface import Store
from redrive.worker.flow_run import FlowRun
from redrive.worker.held_lease import HeldLease
from redrive.worker.store_outages import is_away

if TYPE_CHECKING:
    from redrive.worker.worker import Worker


# For what is given back to put away what it holds: whoever comes next begins it anew.
CLEAN_UP = 2.0
# To say goodbye under a lease that has run out: where nobody has taken over yet, its flows do not count as lost.
LAST_WORD = 0.5


async def hand_over(worker: "Worker", journal: "asyncio.Task[Any]", keeper: "asyncio.Task[Any]") -> None:
    """No new attempts; those that run get the grace period, and those that still do are given back uncounted."""
    worker.places.closed = True
    await worker.rebuilding.close()
    loop = asyncio.get_running_loop()
    attempts_end = loop.create_task(_end_attempts(worker))
    # Where this is cancelled, attempts are too, and with them what waits for their end.
    await asyncio.wait([attempts_end, journal, keeper], return_when=asyncio.FIRST_COMPLETED)
    if attempts_end.cancel() or journal.done() or keeper.done():
        return
    attempts_end.result()
    for run in list(worker.runs.values()):
        if not run.released:
            _take_back_starts(worker, run)
            run.release("ready", worker.now())
    ends = [loop.create_task(worker.journal.drained()), journal, keeper]
    try:
        while not (await asyncio.wait(ends, timeout=worker.settings.lease, return_when=asyncio.FIRST_COMPLETED))[0]:
            if is_away(worker.store.address):
                # For as long as a lease lasts: nothing can be written under this one any more.
                return
    finally:
        ends[0].cancel()


async def leave(store: Store, held: HeldLease) -> None:
    """End the lease. Not for longer than it lasts: then others take over by themselves."""
    with contextlib.suppress(StoreError, TimeoutError):
        async with asyncio.timeout(max(LAST_WORD, held.ends - SYSTEM_CLOCK.monotonic())):
            await store.leave(held.lease)


async def _end_attempts(worker: "Worker") -> None:
    running = await worker.runner.drain(worker.settings.grace)
    given_back = [attempt for attempt in running if _can_be_given_back(worker, attempt)]
    for attempt in given_back:
        worker.runner.cancel(attempt)
    await worker.runner.wait_for(given_back, CLEAN_UP)
    for attempt in given_back:
        # It may have ended well all the same.
        if (under_way := _under_way(worker, attempt)) is not None:
            _return(*under_way)


def _can_be_given_back(worker: "Worker", attempt: Attempt) -> bool:
    """Else it may go on, or have taken effect: whoever comes next must treat it as lost."""
    under_way = _under_way(worker, attempt)
    return under_way is not None and attempt.place != "thread" and under_way[1].policy.idempotent is not False


def _under_way(worker: "Worker", attempt: Attempt) -> tuple[FlowRun, Item] | None:
    run = worker.runs.get(attempt.flow_id)
    item = run.history.items.get(attempt.item) if run else None
    if run is None or item is None or item.delivery != attempt.delivery_token or run.released:
        return None
    return run, item


def _take_back_starts(worker: "Worker", run: FlowRun) -> None:
    """Attempts that are logged, and were to begin once that is durable: they do not begin any more."""
    for number in run.running_items() - worker.under_way.items_of(run.id):
        _return(run, run.history.items[number])


def _return(run: FlowRun, item: Item) -> None:
    at = run.time()
    run.active -= 1
    run.returned(item, at, at, "its worker was told to stop")
