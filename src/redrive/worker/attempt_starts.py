"""Which attempts of a flow begin now, and which wait: for their time, for a place, or for what they talk to."""

import msgspec

from redrive.determinism.ids import random_token
from redrive.flows.action import Executor
from redrive.flows.commands import ScheduleItem
from redrive.flows.driver import Driver
from redrive.flows.events import AttemptStarted, ItemDeferred, ItemQueued, ItemStarted
from redrive.flows.history import Item
from redrive.flows.stored_policy import write_stored_policy
from redrive.policies.history import cut_at
from redrive.stores.records import FlowRecord
from redrive.worker.dependency_guard import Deferred
from redrive.worker.flow_host import Desk
from redrive.worker.flow_timers import Waits
from redrive.worker.owned_flow import OwnedFlow
from redrive.worker.retry_rows import retry_row
from redrive.worker.step_concurrency import Lanes

# What is due sooner is not shown in the retry queue: it would be gone before anyone looked.
WORTH_SHOWING = 0.05


class AttemptStarts(OwnedFlow):
    """A place in the worker is needed for each attempt and, where the step limits that, one in its lane."""

    __slots__ = ("_lanes", "active", "heartbeats", "in_line", "shown", "waits")

    def __init__(self, desk: Desk, record: FlowRecord, driver: Driver) -> None:
        super().__init__(desk, record, driver)
        self.active = 0
        """Items that run or wait in line."""
        self.in_line: dict[int, None] = {}
        """Items that wait for a free place to run."""
        self.waits = Waits(self.history, driver)
        self.heartbeats: dict[int, str] = {}
        """What running attempts left last."""
        self.shown: dict[int, None] = {}
        """Items with a row in the retry queue."""
        # Items that are plain actions have neither lanes nor dependencies.
        self._lanes = Lanes(driver.parallelism) if driver.has_steps else None

    def add_item(self, command: ScheduleItem, at: float) -> None:
        """Log an item that the flow's code asks for, and begin its first attempt if it has a place."""
        number = self.history.last_item + 1
        self.driver.bind_item(command, number)
        args, policy = msgspec.Raw(command.args.encode()), write_stored_policy(command.policy)
        lanes = self._lanes
        has_turn = not self.history.paused and (lanes is None or lanes.enter(command.step, number))
        executor = self.driver.executor(command.step)
        has_place = has_turn and self.desk.places.take(executor)
        # Asked last: a probe is not given to what cannot use it.
        held_back = None if lanes is None or not has_place else self._held_back(command.step, number, False, at)
        if has_place and held_back is None:
            self.active += 1
            self.log(
                at,
                ItemStarted(
                    item=number,
                    step=command.step,
                    args=args,
                    policy=policy,
                    index=command.index,
                    compensates=command.compensates,
                    delivery=random_token(),
                    timeout_at=cut_at(command.policy, None, at),
                ),
            )
            item = self.history.items[number]
            self.desk.journal.then(self.desk.begin, self, item, executor, command)
        else:
            event = ItemQueued(
                item=number,
                step=command.step,
                args=args,
                policy=policy,
                index=command.index,
                compensates=command.compensates,
            )
            self.log(at, event)
            if held_back is not None:
                item = self.history.items[number]
                self._defer(item, held_back, at)
                self.desk.places.free(executor)
                self.leave_lane(item, at)
            elif has_turn:
                self._line_up(number)

    def start_attempt(self, item: Item, at: float) -> None:
        """Begin the next attempt, or wait for a free place."""
        if not self._start_or_defer(item, at):
            self.leave_lane(item, at)

    def _start_or_defer(self, item: Item, at: float) -> bool:
        """False when it may not begin now: then it must leave its lane, where it has one."""
        lanes = self._lanes
        if item.number in self.in_line or (lanes is not None and not lanes.enter(item.step, item.number)):
            return True
        if not self.desk.places.take(executor := self.driver.executor(item.step)):
            self._line_up(item.number)
            return True
        if self._begins(item, executor, at):
            self.active += 1
            return True
        self.desk.places.free(executor)
        return False

    def running_items(self) -> set[int]:
        """Those whose attempts this worker makes, or is about to make."""
        items = self.history.items.values()
        return {item.number for item in items if item.state == "running" and not item.accepted}

    def place_found(self, number: int, executor: Executor) -> bool:
        """A place was taken for an item that waited in line; False when it does not need one now."""
        if self.released or number not in self.in_line:
            return False
        del self.in_line[number]
        item, at = self.history.items[number], self.time()
        if self._begins(item, executor, at):
            return True
        self.active -= 1
        self.leave_lane(item, at)
        return False

    def last_details(self, item: Item) -> msgspec.Raw | msgspec.UnsetType:
        """What the heartbeats of its attempts left last, to be logged with how this one ended."""
        text = self.heartbeats.pop(item.number, None)
        if text is not None:
            return msgspec.Raw(text.encode())
        return item.details if item.details is not None else msgspec.UNSET

    def leave_line(self) -> None:
        """Begin nothing more: who waits in line goes back to waiting."""
        self.active -= len(self.in_line)
        for number in self.in_line:
            if self._lanes is not None:
                self._lanes.leave(self.history.items[number].step, number)
        self.in_line.clear()

    def stays_in_lane(self, item: Item) -> None:
        """Its attempt is under way somewhere, though not in this worker."""
        if self._lanes is not None:
            self._lanes.enter(item.step, item.number)

    def leave_lane(self, item: Item, at: float) -> None:
        """The item runs no longer; whoever waits for its place in the lane may begin."""
        lanes = self._lanes
        if lanes is None:
            return
        lanes.leave(item.step, item.number)
        while not self.released and not self.history.paused and (number := lanes.next(item.step)) is not None:
            following = self.history.items.get(number)
            if (
                following is not None
                and following.state in ("queued", "waiting")
                and not self._start_or_defer(following, at)
            ):
                lanes.leave(following.step, number)

    def wait_for_retry(self, item: Item, when: float, at: float) -> None:
        self.waits.put_retry(item.number, when)
        if when - at >= WORTH_SHOWING or item.number in self.shown:
            self.show_retry(item)

    def know_rows(self) -> None:
        """Of the items in the history, those that waited before have a row in the retry queue."""
        self.shown.update((item.number, None) for item in self.history.items.values() if item.retry_kind)

    def show_retry(self, item: Item) -> None:
        """Put a waiting item into the retry queue, for all to see."""
        self.shown[item.number] = None
        self.desk.journal.put_retry(retry_row(self.record, item, "waiting"))

    def _held_back(self, step: str, number: int, retry: bool, at: float) -> Deferred | None:
        """Why the step's dependency may not be called now, if it may not."""
        dependency = self.driver.dependency(step)
        if dependency is None:
            return None
        # Of the process, not of the flow: the calendar may be set, and times in a log may be those of another clock.
        now = self.desk.monotonic()
        try:
            self.desk.guard.admit((self.id, number), dependency, retry, now)
        except Deferred as deferred:
            return Deferred(at + deferred.until - now, deferred.reason)
        return None

    def _defer(self, item: Item, deferred: Deferred, at: float) -> None:
        self.log(at, ItemDeferred(item=item.number, until=deferred.until, reason=deferred.reason))
        self.wait_for_retry(item, deferred.until, at)

    def _line_up(self, number: int) -> None:
        self.active += 1
        self.in_line[number] = None
        self.desk.queue_for_place(self, number)

    def _begins(self, item: Item, executor: Executor, at: float) -> bool:
        """Begin the next attempt in the place taken for it; False when it may not begin now."""
        if item.is_past_deadline(at):
            # The wait took too long. It is due, and given up, in a turn of its own.
            self.waits.put_retry(item.number, at)
            return False
        # Asked last: who stood in line may have had leave long ago, and a probe is not given to what cannot use it.
        held_back = None if self._lanes is None else self._held_back(item.step, item.number, item.is_retry, at)
        if held_back is not None:
            self._defer(item, held_back, at)
            return False
        self._begin_attempt(item, executor, at)
        return True

    def _begin_attempt(self, item: Item, executor: Executor, at: float) -> None:
        event = AttemptStarted(
            item=item.number,
            attempt=item.attempt + 1,
            delivery=random_token(),
            timeout_at=cut_at(item.policy, item.retry_history, at),
        )
        self.log(at, event)
        if item.number in self.shown:
            self.desk.journal.put_retry(retry_row(self.record, item, "dispatched"))
        self.desk.journal.then(self.desk.begin, self, item, executor)
