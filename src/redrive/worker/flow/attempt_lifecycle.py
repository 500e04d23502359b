"""What each outcome of an attempt leads to: the story of an attempt from its end to the next one's start.

Everything here happens between two awaits. Events go into the journal's next transaction; whatever must not happen
before they are durable is left to the journal.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from redrive.determinism.dice import Dice
from redrive.errors import AttemptTimeoutError, CircuitOpenError, Snooze
from redrive.failures.failure import Failure
from redrive.failures.matching import lineage
from redrive.flows.driver import Driver
from redrive.flows.errors.error_details import kept_text
from redrive.flows.errors.item_error import item_error
from redrive.flows.errors.stored_error import StoredError, rebuild_error, store_error
from redrive.flows.events import (
    AttemptAccepted,
    AttemptCleared,
    AttemptFailed,
    AttemptReturned,
    CompletionRefused,
    ItemCompleted,
    ItemGaveUp,
)
from redrive.flows.item import Item
from redrive.flows.messages import CompleteItem, Completion, ResolveItem
from redrive.flows.values.signature import NOT_READ
from redrive.policies.decide import decide
from redrive.policies.decision import CLEAR, Conditions, Decision, RetryAt
from redrive.policies.policy import Policy
from redrive.runners.attempt import Attempt
from redrive.stores.activity import ActivityOutcome
from redrive.telemetry.events import Event
from redrive.telemetry.stream import emit
from redrive.worker.flow.attempt_failures import classify, gave_up_at_deadline, lost_attempt, snooze_seconds
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.flow.command_handler import CommandHandler
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_telemetry import attempt_failed_event
from redrive.worker.flow.flow_timers import FlowTimers
from redrive.worker.flow.report_gate import ReportGate
from redrive.worker.flow.work_reports import report_attempt, report_item
from redrive.worker.slots import ExecutionSlots

UNWANTED = Conditions(wanted=False)


class AttemptLifecycle:
    __slots__ = ("_commands", "_dice", "_driver", "_log", "_reports", "_slots", "_starter", "_steps", "_timers")

    def __init__(
        self,
        log: FlowLog,
        driver: Driver,
        timers: FlowTimers,
        starter: AttemptStarter,
        commands: CommandHandler,
        reports: ReportGate,
        slots: ExecutionSlots,
        dice: Dice,
    ) -> None:
        self._log = log
        self._driver = driver
        self._timers = timers
        self._starter = starter
        self._commands = commands
        self._reports = reports
        self._slots = slots
        self._dice = dice
        # A graph checks outputs and may no longer need an item; plain actions do neither.
        self._steps = None if not driver.has_steps else driver

    # Outcomes that the runner reports

    def attempt_failed(
        self,
        attempt: Attempt,
        error: BaseException,
        failure: Failure | None,
        timed_out: bool,
        poison: bool,
    ) -> float:
        """Classify the error, tell the circuit, handle the failure, and free the slot last. Returns the flow's time."""
        at = self._log.now()
        failure = failure or classify(error, at, timed_out=timed_out, poison=poison)
        if self._slots.finish(attempt, failure):
            try:
                item = self._awaiting(attempt.item, attempt.delivery_token)
                if item is not None and self._steps is not None and self._reports.is_for(item):
                    self._reports.close(item, partial(self._fail_unreported, error, failure))
                elif item is not None:
                    self._starter.active -= 1
                    self.fail(item, error, failure, at)
            finally:
                self._slots.free(attempt)
        return at

    def attempt_succeeded(self, attempt: Attempt, result: str, read: Any) -> float:
        """`read`: the decoded result, where it is known already. Returns the flow's time."""
        finished = self._slots.finish(attempt)
        if finished:
            # Freed first, so that the flow's next item can have the slot. Another item may begin in it now.
            self._slots.free(attempt)
        at = self._log.now()
        item = self._awaiting(attempt.item, attempt.delivery_token) if finished else None
        if item is not None and self._steps is not None and self._reports.is_for(item):
            self._reports.close(item, partial(self._complete_unreported, result, attempt.http_status))
        elif item is not None:
            self._starter.active -= 1
            self.complete(item, result, at, read, attempt.http_status)
        return at

    def attempt_accepted(self, attempt: Attempt) -> float:
        """The handler has accepted the work and reports its outcome later. Returns the flow's time."""
        finished = self._slots.finish(attempt)
        if finished:
            self._slots.free(attempt)
        at = self._log.now()
        item = self._awaiting(attempt.item, attempt.delivery_token) if finished else None
        if item is not None:
            self._starter.active -= 1
            self._log.append(at, AttemptAccepted(item=item.number, attempt=item.attempt))
            self.await_callback(item)
        return at

    def clear(self, attempt: Attempt, when_durable: Callable[[Attempt], None]) -> None:
        """Log that the attempt does not run alone any more; then others may begin beside it."""
        item = self._awaiting(attempt.item, attempt.delivery_token)
        if item is not None:
            self._log.append(self._log.now(), AttemptCleared(item=item.number, attempt=item.attempt))
            self._log.journal.when_durable(self._log.flow_id, when_durable, attempt)

    # From a failed attempt to its retry

    def fail(self, item: Item, error: BaseException, failure: Failure, at: float) -> None:
        """Handle a failed attempt: decide, record, report, then schedule the retry or fail the item."""
        log, starter = self._log, self._starter
        so_far = item.retry_history
        assert so_far is not None  # noqa: S101 - an attempt was made
        wanted = self._steps is None or self._steps.awaits_item(item.number)
        may_snooze = wanted and isinstance(error, Snooze | CircuitOpenError)
        snoozed = snooze_seconds(item, error, failure, self._dice) if may_snooze else None
        if snoozed is not None:
            self.return_attempt(item, at, at + snoozed, kept_text(str(error)))
        else:
            decision = decide(item.policy, so_far, failure, at, self._dice, CLEAR if wanted else UNWANTED)
            event = AttemptFailed(
                item=item.number,
                attempt=item.attempt,
                failure=msgspec.structs.replace(failure, error=None, lineage=()),
                error=store_error(error),
                decision=decision,
                details=starter.last_details(item),
            )
            report_attempt(log, self._driver, item, at, "failed", failure)
            log.append(at, event)
            dependency, retried = starter.dependency_of(item), isinstance(decision, RetryAt)
            outcome: ActivityOutcome = "retried" if retried else "gave_up"
            log.count(at, outcome, item.step, dependency or "", at - item.attempt_began)
            self._report(item, event, dependency, at)
            if not isinstance(decision, RetryAt):
                self._fail_item(item, event, at)
            elif decision.when <= at and not log.is_held:
                starter.start(item, at)
            else:
                starter.wait_for_retry(item, decision.when, at)
        if starter.concurrency is not None and item.state != "running" and item.number not in starter.waiting_for_slot:
            # Otherwise its next attempt has begun already, and still counts for its step.
            starter.release_step(item, at)

    def decide_again(self, item: Item, policy: Policy) -> Decision:
        """Decide about the item's last failure under another policy, as of then."""
        last, history = item.failures[-1], item.decided_from
        assert history is not None  # noqa: S101 - a decision about it was made
        history = msgspec.structs.replace(history, started_at=item.started_at or history.started_at)
        # The log has the names of its class with the error alone.
        names = lineage(type(rebuild_error(last.event.error)))
        failure = msgspec.structs.replace(last.event.failure, lineage=names)
        wanted = self._steps is None or self._steps.awaits_item(item.number)
        return decide(policy, history, failure, last.ended, self._dice, CLEAR if wanted else UNWANTED)

    def return_attempt(self, item: Item, at: float, until: float, reason: str) -> None:
        """The attempt does not count; make it again at `until`."""
        details = self._starter.last_details(item)
        report_attempt(self._log, self._driver, item, at, "returned")
        self._log.append(
            at, AttemptReturned(item=item.number, attempt=item.attempt, until=until, reason=reason, details=details)
        )
        self._starter.wait_for_retry(item, until, at)

    def retry(self, number: int, at: float) -> None:
        """A retry is due: begin the next attempt, unless the deadline has passed."""
        self._timers.retries.pop(number, None)
        item = self._log.history.items.get(number)
        if item is None or item.state != "waiting":
            return
        if item.is_past_deadline(at):
            self.give_up(item, gave_up_at_deadline(item, at), at)
        else:
            self._starter.start(item, at)

    def give_up(self, item: Item, event: ItemGaveUp, at: float) -> None:
        """Fail an item that waits, without another attempt."""
        self._log.append(at, event)
        dependency = self._starter.dependency_of(item)
        self._log.count(at, "gave_up", item.step, dependency or "")
        self._report(item, event, dependency, at)
        self._fail_item(item, event, at)

    def _fail_item(self, item: Item, event: AttemptFailed | ItemGaveUp, at: float) -> None:
        report_item(self._log, item, at, "failed", event)
        self._starter.forget(item)
        self._commands.handle(self._driver.failed(item.number, item_error(item, event), at), at)

    def _report(self, item: Item, event: AttemptFailed | ItemGaveUp, dependency: str | None, at: float) -> None:
        """Report the failure once it is durable: otherwise the next owner may report the attempt again, as lost."""
        event_out = attempt_failed_event(self._log.flow_id, item, event, dependency, at)
        self._log.journal.when_durable(self._log.flow_id, _emit_if_stored, self._log, event_out)

    # From a successful attempt to what the definition does next

    def complete(
        self, item: Item, result: str, at: float, read: Any = NOT_READ, http_status: int | None = None
    ) -> None:
        """Record the result and let the definition go on. A result that the graph refuses fails the attempt."""
        if self._steps is not None:
            try:
                result = self._steps.accept(item.number, result)
            except ValueError as error:
                self.fail(item, error, classify(error, at, poison=True), at)
                return
        event = ItemCompleted(item=item.number, attempt=item.attempt, result=msgspec.Raw(result.encode()))
        report_attempt(self._log, self._driver, item, at, "succeeded", status=http_status)
        self._log.append(at, event)
        dependency = self._starter.dependency_of(item)
        self._log.count(at, "succeeded", item.step, dependency or "", at - item.attempt_began)
        report_item(self._log, item, at, "succeeded")
        self._starter.forget(item)
        self._commands.handle(self._driver.completed(item.number, result, at, read), at)
        if self._steps is not None:
            self._starter.release_step(item, at)

    def complete_by_hand(self, item: Item, message: CompleteItem | ResolveItem) -> None:
        """Record the outcome that someone gave an open item: a result, or that it does not matter."""
        at, number = self._log.now(), item.number
        self._commands.stop_item(item)
        resolved = isinstance(message, ResolveItem)
        result = message.result if isinstance(message, CompleteItem) else msgspec.Raw(b"null")
        report_attempt(self._log, self._driver, item, at, "cancelled")
        report_item(self._log, item, at, "succeeded")
        self._log.append(
            at,
            ItemCompleted(
                item=number, attempt=item.attempt, result=result, by=message.by, why=message.why, resolved=resolved
            ),
        )
        self._starter.forget(item)
        if resolved:
            self._commands.handle(self._driver.resolved(number, at), at)
        else:
            self._commands.handle(self._driver.completed(number, bytes(result).decode(), at), at)
        self._starter.release_step(item, at)

    # Accepted attempts, whose outcome is reported later

    def await_callback(self, item: Item) -> None:
        if item.timeout_at is not None:
            self._timers.put_callback(item.number, item.timeout_at)

    def complete_accepted(self, message: Completion) -> None:
        """Apply an outcome that was reported with the delivery token of an attempt."""
        at = self._log.now()
        item = self._awaiting(message.item, message.delivery)
        if item is None:
            known = self._log.history.items.get(message.item)
            if known is None or not known.refused:
                self._log.append(at, CompletionRefused(item=message.item, why="the attempt is not running any more"))
            return
        self._commands.stop_item(item)
        item.accepted = False
        if message.failure is None:
            self.complete(item, bytes(message.outputs).decode(), at)
        else:
            failure = message.failure
            error = rebuild_error(StoredError(type=failure.type, message=failure.message))
            self.fail(item, error, failure, at)

    def expire_callback(self, number: int) -> None:
        """The time of an accepted attempt is over: it has timed out, unless its outcome is in the inbox already."""
        self._timers.callbacks.pop(number, None)
        item = self._log.history.items.get(number)
        if item is not None and item.accepted:
            self._reports.close(item, self._time_out)

    def lose(self, item: Item, blame: str, held_by: str = "") -> None:
        """The worker that made the attempt is gone, and its outcome is unknown unless reported.

        blame: why the attempt itself took its worker down; "" when nothing says so.
        held_by: where the flow's own code blocked the worker until it lost its lease; "" when nothing says so.
        """
        error, failure = lost_attempt(blame, held_by)
        if self._reports.is_for(item):
            self._reports.close(item, partial(self._fail_unreported, error, failure))
        else:
            self._starter.active -= 1
            self.fail(item, error, failure, self._log.now())

    def return_stopped(self, item: Item, reason: str) -> None:
        """The worker stopped the attempt. It does not count, and is made again at once unless its outcome is known."""
        if self._reports.is_for(item):
            self._reports.close(item, partial(self._return_unreported, reason))
        else:
            self._starter.active -= 1
            at = self._log.now()
            self.return_attempt(item, at, at, reason)

    def _time_out(self, item: Item, at: float) -> None:
        error = AttemptTimeoutError((item.timeout_at or 0.0) - item.attempt_began)
        self.fail(item, error, classify(error, at, timed_out=True), at)

    def _fail_unreported(self, error: BaseException, failure: Failure, item: Item, at: float) -> None:
        self.fail(item, error, failure, at)

    def _complete_unreported(self, result: str, http_status: int | None, item: Item, at: float) -> None:
        self.complete(item, result, at, http_status=http_status)

    def _return_unreported(self, reason: str, item: Item, at: float) -> None:
        self.return_attempt(item, at, at, reason)
        self._starter.release_step(item, at)

    def _awaiting(self, number: int, delivery: str) -> Item | None:
        """The item, if it waits for the outcome of the attempt with this token."""
        item = self._log.history.items.get(number)
        if self._log.released or item is None or item.state != "running" or item.delivery != delivery:
            return None
        return item


def _emit_if_stored(log: FlowLog, event: Event) -> None:
    if log.is_stored:
        emit(event)
