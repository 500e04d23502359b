"""The journal: one writer, and everything that became ready while it was writing goes into the next transaction."""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar

from redrive.calls.retrier import Retrier
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock, use_clock
from redrive.errors import CommitUnknownError, LeaseLostError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.failures.matching import Match
from redrive.failures.traces import trace_of
from redrive.flows.events import write_turn
from redrive.policies.backoff import Backoff
from redrive.policies.policy import Policy
from redrive.stores.interface import Store
from redrive.stores.records import Batch, EventRow, HeartbeatRow, NewFlow, RetryRow
from redrive.telemetry.stream import hooks_only
from redrive.worker.batch_parts import parts_of
from redrive.worker.held_lease import HeldLease
from redrive.worker.store_outages import hear_of_outage, store_is_away, store_is_back

T = TypeVar("T")
_Call = tuple[Callable[..., None], tuple[Any, ...]]
log = logging.getLogger("redrive")

FOLLOWED_AT_ONCE = 50
LARGE = 2**20
"""Bytes of events with which a row has enough: stores have limits, and actions large arguments."""
LARGEST_COMMIT = 16 * 2**20
"""Bytes of events that several flows may share a transaction with: the lease is renewed between two of them."""
_FOR_ALL = (StoreUnavailableError, StoreUnusableError, LeaseLostError)
"""What a store says of itself, and not of what it was to write."""
# A named tuple made in one step: there is one for each turn of every flow.
_row = functools.partial(tuple.__new__, EventRow)

# A store that is away comes back; meanwhile nothing is lost, and the lease says when to stop.
PATIENCE = Policy(
    attempts=None,
    backoff=Backoff("exponential", 0.05),
    max_wait=1.0,
    deadline=None,
    retry_on=Match(types=(StoreUnavailableError,)),
)


async def patiently(store: Store, verb: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Ask a store for something; while it is away, ask again."""
    try:
        return await verb(*args)
    except StoreUnavailableError as error:
        store_is_away(store.address, error)
    retrier = Retrier(PATIENCE, independent=True, on_event=functools.partial(hear_of_outage, store.address))
    # It comes back in real time, whatever the clock of the flows says.
    with use_clock(SYSTEM_CLOCK), hooks_only():
        return await retrier.acall(verb, *args)


class _Yield:
    """Awaited, it gives the loop one turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_YIELD = _Yield()


class _Turn:
    """What one flow logs at one time: it becomes one row."""

    __slots__ = ("at", "events", "flow_id", "seq", "size")

    def __init__(self, flow_id: str, seq: int, at: float, event: bytes) -> None:
        self.flow_id = flow_id
        self.seq = seq
        """Of the last line."""
        self.at = at
        self.events = [event]
        self.size = len(event)


class Journal:
    """Writes batches, one at a time, in order. What must not happen before its event is durable is called back."""

    def __init__(
        self,
        store: Store,
        held: HeldLease,
        refuse: Callable[[Sequence[NewFlow]], None],
        set_aside: Callable[[str, StoreError], None],
    ) -> None:
        """`refuse` is told of flows that the store does not take as born: they are not added.

        `set_aside` is told of flows of which it takes nothing at all, and why.
        """
        self.batch = Batch(number=1)
        """What goes into the next transaction."""
        self._turns: list[_Turn] = []
        self._size = 0
        """Of all their events, in bytes."""
        self._then: list[_Call] = []
        self._following: deque[_Call] = deque()
        """What is durable and has not been called back yet."""
        self._more_to_follow = asyncio.Event()
        self._retries: dict[tuple[str, int], RetryRow] = {}
        self._heartbeats: dict[tuple[str, int], HeartbeatRow] = {}
        self._store = store
        self._refuse = refuse
        self._set_aside = set_aside
        self._held = held
        self._lease = held.lease
        self._unknown = False
        self._is_kicked = False
        self._is_writing = False
        # A bare future: an event would cost twice as much at each commit.
        self._asleep: asyncio.Future[None] | None = None
        self._idle = asyncio.Event()
        self._is_awaited = False
        self._clock = current_clock()

    def log(self, flow_id: str, seq: int, at: float, event: bytes) -> None:
        """Append a line to a flow's log."""
        turns = self._turns
        self._size += len(event)
        if turns and (last := turns[-1]).flow_id == flow_id and last.at == at and last.size < LARGE:
            last.seq = seq
            last.events.append(event)
            last.size += len(event)
        else:
            turns.append(_Turn(flow_id, seq, at, event))
        if not self._is_kicked:
            self.kick()

    def take_back(self, flow_id: str) -> tuple[int, list[int]]:
        """Do not write what the flow has logged since the last transaction began, nor that it has read its mail.

        Answers how many lines that was, and which messages.
        """
        mine = [turn for turn in self._turns if turn.flow_id == flow_id]
        self._turns = [turn for turn in self._turns if turn.flow_id != flow_id]
        self._size -= sum(turn.size for turn in mine)
        mail, batch = [message for message, of in self.batch.mail.items() if of == flow_id], self.batch
        for message in mail:
            del batch.mail[message]
            batch.messages_read.remove(message)
        return sum(len(turn.events) for turn in mine), mail

    def then(self, callback: Callable[..., None], *args: Any) -> None:
        """Call back once what is in the batch now is durable."""
        # A tuple, not a closure: closures are several objects each, and the collector goes through all that wait here.
        self._then.append((callback, args))
        if not self._is_kicked:
            self.kick()

    def put_retry(self, row: RetryRow) -> None:
        """What waits, and until when; the last word of a transaction counts."""
        self._retries[row.flow_id, row.item] = row
        self.kick()

    def drop_retry(self, flow_id: str, item: int) -> None:
        self._retries.pop((flow_id, item), None)
        self._heartbeats.pop((flow_id, item), None)
        self.batch.retries_done.append((flow_id, item))
        self.kick()

    def mail_read(self, flow_id: str, message: int) -> None:
        self.batch.messages_read.append(message)
        self.batch.mail[message] = flow_id
        self.kick()

    def put_heartbeat(self, row: HeartbeatRow) -> None:
        self._heartbeats[row.flow_id, row.item] = row
        self.kick()

    def kick(self) -> None:
        """There is something to write."""
        if not self._is_kicked:
            self._is_kicked = True
            if self._asleep is not None and not self._asleep.done():
                self._asleep.set_result(None)

    async def run(self) -> None:
        """Write until cancelled. LeaseLostError ends it: nothing of this worker may be written any more."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._is_kicked:
                # What follows a commit often has its next line ready within a turn of the loop: nobody is to be woken.
                await _YIELD
            if not self._is_kicked:
                self._asleep = loop.create_future()
                await self._asleep
                self._asleep = None
            self._is_kicked, self._is_writing = False, True
            batch, then = self.batch, self._then
            self.batch, self._then = Batch(number=batch.number + 1), []
            size, self._size = self._size, 0
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
            if self._clock is SYSTEM_CLOCK:
                await self._write_whole(batch, size)
            else:
                with self._clock.busy():
                    await self._write_whole(batch, size)
            self._following.extend(then)
            self._is_writing = False
            self._follow(FOLLOWED_AT_ONCE)
            if self._following:
                self._more_to_follow.set()
            elif self._is_awaited and not self._is_kicked:
                self._is_awaited = False
                self._idle.set()

    async def follow(self) -> None:
        """Call back what is durable, a few at a time: while the rest is called, the next transaction is under way."""
        while True:
            await self._more_to_follow.wait()
            self._more_to_follow.clear()
            while self._following:
                self._follow(FOLLOWED_AT_ONCE)
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
            if self.is_drained:
                self._idle.set()

    def _follow(self, most: int) -> None:
        following = self._following
        if following:
            # Frozen while it was written, it is durable, and others go on from there by now.
            self._held.check()
        for _ in range(min(most, len(following))):
            callback, args = following.popleft()
            try:
                callback(*args)
            except Exception as error:  # noqa: BLE001 - the others are told, and nothing is lost
                log.error("what was to follow a commit failed; the journal goes on\n%s", trace_of(error))

    @property
    def is_drained(self) -> bool:
        """Whether all that is known is written, and acted on."""
        return not (self._is_kicked or self._is_writing or self._following)

    async def written(self) -> None:
        """Wait until what is in the batch now is durable, and acted on: also where there is always more to write."""
        done = asyncio.Event()
        self.then(done.set)
        await done.wait()

    async def drained(self) -> None:
        """Wait until all that is known now is written."""
        if not self.is_drained:
            self._idle.clear()
            self._is_awaited = True
            await self._idle.wait()

    async def _write_whole(self, batch: Batch, size: int) -> None:
        try:
            if size > LARGEST_COMMIT:
                await self._write_apart(batch)
            else:
                await self._write(batch)
        except _FOR_ALL:
            raise
        except StoreError as error:
            await self._write_apart(batch, error)

    async def _write(self, batch: Batch) -> None:
        try:
            await self._commit(batch)
        except StoreUnavailableError as error:
            self._unknown = isinstance(error, CommitUnknownError)
            await patiently(self._store, self._commit_again, batch)
            store_is_back(self._store.address)

    async def _write_apart(self, batch: Batch, error: StoreError | None = None) -> None:
        """What each flow wrote is a transaction of its own, and some may be refused: the store refused the whole, with
        this error, or it is too large.
        """
        parts = list(parts_of(batch))
        if not parts and error is not None:
            raise error
        for flow_id, part in parts:
            # Numbers never come twice, so that it is known which of the parts was the last.
            self.batch.number = part.number + 1
            try:
                await self._write(part)
            except _FOR_ALL:
                raise
            except StoreError as refused:
                self._set_aside(flow_id, refused)
                self._forget(flow_id)

    def _forget(self, flow_id: str) -> None:
        """Of what is to be written next, too: a log has no gaps."""
        self.batch.leave_out((flow_id,))
        self._turns = [turn for turn in self._turns if turn.flow_id != flow_id]
        for rows in (self._retries, self._heartbeats):
            for item in [item for item in rows if item[0] == flow_id]:
                del rows[item]

    def _commit(self, batch: Batch) -> Awaitable[None]:
        return self._commit_born(batch) if batch.born else self._store.commit(self._lease, batch)

    async def _commit_born(self, batch: Batch) -> None:
        try:
            await self._store.commit(self._lease, batch)
        except _FOR_ALL:
            raise
        except StoreError:
            born = batch.leave_out_born()
            for flow in born:
                # They are added in another way, and their logs begin anew.
                self._forget(flow.id)
            self._refuse(born)
            await self._store.commit(self._lease, batch)

    async def _commit_again(self, batch: Batch) -> None:
        if self._unknown:
            if await self._store.committed(self._lease, batch):
                return
            self._unknown = False
        try:
            await self._commit(batch)
        except CommitUnknownError:
            self._unknown = True
            raise
