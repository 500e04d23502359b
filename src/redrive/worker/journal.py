"""The one writer of a worker: group commit.

Everything that becomes ready while a transaction is being written goes into the next one; except that large turns of
flows are committed one at a time, after what is small.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.errors import CommitUnknownError, LeaseLostError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.failures.traces import trace_of
from redrive.flows.events import write_turn
from redrive.stores.interface import Store
from redrive.stores.records import Batch, EventRow, HeartbeatRow, NewFlow, RetryRow
from redrive.stores.sent import Sent
from redrive.worker.activity import ActivityCounts
from redrive.worker.commit_parts import flows_in, parts_of
from redrive.worker.large_commits import LARGE_EVENTS, Callback, LargeCommits
from redrive.worker.large_pace import LargePace
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.store_outages import log_recovery
from redrive.worker.store_retries import retry_until_available

log = logging.getLogger("redrive")

CALLED_AT_ONCE = 50
LARGE = 2**20
"""Bytes of events after which a new row begins: stores have limits, and actions may have large arguments."""
LARGEST_COMMIT = 16 * 2**20
"""Bytes of events after which each flow gets a transaction of its own, so that the lease is renewed in between."""
_NOT_ABOUT_ROWS = (StoreUnavailableError, StoreUnusableError, LeaseLostError)
"""Errors about the store itself, not about the rows that it was given."""
# Creates the named tuple in one step: there is one for each turn of every flow.
_row = functools.partial(tuple.__new__, EventRow)


class _Yield:
    """When awaited, gives the loop one turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_YIELD = _Yield()


class _Turn:
    """The events that one flow logs at one time; they become one row."""

    __slots__ = ("at", "events", "flow_id", "seq", "size")

    def __init__(self, flow_id: str, seq: int, at: float, event: bytes) -> None:
        self.flow_id = flow_id
        self.seq = seq
        """The number of the last event."""
        self.at = at
        self.events = [event]
        self.size = len(event)


class Journal:
    """Writes batches in order, one at a time, and calls back what must wait until its events are durable."""

    def __init__(
        self,
        store: Store,
        held: HeldLease,
        on_start_refused: Callable[[Sequence[NewFlow]], None],
        on_refused: Callable[[str, StoreError], None],
    ) -> None:
        """on_start_refused: called with new flows that the store does not accept with their first events.

        on_refused: called with the id of a flow whose rows the store refuses, and why.
        """
        self.activity = ActivityCounts()
        """What the flows' work came to, until it is reported. It is not part of any transaction."""
        self.batch = Batch(number=1)
        """The next transaction."""
        self._turns: list[_Turn] = []
        self._size = 0
        """Bytes of their events."""
        self._callbacks: list[Callback] = []
        """Called once the next transaction is durable."""
        self._due: deque[Callback] = deque()
        """Callbacks whose transaction is durable."""
        self._has_due = asyncio.Event()
        self._large, self._pace = LargeCommits(), LargePace()
        self._retries: dict[tuple[str, int], RetryRow] = {}
        self._heartbeats: dict[tuple[str, int], HeartbeatRow] = {}
        self._store = store
        self._on_start_refused = on_start_refused
        self._on_refused = on_refused
        self._held = held
        self._lease = held.lease
        self._outcome_unknown = False
        self._has_work = False
        self._is_writing = False
        # A bare future: an asyncio.Event would cost twice as much at each commit.
        self._asleep: asyncio.Future[None] | None = None
        self._idle = asyncio.Event()
        self._is_awaited = False
        self._clock = current_clock()

    def append(self, flow_id: str, seq: int, at: float, event: bytes) -> None:
        """Append an event to a flow's log."""
        turns = self._turns
        self._size += len(event)
        if turns and (last := turns[-1]).flow_id == flow_id and last.at == at and last.size < LARGE:
            last.seq = seq
            last.events.append(event)
            last.size += len(event)
        else:
            turns.append(_Turn(flow_id, seq, at, event))
        if not self._has_work:
            self.wake()

    def withdraw(self, flow_id: str) -> tuple[int, list[int]]:
        """Drop what the flow has logged, started and sent since the last transaction began, and the messages it read.

        Returns how many events and which messages.
        """
        mine = [turn for turn in self._turns if turn.flow_id == flow_id]
        self._turns = [turn for turn in self._turns if turn.flow_id != flow_id]
        self._size -= sum(turn.size for turn in mine)
        batch = self.batch
        messages = [message for message, of in batch.messages_read.items() if of == flow_id]
        for message in messages:
            del batch.messages_read[message]
        batch.children = [child for child in batch.children if child[0].parent != flow_id]
        batch.sends = [sent for sent in batch.sends if sent.by != flow_id]
        return sum(len(turn.events) for turn in mine), messages

    def when_durable(self, flow_id: str | None, callback: Callable[..., None], *args: Any) -> None:
        """Call back once everything that the flow has written so far is durable; None: what all flows have."""
        # A tuple, not a closure: a closure is several objects, and the collector visits all that wait here.
        self._callbacks.append((flow_id, callback, args))
        if not self._has_work:
            self.wake()

    def put_retry(self, row: RetryRow) -> None:
        """Write a row of the retry queue; the last one per item and transaction counts."""
        self._retries[row.flow_id, row.item] = row
        self.wake()

    def drop_retry(self, flow_id: str, item: int) -> None:
        self._retries.pop((flow_id, item), None)
        self._heartbeats.pop((flow_id, item), None)
        self.batch.retries_done.append((flow_id, item))
        self.wake()

    def message_read(self, flow_id: str, message: int) -> None:
        self.batch.messages_read[message] = flow_id
        self.wake()

    def add_child(self, child: NewFlow, refusal: str) -> None:
        self.batch.children.append((child, refusal))
        self._size += len(child.input)
        self.wake()

    def send(self, message: Sent) -> None:
        self.batch.sends.append(message)
        self.wake()

    def put_heartbeat(self, row: HeartbeatRow) -> None:
        self._heartbeats[row.flow_id, row.item] = row
        self.wake()

    def wake(self) -> None:
        """There is something to write."""
        if not self._has_work:
            self._has_work = True
            if self._asleep is not None and not self._asleep.done():
                self._asleep.set_result(None)

    async def run(self) -> None:
        """Write until cancelled. LeaseLostError ends it: this worker may not write any more."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._has_work:
                # The next event is often ready within one turn of the loop; yielding is cheaper than sleeping.
                await _YIELD
            if not self._has_work:
                self._asleep = loop.create_future()
                await self._asleep
                self._asleep = None
            self._has_work, self._is_writing = False, True
            batch, callbacks = self.batch, self._callbacks
            self.batch, self._callbacks = Batch(number=batch.number + 1), []
            size, self._size = self._size, 0
            large = {turn.flow_id for turn in self._turns if turn.size > LARGE_EVENTS} if size > LARGE_EVENTS else ()
            if self._turns:
                batch.events = [
                    _row((turn.flow_id, turn.seq, turn.at, write_turn(turn.events))) for turn in self._turns
                ]
                self._turns = []
            if self._retries:
                batch.retries = list(self._retries.values())
                self._retries.clear()
            if self._heartbeats:
                batch.heartbeats = list(self._heartbeats.values())
                self._heartbeats.clear()
            if large or self._large:
                await self._write_apart(batch, callbacks, large)
            else:
                await self._write(batch, size)
                self._written(callbacks)

    async def _write_apart(self, batch: Batch, callbacks: Sequence[Callback], large: Collection[str]) -> None:
        """Write the batch without what is large or waits behind that, and then one large commit of one flow."""
        small, pace = self._large.set_aside(batch, callbacks, large), self._pace
        if flows_in(batch):
            pace.met_small()
            await self._write(batch, sum(len(row.body) for row in batch.events))
        self._written(small)
        if pace.rests(self.wake):
            return
        self._is_writing = True
        _, batch, then = self._large.next()
        # Numbers are in the order of the commits.
        batch.number = self.batch.number
        self.batch.number += 1
        if flows_in(batch):
            with pace.measured():
                await self._write(batch, 0)
        if self._large:
            self.wake()
        self._written(then)

    def _written(self, callbacks: Sequence[Callback]) -> None:
        self._due.extend(callbacks)
        self._is_writing = False
        self._call_due(CALLED_AT_ONCE)
        if self._due:
            self._has_due.set()
        elif self._is_awaited and self.is_drained:
            self._is_awaited = False
            self._idle.set()

    async def run_callbacks(self) -> None:
        """Run due callbacks until cancelled, a few at a time, while the next transaction is being written."""
        while True:
            await self._has_due.wait()
            self._has_due.clear()
            while self._due:
                self._call_due(CALLED_AT_ONCE)
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
            if self.is_drained:
                self._idle.set()

    def _call_due(self, most: int) -> None:
        due = self._due
        if due and not self._held.may_call():
            # The process was frozen since the commit: another worker goes on from there by now.
            raise self._held.lost()
        for _ in range(min(most, len(due))):
            _, callback, args = due.popleft()
            try:
                callback(*args)
            except Exception as error:  # noqa: BLE001 - the other callbacks must run, and nothing is lost
                log.error("a callback after a commit failed; the journal goes on\n%s", trace_of(error))

    @property
    def is_drained(self) -> bool:
        """Whether everything is durable and called back."""
        return not (self._has_work or self._is_writing or self._due or self._large)

    async def written(self, flow_id: str | None = None) -> None:
        """Wait until what the flow has written so far is durable and called back; None: what all flows have."""
        done = asyncio.Event()
        self.when_durable(flow_id, done.set)
        await done.wait()

    async def drained(self) -> None:
        """Wait until there is nothing left to write."""
        if not self.is_drained:
            self._idle.clear()
            self._is_awaited = True
            await self._idle.wait()

    async def _write(self, batch: Batch, size: int) -> None:
        if self._clock is SYSTEM_CLOCK:
            await self._commit_all(batch, size)
        else:
            with self._clock.busy():
                await self._commit_all(batch, size)

    async def _commit_all(self, batch: Batch, size: int) -> None:
        try:
            if size > LARGEST_COMMIT:
                await self._commit_per_flow(batch)
            else:
                await self._commit_until_known(batch)
        except _NOT_ABOUT_ROWS:
            raise
        except StoreError as error:
            await self._commit_per_flow(batch, error)

    async def _commit_until_known(self, batch: Batch) -> None:
        """Commit, and retry while the store is unavailable or the outcome of the commit is unknown."""
        try:
            await self._commit(batch)
        except StoreUnavailableError as error:
            self._outcome_unknown = isinstance(error, CommitUnknownError)
            await retry_until_available(self._store, self._commit_again, batch)
            log_recovery(self._store.address)

    async def _commit_per_flow(self, batch: Batch, error: StoreError | None = None) -> None:
        """Commit each flow's part by itself, so that a refused part does not affect the others.

        error: why the store refused the whole batch; None when the batch is too large.
        """
        parts = list(parts_of(batch))
        if not parts and error is not None:
            raise error
        for flow_id, part in parts:
            # Numbers are never reused, so that it is known which part was committed last.
            self.batch.number = part.number + 1
            try:
                await self._commit_until_known(part)
            except _NOT_ABOUT_ROWS:
                raise
            except StoreError as refused:
                self._on_refused(flow_id, refused)
                self._forget(flow_id)

    def _forget(self, flow_id: str) -> None:
        """Drop what the flow has written since, too: a log has no gaps."""
        self.batch.drop_flows((flow_id,))
        self._large.forget(flow_id)
        self._size -= sum(turn.size for turn in self._turns if turn.flow_id == flow_id)
        self._turns = [turn for turn in self._turns if turn.flow_id != flow_id]
        for rows in (self._retries, self._heartbeats):
            for item in [item for item in rows if item[0] == flow_id]:
                del rows[item]

    def _commit(self, batch: Batch) -> Awaitable[None]:
        return self._commit_with_new_flows(batch) if batch.new_flows else self._store.commit(self._lease, batch)

    async def _commit_with_new_flows(self, batch: Batch) -> None:
        try:
            await self._store.commit(self._lease, batch)
        except _NOT_ABOUT_ROWS:
            raise
        except StoreError:
            born = batch.drop_new_flows()
            for flow in born:
                # They are added in another way, and their logs begin again.
                self._forget(flow.id)
            self._on_start_refused(born)
            await self._store.commit(self._lease, batch)

    async def _commit_again(self, batch: Batch) -> None:
        if self._outcome_unknown:
            if await self._store.committed(self._lease, batch):
                return
            self._outcome_unknown = False
        try:
            await self._commit(batch)
        except CommitUnknownError:
            self._outcome_unknown = True
            raise
