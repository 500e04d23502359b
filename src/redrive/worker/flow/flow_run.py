"""One flow in a worker's memory: begin it, wake it when something is due, and release it when it has to wait."""

import functools
import math
from collections.abc import Callable

from redrive.errors import DeserializationError, TypeHintError
from redrive.flows.commands import Command, EndFlow
from redrive.flows.driver import Driver
from redrive.flows.events import FlowBegan, TimerFired
from redrive.worker.flow.attempt_lifecycle import AttemptLifecycle
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.flow.command_handler import CommandHandler
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_timers import FlowTimers, TimerKind
from redrive.worker.timer_queue import Alarm

# A flow that waits longer than this leaves memory at once.
SHORT_WAIT = 5.0
# Timers that fire in one turn; then other flows and the lease have theirs.
DUE_AT_ONCE = 1000
NOTHING_TO_WAIT_FOR = (
    "run waits for something that will never happen: no action runs, no retry waits and no timer is set. It may await "
    "an event that is never set, or the result of a thread: put such work into an @action. Fix the code, then resume "
    "the flow"
)


class FlowRun:
    """Composes the parts of one flow. Each public method is one turn, and ends with the flow at rest."""

    __slots__ = (
        "_after_inbox",
        "_keep_in_memory",
        "alarm",
        "attempts",
        "commands",
        "driver",
        "has_begun",
        "id",
        "log",
        "starter",
        "timers",
    )

    def __init__(
        self,
        log: FlowLog,
        driver: Driver,
        timers: FlowTimers,
        starter: AttemptStarter,
        commands: CommandHandler,
        attempts: AttemptLifecycle,
        alarm: Alarm,
        keep_in_memory: Callable[["FlowRun"], bool],
        after_inbox: Callable[[Callable[[], None]], None],
    ) -> None:
        """keep_in_memory: whether a flow that waits briefly may stay.

        after_inbox: calls back once all messages that are in the store now have been delivered.
        """
        self.id = log.flow_id
        self.log = log
        self.driver = driver
        self.timers = timers
        self.starter = starter
        self.commands = commands
        self.attempts = attempts
        self.alarm = alarm
        self.has_begun = False
        self._keep_in_memory = keep_in_memory
        self._after_inbox = after_inbox

    def begin(self) -> None:
        """Run the definition for the first time, unless the flow starts later or is paused."""
        log = self.log
        at = log.now()
        if at >= log.record.start_at and not log.history.paused:
            self.has_begun = True
            commands: list[Command]
            try:
                commands = self.driver.start(at)
            except DeserializationError as error:
                commands = [EndFlow("failed", error=error)]
            except TypeHintError as error:
                log.park(str(error))
                return
            if not commands:
                log.append(at, FlowBegan())
            self.commands.handle(commands, at)
        self.rest(at)

    def wake(self) -> None:
        """Do what is due, in the order of its times: retries, timers, timeouts of accepted attempts."""
        log = self.log
        if log.released:
            return
        if not self.has_begun:
            # A flow that starts later was claimed early, for a message.
            self.begin()
            return
        at = log.now()
        if not log.history.paused:
            for _, kind, number in self.timers.due(at, DUE_AT_ONCE):
                if not log.released:
                    self._do_due(kind, number, at)
        self.rest(at)

    def _do_due(self, kind: TimerKind, number: int, at: float) -> None:
        if kind == "retry":
            self.attempts.retry(number, at)
        elif kind == "timer":
            self._fire_timer(number, at)
        else:
            self._expire_callback(number)

    def _fire_timer(self, timer: int, at: float) -> None:
        if self.driver.awaits_timer(timer):
            self.log.append(at, TimerFired(timer=timer))
            self.commands.handle(self.driver.fired(timer, at), at)
        else:
            self.log.history.timers.pop(timer, None)

    def _expire_callback(self, number: int) -> None:
        """Time out an accepted attempt, unless its outcome is in the inbox already."""
        self.timers.callbacks.pop(number, None)
        item = self.log.history.items.get(number)
        if item is not None and item.accepted:
            # It counts as active until the inbox has been read, so that the flow stays in memory.
            self.starter.active += 1
            self._after_inbox(functools.partial(self._expire_after_inbox, number, item.delivery))

    def _expire_after_inbox(self, number: int, delivery: str | None) -> None:
        if not self.log.released:
            self.starter.active -= 1
            self.attempts.expire_callback(number, delivery)
            self.rest(self.log.now())

    def begin_or_continue(self) -> None:
        """Begin or continue a flow, and release it when it has nothing to do."""
        if self.has_begun:
            self.resume_items()
            self.wake()
        else:
            self.begin()

    def resume_items(self) -> None:
        """After recovery or a pause: schedule waiting retries and start queued items."""
        history = self.log.history
        if history.paused or self.log.released or history.ending is not None:
            return
        at = self.log.now()
        for item in list(history.items.values()):
            if item.state == "waiting" and item.retry_at is not None:
                self.timers.put_retry(item.number, item.retry_at)
            elif item.state == "queued":
                self.starter.start(item, at)

    def rest(self, at: float) -> None:
        """Set the alarm for what comes next. A flow with nothing running stays in memory briefly, or is released."""
        log, active = self.log, self.starter.active
        if log.released or (active and not self.timers):
            return
        paused, wake_at = log.history.paused, self.next_wake()
        if not active:
            if paused:
                log.release("paused", None)
                return
            if wake_at is None:
                log.park(NOTHING_TO_WAIT_FOR)
                return
            if wake_at - at > SHORT_WAIT or not (self._keep_in_memory(self) or wake_at <= at):
                log.release("waiting", wake_at)
                return
        # Whatever is due during a pause waits until the flow is resumed.
        if wake_at is not None and wake_at < self.alarm.when and not paused:
            self.alarm.set(wake_at)

    def next_wake(self) -> float | None:
        """When the flow goes on by itself; None when no timer is set."""
        first = self.timers.first()
        if not self.has_begun:
            first = min(first, self.log.record.start_at)
        return None if first == math.inf else first
