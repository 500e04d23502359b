"""One flow in a worker's memory: begin it, wake it when something is due, and release it when it has to wait."""

import math
from collections.abc import Callable, Sequence

from redrive.errors import DeserializationError, TypeHintError
from redrive.flows.child_events import ChildEnd
from redrive.flows.children import Child
from redrive.flows.commands import Command, EndFlow
from redrive.flows.driver import Driver
from redrive.flows.events import FlowBegan, TimerFired, TurnContinued
from redrive.worker.flow.attempt_lifecycle import AttemptLifecycle
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.flow.command_handler import CommandHandler
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_timers import FlowTimers, TimerKind
from redrive.worker.flow.signals import Signals
from redrive.worker.timer_queue import Alarm

# A flow that waits longer than this leaves memory at once.
SHORT_WAIT = 5.0
# Timers that fire in one turn; then other flows and the lease have theirs.
DUE_AT_ONCE = 1000
# Items that begin again in one turn, after recovery or a pause.
RESUMED_AT_ONCE = 500
NOTHING_TO_WAIT_FOR = (
    "run waits for something that will never happen: no action runs, no retry waits and no timer is set. It may await "
    "an event that is never set, or the result of a thread: put such work into an @action. Fix the code, then resume "
    "the flow"
)


class FlowRun:
    """Composes the parts of one flow. Each public method is one turn, and ends with the flow at rest."""

    __slots__ = (
        "_keep_in_memory",
        "_rests_since",
        "_to_resume",
        "alarm",
        "attempts",
        "commands",
        "driver",
        "has_begun",
        "id",
        "log",
        "lookups",
        "signals",
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
        signals: Signals,
        alarm: Alarm,
        keep_in_memory: Callable[["FlowRun"], bool],
    ) -> None:
        """keep_in_memory: whether a flow that waits briefly may stay."""
        self.id = log.flow_id
        self.log = log
        self.driver = driver
        self.timers = timers
        self.starter = starter
        self.commands = commands
        self.attempts = attempts
        self.signals = signals
        self.alarm = alarm
        self.has_begun = False
        self.lookups = 0
        """How many look-ups of its children are under way."""
        self._rests_since = (-1, 0.0)
        """The last line of the log, and since when it is, while the flow waits for its children."""
        self._to_resume: Sequence[int] = ()
        """Items that are to begin again, where they still wait; the next one last."""
        self._keep_in_memory = keep_in_memory

    def begin(self) -> None:
        """Run the definition for the first time, unless the flow starts later or is paused."""
        log = self.log
        at = log.now()
        if at >= log.record.start_at and not log.is_held:
            self.has_begun = True
            log.began_at = at
            log.pin()
            log.count(at, "flow_started")
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
            self.signals.deliver_buffered(at)
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
        if not log.is_held:
            self.signals.deliver_buffered(at)
            if self.driver.has_more:
                self._continue_turn(at)
            elif self._to_resume:
                self._resume_some(at)
            for _, kind, number in self.timers.due(at, DUE_AT_ONCE):
                if not log.released:
                    self._do_due(kind, number, at)
        self.rest(at)

    def _continue_turn(self, at: float) -> None:
        """Log more commands of a turn that has many."""
        self.log.append(at, TurnContinued(since=self.log.history.long_turn or 0))
        self.commands.handle(self.driver.more(at), at)

    def _do_due(self, kind: TimerKind, number: int, at: float) -> None:
        if kind == "retry":
            self.attempts.retry(number, at)
        elif kind == "timer":
            self._fire_timer(number, at)
        else:
            self.attempts.expire_callback(number)

    def _fire_timer(self, timer: int, at: float) -> None:
        if self.driver.awaits_timer(timer):
            self.log.append(at, TimerFired(timer=timer))
            self.commands.handle(self.driver.fired(timer, at), at)
        else:
            self.log.history.timers.pop(timer, None)

    def end_child(self, child: Child, event: ChildEnd) -> None:
        """Log how a child ended, unless the log has it already, and go on."""
        log, at = self.log, self.log.now()
        if not log.released and child is log.history.children.find(child.flow):
            log.append(at, event)
            self.commands.handle(self.driver.child_ended(event, at), at)

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
        if self.log.is_held or self.log.released or history.ending is not None:
            return
        # Anew: a pause may have come before all of them had begun.
        waiting = [item.number for item in history.items.values() if item.state in ("waiting", "queued")]
        self._to_resume = waiting[::-1]
        self._resume_some(self.log.now())

    def _resume_some(self, at: float) -> None:
        items = self.log.history.items
        numbers = self._to_resume[-RESUMED_AT_ONCE:]
        self._to_resume = self._to_resume[:-RESUMED_AT_ONCE]
        for number in reversed(numbers):
            item = items.get(number)
            if item is None:
                continue
            if item.state == "waiting" and item.retry_at is not None:
                self.timers.put_retry(item.number, item.retry_at)
            elif item.state == "queued":
                self.starter.start(item, at)

    def rest(self, at: float) -> None:
        """Set the alarm for what comes next. A flow with nothing running stays in memory briefly, or is released."""
        log, active = self.log, self.starter.active
        if not log.released:
            self.signals.note_awaited(at)
        if (self.driver.has_more or self._to_resume) and not (log.released or log.is_held):
            if at < self.alarm.when:
                self.alarm.set(at)
            return
        if log.released or self.lookups or (active and not self.timers):
            return
        held, wake_at = log.is_held, self.next_wake()
        if not active:
            if log.history.paused:
                log.release("paused", None)
                return
            if held:
                # Nobody claims it before its queue is resumed.
                is_due = wake_at is None or wake_at <= at or self._has_unbegun()
                log.release("ready" if is_due else "waiting", at if is_due else wake_at)
                return
            if wake_at is None and not (self.driver.awaits_signals or log.history.children.any_open):
                log.park(NOTHING_TO_WAIT_FOR)
                return
            if log.history.children.any_open and at < (until := self._stays_until(at)):
                wake_at = until if wake_at is None else min(wake_at, until)
            if wake_at is None or not (self._is_brief(wake_at - at) and (self._keep_in_memory(self) or wake_at <= at)):
                wake_at = self.next_wake()
                log.release("waiting", wake_at)
                return
        # Whatever is due during a pause waits until the flow is resumed.
        if wake_at is not None and wake_at < self.alarm.when and not held:
            self.alarm.set(wake_at)

    def _stays_until(self, at: float) -> float:
        """Until when a flow that waits for children stays in memory: others of them may end any moment."""
        if self._rests_since[0] != self.log.seq:
            self._rests_since = (self.log.seq, at)
        return self._rests_since[1] + SHORT_WAIT

    def _is_brief(self, wait: float) -> bool:
        # One in line for its dependency may have its turn any time.
        return wait <= SHORT_WAIT or bool(self.starter.in_line)

    def _has_unbegun(self) -> bool:
        """Whether commands or items would have begun but for a pause: no timer is set for them."""
        items, retries = self.log.history.items.values(), self.timers.retries
        return self.driver.has_more or any(
            item.state == "queued" or (item.state == "waiting" and item.number not in retries) for item in items
        )

    def next_wake(self) -> float | None:
        """When the flow goes on by itself; None when no timer is set."""
        first = self.timers.first()
        if not self.has_begun:
            first = min(first, self.log.record.start_at)
        if self.lookups:
            # Its next owner looks up the same.
            return self.log.now()
        return None if first == math.inf else first
