"""Decide which attempts of a flow begin now, and which wait: for their time, for a slot, or for their dependency."""

from collections.abc import Callable

import msgspec

from redrive.determinism.ids import random_token
from redrive.errors import UnknownDefinitionError
from redrive.flows.action import Executor
from redrive.flows.commands import ScheduleItem
from redrive.flows.driver import Driver, Handler
from redrive.flows.events import AttemptStarted, ItemDeferred, ItemQueued, ItemStarted
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.item import Item
from redrive.flows.stored_policy import write_stored_policy
from redrive.policies.history import cut_at
from redrive.runners.attempt import Slot
from redrive.stores.records import RetryStatus
from redrive.worker.dependency_guard import Deferred, DependencyGuard
from redrive.worker.dependency_line import DependencyLine
from redrive.worker.flow.attempt_dispatcher import AttemptDispatcher
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_timers import FlowTimers
from redrive.worker.flow.policy_in_force import PolicyInForce
from redrive.worker.flow.retry_rows import retry_row
from redrive.worker.flow.step_concurrency import StepConcurrency
from redrive.worker.slots import ExecutionSlots
from redrive.worker.timer_queue import Alarm

# A retry that is due sooner gets no row in the retry queue: it would be gone before anyone looked.
WORTH_LISTING = 0.05

_Found = Handler | UnknownDefinitionError


class AttemptStarter:
    """Each attempt needs a slot of the worker, and its dependency to be up; a graph's step may also limit its items."""

    __slots__ = (
        "_alarm",
        "_dispatcher",
        "_driver",
        "_guard",
        "_log",
        "_monotonic",
        "_policies",
        "_slots",
        "_timers",
        "active",
        "concurrency",
        "heartbeats",
        "in_line",
        "listed",
        "waiting_for_slot",
    )

    def __init__(
        self,
        log: FlowLog,
        driver: Driver,
        timers: FlowTimers,
        slots: ExecutionSlots,
        guard: DependencyGuard,
        dispatcher: AttemptDispatcher,
        alarm: Alarm,
        monotonic: Callable[[], float],
        policies: PolicyInForce,
    ) -> None:
        """alarm: wakes the flow."""
        self._log = log
        self._driver = driver
        self._timers = timers
        self._slots = slots
        self._guard = guard
        self._dispatcher = dispatcher
        self._monotonic = monotonic
        self._policies = policies
        self._alarm = alarm
        self.active = 0
        """Items that run here or wait for a slot."""
        self.waiting_for_slot: dict[int, None] = {}
        self.in_line: dict[int, DependencyLine] = {}
        """Items that wait for their dependency, each in its line."""
        self.heartbeats: dict[int, str] = {}
        """Item -> the details of its running attempt's last heartbeat."""
        self.listed: dict[int, None] = {}
        """Items with a row in the retry queue."""
        # Plain actions have no concurrency limits.
        self.concurrency = None if not driver.has_steps else StepConcurrency(driver.parallelism)

    # Begin

    def schedule(self, command: ScheduleItem, at: float) -> None:
        """Log an item that the definition scheduled, and begin its first attempt if it gets a slot."""
        log, concurrency = self._log, self.concurrency
        number = log.history.last_item + 1
        self._driver.bind_item(command, number)
        handler, executor = self._handler(command.step)
        chosen, policy_from = self._policies.of(command.policy, handler, self._driver.has_steps)
        args, policy = msgspec.Raw(command.args.encode()), write_stored_policy(chosen)
        may_run = not log.is_held and (concurrency is None or concurrency.acquire(command.step, number))
        has_slot = may_run and self._slots.acquire(executor)
        # The guard is asked last: a probe must not be given to an attempt that cannot use it.
        dependency = command.dependency or self._driver.dependency(command.step)
        deferred = self._deferred(dependency, number, False, at) if has_slot and dependency is not None else None
        if has_slot and deferred is None:
            self.active += 1
            log.append(
                at,
                ItemStarted(
                    item=number,
                    step=command.step,
                    args=args,
                    policy=policy,
                    index=command.index,
                    compensates=command.compensates,
                    delivery=random_token(),
                    timeout_at=cut_at(chosen, None, at),
                    dependency=command.dependency,
                    policy_from=policy_from,
                ),
            )
            item = log.history.items[number]
            log.journal.when_durable(
                log.flow_id, self._dispatcher.dispatch, log, item, handler, executor, executor, command.values
            )
            return
        log.append(
            at,
            ItemQueued(
                item=number,
                step=command.step,
                args=args,
                policy=policy,
                index=command.index,
                compensates=command.compensates,
                dependency=command.dependency,
                policy_from=policy_from,
            ),
        )
        item = log.history.items[number]
        if deferred is not None:
            self._defer(item, deferred, at)
            self._slots.release(executor)
            self.release_step(item, at)
        elif may_run:
            self._wait_for_slot(number, executor)

    def start(self, item: Item, at: float) -> None:
        """Begin the item's next attempt, or wait for a slot or for its dependency."""
        if not self._start_or_defer(item, at):
            self.release_step(item, at)

    def release_step(self, item: Item, at: float) -> None:
        """The item no longer runs: let the next items of its step begin."""
        concurrency, history = self.concurrency, self._log.history
        if concurrency is None:
            return
        concurrency.release(item.step, item.number)
        while not self._log.released and not self._log.is_held and (number := concurrency.next(item.step)) is not None:
            following = history.items.get(number)
            if (
                following is not None
                and following.state in ("queued", "waiting")
                and not self._start_or_defer(following, at)
            ):
                concurrency.release(following.step, number)

    def keep_step(self, item: Item) -> None:
        """Count an item whose attempt runs already: elsewhere, or here since before the flow was rebuilt."""
        if self.concurrency is not None:
            self.concurrency.acquire(item.step, item.number)

    def _start_or_defer(self, item: Item, at: float) -> bool:
        """False when the item may not begin now, and must release its step."""
        number, concurrency = item.number, self.concurrency
        if number in self.waiting_for_slot or (concurrency is not None and not concurrency.acquire(item.step, number)):
            return True
        handler, executor = self._handler(item.step)
        slot: Slot = "alone" if item.is_suspect and _may_take_worker_down(handler, executor) else executor
        if not self._slots.acquire(slot):
            self._wait_for_slot(number, slot)
            return True
        if self._begin(item, handler, executor, slot, at):
            self.active += 1
            return True
        self._slots.release(slot)
        return False

    def _wait_for_slot(self, number: int, slot: Slot) -> None:
        self.active += 1
        self.waiting_for_slot[number] = None
        self._slots.wait(slot, self._log.flow_id, self._slot_acquired, number)

    def _slot_acquired(self, number: int, slot: Slot) -> bool:
        """Begin an item that waited for a slot; False when it does not use the slot."""
        log = self._log
        if not log.released and number in self.waiting_for_slot:
            del self.waiting_for_slot[number]
            item, at = log.history.items[number], log.now()
            # Of a step that failed, items that wait are cancelled in pieces: those that still wait must not begin.
            wanted = self.concurrency is None or self._driver.awaits_item(number)
            if wanted and self._begin(item, *self._handler(item.step), slot, at):
                return True
            self.active -= 1
            self.release_step(item, at)
            # The flow may be idle now. It looks in a turn of its own: the attempt that freed the slot may be in one.
            self._alarm.set(at)
        return False

    def _begin(self, item: Item, handler: _Found, executor: Executor, slot: Slot, at: float) -> bool:
        """Begin the next attempt in the slot acquired for it; False when it may not begin now."""
        if item.is_past_deadline(at):
            # The wait took too long. The item is due, and given up, in a turn of its own.
            self._timers.put_retry(item.number, at)
            return False
        # Asked last: the dependency may have failed while the item waited for a slot.
        dependency = self.dependency_of(item)
        if dependency is not None:
            deferred = self._deferred(dependency, item.number, item.is_retry, at)
            if deferred is not None:
                self._defer(item, deferred, at)
                return False
        log = self._log
        log.append(
            at,
            AttemptStarted(
                item=item.number,
                attempt=item.attempt + 1,
                delivery=random_token(),
                timeout_at=cut_at(item.policy, item.retry_history, at),
                alone=slot == "alone",
            ),
        )
        if item.number in self.listed:
            log.journal.put_retry(retry_row(log.record, item, "dispatched", dependency))
        log.journal.when_durable(log.flow_id, self._dispatcher.dispatch, log, item, handler, executor, slot, None)
        return True

    def _handler(self, step: str) -> tuple[_Found, Executor]:
        """The step's handler and where it runs. Without a handler here, the attempt fails once it is dispatched."""
        try:
            handler = self._driver.handler(step)
        except UnknownDefinitionError as error:
            return error, "loop"
        return handler, "loop" if isinstance(handler, HttpHandler) else handler.executor

    # Wait

    def wait_for_retry(self, item: Item, when: float, at: float) -> None:
        self._timers.put_retry(item.number, when)
        if when - at >= WORTH_LISTING or item.number in self.listed:
            self.list_retry(item)

    def list_retry(self, item: Item) -> None:
        """Add or update the item's row in the retry queue."""
        self.listed[item.number] = None
        self._log.journal.put_retry(retry_row(self._log.record, item, "waiting", self.dependency_of(item)))

    def list_again(self, item: Item) -> None:
        """Update the item's row, which says what its policy allows."""
        status: RetryStatus = "waiting" if item.state == "waiting" else "dispatched"
        self._log.journal.put_retry(retry_row(self._log.record, item, status, self.dependency_of(item)))

    def find_listed(self) -> None:
        """After the history was replaced: find the items that have a row in the retry queue."""
        items = self._log.history.items.values()
        self.listed.update((item.number, None) for item in items if item.retry_kind)

    def dependency_of(self, item: Item) -> str | None:
        """What the item talks to."""
        return item.dependency or self._driver.dependency(item.step)

    def _deferred(self, dependency: str, number: int, retry: bool, at: float) -> Deferred | None:
        """Why the dependency may not be called now; None when it may."""
        # Circuits run on the process's clock: the wall clock may be set, and a log may hold times of another host.
        now = self._monotonic()
        try:
            self._guard.admit((self._log.flow_id, number), dependency, retry, now)
        except Deferred as deferred:
            return Deferred(at + deferred.until - now, deferred.reason, deferred.line, deferred.waits_for)
        self.in_line.pop(number, None)
        return None

    def _defer(self, item: Item, deferred: Deferred, at: float) -> None:
        number, line = item.number, deferred.line
        if item.deferred == deferred.reason:
            # The log has it. It need not grow with the time that the dependency takes.
            item.retry_at = deferred.until
        else:
            event = ItemDeferred(item=number, until=deferred.until, reason=deferred.reason, held_by=deferred.waits_for)
            self._log.append(at, event)
            self._log.count(at, "deferred", item.step, self.dependency_of(item) or "")
        self.wait_for_retry(item, deferred.until, at)
        if line is not None and line.join((self._log.flow_id, number), lambda: self._turn_came(number)):
            self.in_line[number] = line
        else:
            self.leave_line(number)

    def leave_line(self, number: int) -> None:
        line = self.in_line.pop(number, None)
        if line is not None:
            line.leave((self._log.flow_id, number))

    def _turn_came(self, number: int) -> bool:
        """Begin an item that is the first in line, in a turn of its own; False when it got no slot."""
        line = self.in_line.pop(number, None)
        if line is not None and not self._log.released:
            self._timers.put_retry(number, self._log.now())
            self._alarm.ring()
            if number in self.waiting_for_slot:
                # It keeps its right to begin next.
                self.in_line[number] = line
                return False
        return True

    # Stop

    def stop_waiting_for_slots(self) -> None:
        """Begin nothing more: items in line for a slot go back to waiting."""
        self.active -= len(self.waiting_for_slot)
        for number in self.waiting_for_slot:
            if self.concurrency is not None:
                self.concurrency.release(self._log.history.items[number].step, number)
        self.waiting_for_slot.clear()

    def forget(self, item: Item) -> None:
        """The item is settled: drop its row in the retry queue, its heartbeat, and its place in line."""
        if self.in_line:
            self.leave_line(item.number)
        if item.number in self.listed or item.details is not None or item.number in self.heartbeats:
            self.listed.pop(item.number, None)
            self.heartbeats.pop(item.number, None)
            self._log.journal.drop_retry(self._log.flow_id, item.number)

    def last_details(self, item: Item) -> msgspec.Raw | msgspec.UnsetType:
        """The details of the last heartbeat, which the next attempt is given."""
        text = self.heartbeats.pop(item.number, None)
        if text is not None:
            return msgspec.Raw(text.encode())
        return item.details if item.details is not None else msgspec.UNSET

    def running_items(self) -> set[int]:
        """Items whose attempts this worker executes, or will once their start is durable."""
        items = self._log.history.items.values()
        return {item.number for item in items if item.state == "running" and not item.accepted}


def _may_take_worker_down(handler: _Found, executor: Executor) -> bool:
    """A request cannot, and a process takes down only itself."""
    return executor != "process" and not isinstance(handler, HttpHandler)
