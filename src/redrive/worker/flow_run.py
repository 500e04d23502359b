"""One flow in a worker's memory: its history, its code, and what each outcome leads to.

Everything here happens between two awaits: an outcome comes in, events go into the journal's batch, and what must wait
until they are durable is left with the journal.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import msgspec

from redrive.errors import AttemptTimeoutError, DeserializationError, TypeHintError
from redrive.failures.failure import Failure
from redrive.flows.action import Place
from redrive.flows.asks import Ask, EndAsk
from redrive.flows.driver import Driver
from redrive.flows.error_details import kept_text
from redrive.flows.events import (
    AttemptAccepted,
    AttemptFailed,
    AttemptReturned,
    CompletionRefused,
    FlowBegan,
    ItemCompleted,
    ItemGaveUp,
    TimerFired,
)
from redrive.flows.failed_item import error_of
from redrive.flows.history import Item
from redrive.flows.messages import CompleteItem, Completion, ResolveItem
from redrive.flows.portable_errors import StoredError, rebuild_error, store_error
from redrive.flows.values import NOT_READ
from redrive.policies.decide import decide
from redrive.policies.decision import CLEAR, Conditions, RetryAt
from redrive.stores.records import FlowRecord
from redrive.worker.attempt_outcomes import comes_back_in, failure_from, gave_up_at_deadline
from redrive.worker.command_handler import CarriedOut
from redrive.worker.flow_host import Desk

# A flow that waits longer than this leaves memory at once.
SHORT_WAIT = 5.0
# Others, the lease among them, have their turn between so many and the next.
DUE_AT_ONCE = 1000
UNWANTED = Conditions(wanted=False)
NOTHING_COMES = (
    "run waits for what nothing will bring: no action runs, no retry waits and no timer is set. It may be an event "
    "that nobody sets, or what a thread or a library with its own threads brings: put that into an @action. Mend the "
    "code, then resume the flow"
)


class FlowRun(CarriedOut):
    """What its code asked for, what runs and what waits."""

    __slots__ = ("_alarm_at", "has_begun")

    def __init__(self, desk: Desk, record: FlowRecord, driver: Driver) -> None:
        super().__init__(desk, record, driver)
        self.has_begun = False
        self._alarm_at = math.inf

    # What comes in

    def begin(self) -> None:
        """Run the flow's code for the first time."""
        at = self.time()
        if at >= self.record.start_at and not self.history.paused:
            self.has_begun = True
            asks: list[Ask]
            try:
                asks = self.driver.start(at)
            except DeserializationError as error:
                asks = [EndAsk("failed", error=error)]
            except TypeHintError as error:
                self.park(str(error))
                return
            if not asks:
                self.log(at, FlowBegan())
            self.take(asks, at)
        self.settle(at)

    def succeeded(self, number: int, delivery: str, result: str, read: Any = NOT_READ) -> None:
        """`read`: what reading the result gives, where that is known already."""
        item = self._under_way(number, delivery)
        if item is None:
            return
        at = self.time()
        try:
            result = self.driver.accept(number, result)
        except ValueError as error:
            self.failed(number, delivery, error, failure_from(error, at, poison=True))
            return
        self.active -= 1
        self.log(at, ItemCompleted(item=number, attempt=item.attempt, result=msgspec.Raw(result.encode())))
        self.item_done(item)
        self.take(self.driver.completed(number, result, at, read), at)
        if self._lanes is not None:
            self.leave_lane(item, at)
        self.settle(at)

    def completed_by_hand(self, item: Item, said: CompleteItem | ResolveItem) -> None:
        """Someone says what came of an open item, or that it does not matter."""
        at = self.time()
        self.let_go(item)
        result = said.result if isinstance(said, CompleteItem) else msgspec.Raw(b"null")
        resolved = isinstance(said, ResolveItem)
        self.log(
            at,
            ItemCompleted(
                item=item.number, attempt=item.attempt, result=result, by=said.by, why=said.why, resolved=resolved
            ),
        )
        self.item_done(item)
        if resolved:
            self.take(self.driver.resolved(item.number, at), at)
        else:
            self.take(self.driver.completed(item.number, bytes(result).decode(), at), at)
        self.leave_lane(item, at)
        self.settle(at)

    def accepted(self, number: int, delivery: str) -> None:
        """Whoever makes the attempt will say later how it ended."""
        item = self._under_way(number, delivery)
        if item is None:
            return
        self.active -= 1
        self.log(self.time(), AttemptAccepted(item=number, attempt=item.attempt))
        self.wait_for_callback(item)
        self.settle(self.time())

    def wait_for_callback(self, item: Item) -> None:
        if item.timeout_at is not None:
            self.waits.put_callback(item.number, item.timeout_at)

    def told(self, said: Completion) -> None:
        """Someone tells how an attempt ended."""
        item = self._under_way(said.item, said.delivery)
        if item is None:
            self.log(self.time(), CompletionRefused(item=said.item, why="the attempt is not under way any more"))
            return
        self.let_go(item)
        # As if it had been running here, which is where outcomes usually come from.
        self.active += 1
        item.accepted = False
        failure = said.failure
        if failure is None:
            self.succeeded(said.item, said.delivery, bytes(said.outputs).decode())
        else:
            error = rebuild_error(StoredError(type=failure.type, message=failure.message))
            self.failed(said.item, said.delivery, error, failure)

    def failed(self, number: int, delivery: str, error: BaseException, failure: Failure) -> None:
        item = self._under_way(number, delivery)
        if item is None:
            return
        at = self.time()
        self.active -= 1
        back_in = comes_back_in(item, error, failure, self.desk.dice) if self.driver.wants(number) else None
        if back_in is None:
            self.decide(item, error, failure, at)
        else:
            self.returned(item, at, at + back_in, kept_text(str(error)))
        if item.state != "running" and item.number not in self.in_line:
            # Else its next attempt has begun already, in the same lane.
            self.leave_lane(item, at)
        self.settle(at)

    def decide(self, item: Item, error: BaseException, failure: Failure, at: float) -> None:
        """Ask what to do about a failed attempt, log the answer, and act on it."""
        so_far = item.so_far
        assert so_far is not None  # noqa: S101 - an attempt was made
        conditions = CLEAR if self.driver.wants(item.number) else UNWANTED
        decision = decide(item.policy, so_far, failure, at, self.desk.dice, conditions)
        event = AttemptFailed(
            item=item.number,
            attempt=item.attempt,
            failure=msgspec.structs.replace(failure, error=None, lineage=()),
            error=store_error(error),
            decision=decision,
            details=self.last_details(item),
        )
        self.log(at, event)
        self.desk.attempt_failed(self, item, event)
        if isinstance(decision, RetryAt):
            if decision.when <= at and not self.history.paused:
                self.start_attempt(item, at)
            else:
                self.wait_for_retry(item, decision.when, at)
        else:
            self.item_done(item)
            self.take(self.driver.failed(item.number, error_of(item, event), at), at)

    def returned(self, item: Item, at: float, until: float, reason: str) -> None:
        """The attempt does not count; another one is made later."""
        event = AttemptReturned(
            item=item.number, attempt=item.attempt, until=until, reason=reason, details=self.last_details(item)
        )
        self.log(at, event)
        self.wait_for_retry(item, until, at)

    def ring(self) -> None:
        """Do what is due by now, or much of it: retries and timers, in the order of their times."""
        self._alarm_at = math.inf
        if self.released:
            return
        at = self.time()
        if not self.history.paused:
            for _, what, number in self.waits.due(at, DUE_AT_ONCE):
                if not self.released:
                    _DUE[what](self, number, at)
        self.settle(at)

    def _retry(self, number: int, at: float) -> None:
        item = self.history.items.get(number)
        self.waits.retries.pop(number, None)
        if item is None or item.state != "waiting":
            return
        if item.is_too_late(at):
            # No attempt begins after the deadline of the whole.
            self.give_up(item, gave_up_at_deadline(item, at), at)
        else:
            self.start_attempt(item, at)

    def _fire(self, timer: int, at: float) -> None:
        if self.driver.awaits_timer(timer):
            self.log(at, TimerFired(timer=timer))
            self.take(self.driver.fired(timer, at), at)
        else:
            self.history.timers.pop(timer, None)

    def _no_callback(self, number: int, at: float) -> None:
        """Nobody has said in time how the attempt ended; but that may be in the mail, and would count."""
        self.waits.callbacks.pop(number, None)
        item = self.history.items.get(number)
        if item is not None and item.accepted:
            # Until that is known it counts as active: the flow stays in memory.
            self.active += 1
            self.desk.after_mail(functools.partial(self.time_out, number, item.delivery))

    def time_out(self, number: int, delivery: str | None) -> None:
        if self.released:
            return
        self.active -= 1
        item = self.history.items.get(number)
        if item is None or not item.accepted or item.delivery != delivery:
            self.settle(self.time())
            return
        error = AttemptTimeoutError((item.timeout_at or 0.0) - item.attempt_began)
        self.active += 1
        item.accepted = False
        self.failed(number, delivery or "", error, failure_from(error, self.time(), timed_out=True))

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
                self.waits.put_retry(item.number, item.retry_at)
            elif item.state == "queued":
                self.start_attempt(item, at)

    def place_found(self, number: int, place: Place) -> bool:
        if super().place_found(number, place):
            return True
        # Settled in a turn of its own: whoever gave up the place may be in the middle of one.
        self.desk.wake_at(self.time(), self)
        return False

    # Until the next comes in

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
                if wake_at - at > SHORT_WAIT or not (self.desk.keeps_idle(self) or wake_at <= at):
                    self.release("waiting", wake_at)
                    return
            # What is due while it is paused waits for it to be resumed, which rings.
            if wake_at is not None and wake_at < self._alarm_at and not history.paused:
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

    def give_up(self, item: Item, event: ItemGaveUp, at: float) -> None:
        """An item that waits is not tried again."""
        self.log(at, event)
        self.desk.attempt_failed(self, item, event)
        self.item_done(item)
        self.take(self.driver.failed(item.number, error_of(item, event), at), at)


_DUE: dict[str, Callable[[FlowRun, int, float], None]] = {
    "retry": FlowRun._retry,
    "timer": FlowRun._fire,
    "callback": FlowRun._no_callback,
}
