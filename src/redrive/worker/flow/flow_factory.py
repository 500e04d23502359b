"""Compose a flow's parts from the collaborators that all flows of a worker share."""

from collections.abc import Callable, Container

from redrive.determinism.clock import Clock
from redrive.determinism.dice import Dice
from redrive.flows.drivers import driver_for
from redrive.stores.records import FlowRecord
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.flow.attempt_dispatcher import AttemptDispatcher
from redrive.worker.flow.attempt_lifecycle import AttemptLifecycle
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.flow.command_handler import CommandHandler, Ending
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.flow_timers import FlowTimers
from redrive.worker.flow.policy_in_force import DefaultPolicies, PoliciesOfFlows
from redrive.worker.flow.report_gate import AfterInbox, ReportGate
from redrive.worker.flow.signals import Signals
from redrive.worker.journal import Journal
from redrive.worker.slots import ExecutionSlots
from redrive.worker.timer_queue import Alarm, TimerQueue
from redrive.worker.version_pins import VersionPins


class FlowFactory:
    def __init__(
        self,
        *,
        clock: Clock,
        dice: Dice,
        journal: Journal,
        slots: ExecutionSlots,
        guard: DependencyGuard,
        dispatcher: AttemptDispatcher,
        timer_queue: TimerQueue,
        on_wake: Callable[[str], None],
        on_released: Callable[[FlowLog, float | None], None],
        on_ended: Callable[[FlowLog, Ending], None],
        keep_in_memory: Callable[[FlowRun], bool],
        after_inbox: AfterInbox,
        default_policies: DefaultPolicies,
        paused_queues: Container[str],
        pins: VersionPins,
    ) -> None:
        """on_wake: called with the flow's id when its alarm goes off. on_released: called once a release is durable."""
        self._clock = clock
        self._dice = dice
        self._journal = journal
        self._slots = slots
        self._guard = guard
        self._dispatcher = dispatcher
        self._timer_queue = timer_queue
        self._on_wake = on_wake
        self._on_released = on_released
        self._on_ended = on_ended
        self._keep_in_memory = keep_in_memory
        self._after_inbox = after_inbox
        self._policies = PoliciesOfFlows(default_policies)
        self._paused_queues = paused_queues
        self._pins = pins

    def create(self, record: FlowRecord) -> FlowRun:
        """UnknownDefinitionError when this process does not know the flow's definition."""
        driver = driver_for(record.definition, record.id, record.input, record.run_from)
        pin = self._pins.of(record.definition)
        log = FlowLog(record, self._journal, self._clock.wall, self._on_released, self._paused_queues, pin)
        alarm = Alarm(self._timer_queue, record.id, self._on_wake)
        timers = FlowTimers(log, driver)
        starter = AttemptStarter(
            log,
            driver,
            timers,
            self._slots,
            self._guard,
            self._dispatcher,
            alarm,
            self._clock.monotonic,
            self._policies.for_flow(record.definition, record.queue),
        )
        commands = CommandHandler(log, driver, timers, starter, self._slots, self._on_ended)
        reports = ReportGate(log, driver, starter, alarm, self._after_inbox)
        attempts = AttemptLifecycle(log, driver, timers, starter, commands, reports, self._slots, self._dice)
        signals = Signals(log, driver, commands)
        return FlowRun(log, driver, timers, starter, commands, attempts, signals, alarm, self._keep_in_memory)
