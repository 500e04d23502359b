"""One flow in a worker's memory: its history, its code, and what each outcome leads to.

Everything here happens between two awaits: an outcome comes in, events go into the journal's batch, and what must wait
until they are durable is left with the journal.
"""

import math

import msgspec

from redrive.determinism.ids import random_token
from redrive.engine.desk import Desk
from redrive.engine.outcomes import gave_up_at_deadline
from redrive.engine.owned_flow import OwnedFlow
from redrive.engine.retry_rows import retry_row
from redrive.engine.waits import Waits
from redrive.failures.failure import Failure
from redrive.failures.signals import Snooze
from redrive.flows.asks import Ask, CancelAsk, EndAsk, ItemAsk, PatchAsk, TimerAsk
from redrive.flows.driver import Driver
from redrive.flows.endings import ending_of
from redrive.flows.events import (
    AttemptFailed,
    AttemptReturned,
    AttemptStarted,
    FlowBegan,
    ItemCancelled,
    ItemCompleted,
    ItemQueued,
    ItemStarted,
    PatchMarked,
    TimerFired,
    TimerSet,
)
from redrive.flows.failed_item import error_of
from redrive.flows.history import Item
from redrive.flows.portable_errors import store_error
from redrive.flows.stored_policy import write_stored_policy
from redrive.flows.values import NotReadable
from redrive.retry.decide import decide
from redrive.retry.decision import RetryAt
from redrive.retry.history import cut_at
from redrive.stores.records import FlowRecord

# A flow that waits longer than this leaves memory at once.
SHORT_WAIT = 5.0
SHORTEST_SNOOZE = 0.1
# What is due sooner is not shown in the retry queue: it would be gone before anyone looked.
WORTH_SHOWING = 0.05
NOTHING_COMES = (
    "run waits for what nothing will bring: no action runs, no retry waits and no timer is set. Mend the code, then "
    "resume the flow"
)


class FlowRun(OwnedFlow):
    """What its code asked for, what runs and what waits."""

    __slots__ = ("_alarm_at", "active", "has_begun", "heartbeats", "in_line", "shown", "waits")

    def __init__(self, desk: Desk, record: FlowRecord, driver: Driver) -> None:
        super().__init__(desk, record, driver)
        self.active = 0
        """Items that run or wait in line."""
        self.in_line: set[int] = set()
        """Items that wait for a free place to run."""
        self.has_begun = False
        self.waits = Waits(self.history, driver)
        self._alarm_at = math.inf
        self.heartbeats: dict[int, str] = {}
        self.shown: set[int] = set()
        """Items with a row in the retry queue."""

    # What comes in

    def begin(self) -> None:
        """Run the flow's code for the first time."""
        at = self.time()
        if at >= self.record.start_at and not self.history.paused:
            self.has_begun = True
            asks: list[Ask]
            try:
                asks = self.driver.start(at)
            except NotReadable as error:
                asks = [EndAsk("failed", error=error)]
            if not asks:
                self.log(at, FlowBegan())
            self.take(asks, at)
        self.settle(at)

    def succeeded(self, number: int, delivery: str, result: str) -> None:
        item = self._under_way(number, delivery)
        if item is None:
            return
        at = self.time()
        self.active -= 1
        self.log(at, ItemCompleted(item=number, attempt=item.attempt, result=msgspec.Raw(result.encode())))
        self._item_done(item)
        self.take(self.driver.completed(number, result, at), at)
        self.settle(at)

    def failed(self, number: int, delivery: str, error: BaseException, failure: Failure) -> None:
        item = self._under_way(number, delivery)
        if item is None:
            return
        at = self.time()
        self.active -= 1
        if isinstance(error, Snooze):
            self.returned(item, at, at + max(error.seconds, SHORTEST_SNOOZE), str(error))
        else:
            self.decide(item, error, failure, at)
        self.settle(at)

    def decide(self, item: Item, error: BaseException, failure: Failure, at: float) -> None:
        """Ask what to do about a failed attempt, log the answer, and act on it."""
        so_far = item.so_far
        assert so_far is not None  # noqa: S101 - an attempt was made
        decision = decide(item.policy, so_far, failure, at, self.desk.dice)
        event = AttemptFailed(
            item=item.number,
            attempt=item.attempt,
            failure=msgspec.structs.replace(failure, error=None, lineage=()),
            error=store_error(error),
            decision=decision,
            details=self._details(item),
        )
        self.log(at, event)
        self.desk.attempt_failed(self, item, event)
        if isinstance(decision, RetryAt):
            if decision.when <= at and not self.history.paused:
                self.start_attempt(item, at)
            else:
                self._wait_for_retry(item, decision.when, at)
        else:
            self._item_done(item)
            self.take(self.driver.failed(item.number, error_of(item, event), at), at)

    def returned(self, item: Item, at: float, until: float, reason: str) -> None:
        """The attempt does not count; another one is made later."""
        event = AttemptReturned(
            item=item.number, attempt=item.attempt, until=until, reason=reason, details=self._details(item)
        )
        self.log(at, event)
        self._wait_for_retry(item, until, at)

    def ring(self) -> None:
        """Do what is due by now: retries and timers, in the order of their times."""
        self._alarm_at = math.inf
        if self.released:
            return
        at = self.time()
        if not self.history.paused:
            for _, what, number in self.waits.due(at):
                if not self.released:
                    self._retry(number, at) if what == "retry" else self._fire(number, at)
        self.settle(at)

    def _retry(self, number: int, at: float) -> None:
        item = self.history.items.get(number)
        self.waits.retries.pop(number, None)
        if item is None or item.state != "waiting":
            return
        deadline = item.policy.deadline
        too_late = deadline is not None and item.started_at is not None and at >= item.started_at + deadline
        if too_late:
            self._too_late(item, at)
        else:
            self.start_attempt(item, at)

    def _fire(self, timer: int, at: float) -> None:
        if self.driver.awaits_timer(timer):
            self.log(at, TimerFired(timer=timer))
            self.take(self.driver.fired(timer, at), at)
        else:
            self.history.timers.pop(timer, None)

    def go_on(self) -> None:
        """Take up all that waits, and give the flow back if there is nothing to do."""
        if self.has_begun:
            self.take_up()
            self.ring()
        else:
            self.begin()

    def take_up(self) -> None:
        """Take up all that waits: after recovery, and after a pause."""
        if self.history.paused or self.released or self.history.ending is not None:
            return
        at = self.time()
        for item in list(self.history.items.values()):
            if item.state == "waiting" and item.retry_at is not None:
                self.waits.retries[item.number] = item.retry_at
            elif item.state == "queued":
                self.start_attempt(item, at)

    # What goes out

    def take(self, asks: list[Ask], at: float) -> None:
        """Log what the flow's code asks for, and have it carried out."""
        for ask in asks:
            if isinstance(ask, ItemAsk):
                self._add_item(ask, at)
            elif isinstance(ask, TimerAsk):
                timer = self.history.last_timer + 1
                self.driver.bind_timer(ask, timer)
                self.log(at, TimerSet(timer=timer, until=ask.time))
            elif isinstance(ask, CancelAsk):
                self._cancel_item(ask.ask.item, at)
            elif isinstance(ask, PatchAsk):
                self.log(at, PatchMarked(patch=ask.name))
            else:
                self._end(ask, at)
                return

    def start_attempt(self, item: Item, at: float) -> None:
        """Begin the next attempt, or wait for a free place."""
        if item.number in self.in_line:
            return
        self.active += 1
        if self.desk.take_place(item.step):
            self._begin_attempt(item, at)
        else:
            self._line_up(item.number)

    def place_found(self, number: int) -> bool:
        """A place was taken for an item that waited in line; False when it no longer needs one."""
        if self.released or number not in self.in_line:
            return False
        self.in_line.remove(number)
        self._begin_attempt(self.history.items[number], self.time())
        return True

    def leave_line(self) -> None:
        """Begin nothing more: who waits in line goes back to waiting."""
        self.active -= len(self.in_line)
        self.in_line.clear()

    def _line_up(self, number: int) -> None:
        self.in_line.add(number)
        self.desk.queue_for_place(self, number)

    def _begin_attempt(self, item: Item, at: float) -> None:
        event = AttemptStarted(
            item=item.number,
            attempt=item.attempt + 1,
            delivery=random_token(),
            timeout_at=cut_at(item.policy, item.so_far, at),
        )
        self.log(at, event)
        if item.number in self.shown:
            self.desk.journal.put_retry(retry_row(self.record, item, "dispatched"))
        self.desk.journal.then(lambda: self.desk.begin(self, item, None))

    def settle(self, at: float) -> None:
        """Set the alarm for what comes next. When nothing runs, wait in memory for a little, or give the flow back."""
        if self.released:
            return
        history = self.history
        if self.waits or not self.active:
            wake_at = self.next_wake()
            if not self.active:
                if history.paused:
                    self.release("paused", None)
                    return
                if wake_at is None:
                    self.park(NOTHING_COMES)
                    return
                if wake_at - at > SHORT_WAIT or not self.desk.keeps_idle(self):
                    self.release("waiting", wake_at)
                    return
            if wake_at is not None and wake_at < self._alarm_at:
                self._alarm_at = wake_at
                self.desk.wake_at(wake_at, self)

    def next_wake(self) -> float | None:
        """When the flow goes on by itself; None: it waits for nothing that time brings."""
        first = self.waits.first()
        if not self.has_begun:
            first = min(first, self.record.start_at)
        return None if first == math.inf else first

    # Inside

    def _under_way(self, number: int, delivery: str) -> Item | None:
        """The item, if the outcome with this token is the one it waits for."""
        item = self.history.items.get(number)
        if self.released or item is None or item.state != "running" or item.delivery != delivery:
            return None
        return item

    def _add_item(self, ask: ItemAsk, at: float) -> None:
        number = self.history.last_item + 1
        self.driver.bind_item(ask, number)
        args, policy = msgspec.Raw(ask.args.encode()), write_stored_policy(ask.policy)
        if not self.history.paused and self.desk.take_place(ask.step):
            self.active += 1
            self.log(
                at,
                ItemStarted(
                    item=number,
                    step=ask.step,
                    args=args,
                    policy=policy,
                    delivery=random_token(),
                    timeout_at=cut_at(ask.policy, None, at),
                ),
            )
            item = self.history.items[number]
            item.policy = ask.policy
            self.desk.journal.then(lambda: self.desk.begin(self, item, ask))
        else:
            self.log(at, ItemQueued(item=number, step=ask.step, args=args, policy=policy))
            self.history.items[number].policy = ask.policy
            if not self.history.paused:
                self.active += 1
                self._line_up(number)

    def _cancel_item(self, number: int, at: float) -> None:
        item = self.history.items.get(number)
        if item is None or not item.is_open:
            return
        if item.state == "running":
            self.active -= 1
            self.desk.stop_attempt(self, item)
        elif number in self.in_line:
            self.active -= 1
            self.in_line.remove(number)
        self.waits.retries.pop(number, None)
        self.log(at, ItemCancelled(item=number))
        self._item_done(item)

    def _end(self, ask: EndAsk, at: float) -> None:
        for item in self.history.items.values():
            if item.state == "running":
                self.desk.stop_attempt(self, item)
            if item.is_open:
                self._item_done(item)
        event = ending_of(ask, self.history)
        self.log(at, event)
        self.driver.discard()
        self.active = 0
        self.desk.ended(self, event)
        self.release(ask.how, None, at)

    def _too_late(self, item: Item, at: float) -> None:
        """The next attempt is due, but the deadline of the whole has passed: no attempt begins after it."""
        event = gave_up_at_deadline(item, at)
        self.log(at, event)
        self._item_done(item)
        self.take(self.driver.failed(item.number, error_of(item, event), at), at)

    def _wait_for_retry(self, item: Item, when: float, at: float) -> None:
        self.waits.retries[item.number] = when
        if when - at >= WORTH_SHOWING or item.number in self.shown:
            self.show_retry(item)

    def show_retry(self, item: Item) -> None:
        """Put a waiting item into the retry queue, for all to see."""
        self.shown.add(item.number)
        self.desk.journal.put_retry(retry_row(self.record, item, "waiting"))

    def _item_done(self, item: Item) -> None:
        if item.number in self.shown or item.details is not None or item.number in self.heartbeats:
            self.shown.discard(item.number)
            self.desk.journal.drop_retry(self.id, item.number)
            self.heartbeats.pop(item.number, None)

    def _details(self, item: Item) -> msgspec.Raw | msgspec.UnsetType:
        text = self.heartbeats.pop(item.number, None)
        if text is not None:
            return msgspec.Raw(text.encode())
        return item.details if item.details is not None else msgspec.UNSET
