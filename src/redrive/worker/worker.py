"""A worker: claims flows, runs their attempts, logs what happens, and releases the flows when it stops."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from redrive.calls.scope import CURRENT, UNOWNED
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.dice import current_dice
from redrive.errors import LeaseLostError, StoreError
from redrive.failures.traces import trace_of
from redrive.flows.events import AnyEvent, FlowFailed
from redrive.flows.registry import known_definitions
from redrive.resilience.dependencies import Dependencies
from redrive.runners.attempt import Attempt
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import NewFlow
from redrive.telemetry.logs import log_flow
from redrive.worker.activity import outcome_of
from redrive.worker.child_lookup import ChildLookup
from redrive.worker.claimer import Claimer
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.eager_start import EagerStart
from redrive.worker.flow.attempt_dispatcher import AttemptDispatcher
from redrive.worker.flow.command_handler import Ending
from redrive.worker.flow.dead_letters import dead_letter
from redrive.worker.flow.flow_factory import FlowFactory
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_telemetry import report_flow_failed
from redrive.worker.flow.policy_in_force import DefaultPolicies
from redrive.worker.flow.work_reports import report_flow
from redrive.worker.flow_table import FlowTable
from redrive.worker.heartbeats import Heartbeats
from redrive.worker.inbox import Inbox
from redrive.worker.inbox_reader import InboxReader
from redrive.worker.internal_errors import FaultHandler, OnFault
from redrive.worker.journal import Journal
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.maintenance.lease_keeper import keep_lease
from redrive.worker.maintenance.lease_thread import LeaseThread
from redrive.worker.maintenance.loop_watchdog import Holder
from redrive.worker.maintenance.ticker import Ticker
from redrive.worker.maintenance.upkeep import upkeep
from redrive.worker.make_runner import MakeRunner, make_runner
from redrive.worker.outcome_router import OutcomeRouter
from redrive.worker.paused_queues import PausedQueues
from redrive.worker.recovery.chunked_replay import ChunkedReplay
from redrive.worker.recovery.evidence import read_evidence
from redrive.worker.recovery.flow_loader import FlowLoader
from redrive.worker.recovery.rebuild import Rebuilder
from redrive.worker.recovery.replay import Replayer
from redrive.worker.reporter import Reporter
from redrive.worker.settings import WorkerSettings
from redrive.worker.shutdown import Shutdown, release_lease, send_counts
from redrive.worker.slots import ExecutionSlots
from redrive.worker.store_outages import log_recovery
from redrive.worker.store_retries import retry_until_available
from redrive.worker.timer_queue import TimerQueue
from redrive.worker.unsupported_flows import UnsupportedFlows
from redrive.worker.version_pins import VersionPins


class Worker:
    """Works from `run()` until `stop()`. LeaseLostError ends it when it may no longer write."""

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings | None = None,
        on_ended: Callable[[str, AnyEvent], None] | None = None,
        dependencies: Dependencies | None = None,
        *,
        runner: MakeRunner = make_runner,
        on_fault: OnFault | None = None,
        after_lost_lease: bool = False,
    ) -> None:
        """on_ended: called with each flow that ends here, once that is durable.

        dependencies: circuits and budgets that outlive this worker.
        runner, on_fault: for tests, which watch attempts and faults of the engine.
        after_lost_lease: whether it replaces a worker of this process that lost its lease.
        """
        self.store = store
        self.settings = settings or WorkerSettings()
        self.clock = current_clock()
        self.dice = current_dice()
        self.flows = FlowTable(self.settings.flows)
        self.lease: Lease | None = None
        self._held_lease: HeldLease | None = None
        self._after_lost_lease = after_lost_lease
        self.joined = asyncio.Event()
        self.stopping = asyncio.Event()
        limits = self.settings
        self.guard = DependencyGuard(
            self.dice,
            dependencies,
            monotonic=self.clock.monotonic,
            alarm=self.clock.alarm,
            # What waits for one dependency leaves room for other flows.
            most_in_line=max(1, limits.flows // 2),
        )
        self.slots = ExecutionSlots(
            {"loop": limits.concurrency, "thread": limits.threads, "process": limits.processes, "alone": 1},
            self._clear,
            self.guard,
            self._cancel,
            self.clock.monotonic,
            self._flow_failed,
        )
        self.timers = TimerQueue(self.clock)
        self.ticker = Ticker(store, self.clock, self.timers, limits.poll, self._woken)
        self.faults = FaultHandler(self.flows, self.slots, on_fault)
        self.paused_queues = PausedQueues(self.flows, self.faults)
        self.chunked_replay = ChunkedReplay(self.flows)
        self._held_reports: dict[str, list[Callable[[], None]]] = {}
        self.outcomes = OutcomeRouter(self.flows, self.slots, self.faults, self._held_reports)
        self._make_runner = runner
        self._on_ended = on_ended
        # The others need the lease.
        self.runner: Runner
        self.journal: Journal
        self.claimer: Claimer
        self.inbox_reader: InboxReader
        self.rebuilder: Rebuilder
        self.eager_start: EagerStart
        self.reporter: Reporter
        self.child_lookup: ChildLookup

    # From its start to its end

    async def run(self) -> None:
        """Work until `stop()`, then release all flows."""
        # Guarded calls in a flow's code must use the flow's clock.
        CURRENT.set(UNOWNED)
        held = await self._join()
        if held is None:
            return
        self._held_lease = held
        self._assemble(held.lease, held)
        stop_listening = self.store.on_wake(self._woken)
        journal, keeper = _task(self.journal.run()), _task(self._keep(held))
        claimer, inbox = _task(self.claimer.run()), _task(self.inbox_reader.run())
        tasks = [
            journal,
            keeper,
            claimer,
            inbox,
            _task(self.journal.run_callbacks()),
            _task(self.reporter.run()),
            _task(self.ticker.run()),
            *map(_task, upkeep(self.store, self.settings, held.lease.worker, self._woken, self.clock.wall)),
        ]
        stopping = _task(self.stopping.wait())
        self.joined.set()
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not any(task.done() for task in tasks):
                claimer.cancel()
                inbox.cancel()
                await self._shut_down(journal, keeper)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        except LeaseLostError:
            held.is_lost = True
            raise
        finally:
            stop_listening()
            self.claimer.caught_up = False
            for task in (*tasks, stopping):
                task.cancel()
            try:
                await asyncio.wait([*tasks, stopping])
                await self._close()
                await send_counts(self.reporter, held)
                await release_lease(self.store, held)
            finally:
                # Also when that was interrupted: code of flows that the garbage collector closes runs outside of them.
                self.flows.clear()
                # Callers waiting in start_eagerly get an answer, whatever went wrong.
                self.eager_start.close()

    def stop(self) -> None:
        """Claim nothing more, let running attempts finish, and release all flows."""
        self.stopping.set()

    def has(self, flow_id: str) -> bool:
        """Whether the flow is in memory, so that this worker will report its end."""
        run = self.flows.by_id.get(flow_id)
        return run is not None and not run.log.released

    @property
    def caught_up(self) -> bool:
        """Whether this worker has everything that it could claim, and room for more."""
        return self.joined.is_set() and self.claimer.caught_up

    @property
    def trouble(self) -> str | None:
        """Why this worker takes no work now, in one line; None when it does."""
        if self.stopping.is_set():
            return "the worker is shutting down"
        if self._held_lease is None or not self.joined.is_set():
            return f"the worker {'lost its lease and has no other' if self._after_lost_lease else 'has no lease'} yet"
        return None if self._held_lease.may_call() else "the worker has lost its lease"

    async def start_eagerly(self, flow: NewFlow) -> bool | None:
        """Add a flow and begin it here. False when it must be added in another way; None when that is unknown."""
        return await self.eager_start.add(flow) if self.caught_up else False

    async def _join(self) -> HeldLease | None:
        """Acquire the lease; None when `stop()` is called while the store is unavailable."""

        async def acquire(new: NewWorker, seconds: float) -> HeldLease:
            asked = SYSTEM_CLOCK.monotonic()
            return HeldLease(await self.store.acquire_lease(new, seconds), seconds, asked)

        name, queues = f"{socket.gethostname()}:{os.getpid()}", self.settings.queues
        new = NewWorker(name=name, definitions=known_definitions(), queues=queues, version=self.settings.version)
        joining = _task(retry_until_available(self.store, acquire, new, self.settings.lease))
        stopping = _task(self.stopping.wait())
        held: HeldLease | None = None
        try:
            await asyncio.wait([joining, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not joining.cancel() and joining.exception() is None:
                joined: HeldLease = joining.result()
                held, self.lease = joined, joined.lease
                log_recovery(self.store.address)
        if joining.done():
            joining.result()
        return held

    def _keep(self, held: HeldLease) -> Coroutine[Any, Any, None]:
        """Keep the lease, from a thread. On a virtual clock, where nothing takes long, the loop itself does."""
        if self.clock is SYSTEM_CLOCK:
            return LeaseThread(self.store, held, self._blame_of).run()
        return keep_lease(self.store, self.store.address, held)

    def _blame_of(self, holder: Holder) -> str | None:
        """What to note against a flow that holds the loop. Called in the lease thread."""
        run = self.flows.by_id.get(holder.flow_id or "") or self.chunked_replay.get(holder.flow_id or "")
        evidence = read_evidence(run.log.known_blame) if run is not None else None
        return None if evidence is None else evidence.held_loop(holder.item, str(holder)).write()

    def _assemble(self, lease: Lease, held: HeldLease) -> None:
        """Build the parts that need the lease, and hand each its collaborators."""
        store, settings, clock = self.store, self.settings, self.clock
        flows, slots, faults, timers = self.flows, self.slots, self.faults, self.timers
        journal = self.journal = Journal(store, held, lambda new: self.eager_start.refuse(new), self._rows_refused)
        heartbeats = Heartbeats(flows.by_id.get)
        unsupported = UnsupportedFlows(journal, flows, timers, clock.wall)
        self.runner = self._make_runner(self.outcomes, settings, held.may_call)
        dispatcher = AttemptDispatcher(self.runner, slots, self.outcomes, heartbeats.beat)
        self.child_lookup = ChildLookup(store, journal, flows, faults)
        inbox = Inbox(rebuild=lambda run: self.rebuilder.begin(run), look_up_children=self.child_lookup.begin)
        self.inbox_reader = InboxReader(store, lease, flows, inbox, faults, settings.poll)
        factory = FlowFactory(
            clock=clock,
            dice=self.dice,
            journal=journal,
            slots=slots,
            guard=self.guard,
            dispatcher=dispatcher,
            timer_queue=timers,
            on_wake=self._wake_flow,
            on_released=self._flow_released,
            on_ended=self._flow_ended,
            keep_in_memory=flows.keep,
            after_inbox=self.inbox_reader.after,
            default_policies=DefaultPolicies(settings.by_definition, settings.by_queue, settings.default),
            paused_queues=self.paused_queues.names,
            pins=(pins := VersionPins(settings.version, settings.pin)),
        )
        replayer = Replayer(inbox, slots, unsupported.release)
        replay, held_reports = (replayer, self.chunked_replay, faults), self._held_reports
        self.rebuilder = Rebuilder(
            store, lease, clock, journal, flows, factory, slots, heartbeats, *replay, held_reports
        )
        claimed = FlowLoader(store, held, clock.wall, self.dice, journal, flows, factory, *replay, unsupported.leave)
        paused = self.paused_queues
        self.claimer = Claimer(
            store, lease, settings, clock, flows, slots, timers, claimed.load, unsupported.claim_time, paused.update
        )
        self.reporter = Reporter(store, held, slots, self.guard, flows, journal.activity, clock.wall, clock.monotonic)
        flows.on_removed = self.claimer.flow_removed
        self.eager_start = EagerStart(
            lease, settings, journal, flows, slots, self.claimer, claimed.begin, paused.names, pins
        )

    async def _shut_down(self, journal: "asyncio.Task[Any]", keeper: "asyncio.Task[Any]") -> None:
        self.claimer.caught_up = False
        self.slots.closed = self.flows.closed = True
        await self.rebuilder.close()
        await self.child_lookup.close()
        shutdown = Shutdown(
            self.store,
            self.settings,
            self.journal,
            self.runner,
            self.flows,
            self.slots,
            self.inbox_reader.read,
            self.clock.wall,
        )
        await shutdown.run(journal, keeper)

    async def _close(self) -> None:
        self.timers.close()
        await self.rebuilder.close()
        await self.child_lookup.close()
        await self.runner.close()
        self.guard.release_all(self.clock.monotonic())
        self.flows.clear()

    # What the parts report

    def _cancel(self, attempt: Attempt) -> None:
        self.runner.cancel(attempt)

    def _clear(self, attempt: Attempt) -> None:
        """An attempt has run alone for so long that the next suspect may begin."""
        run = self.flows.by_id.get(attempt.flow_id)
        if run is not None:
            run.attempts.clear(attempt, self.slots.end_alone)

    def _woken(self) -> None:
        """The store calls: there may be flows to claim, or messages."""
        self.claimer.wake()
        self.inbox_reader.wake()

    def _wake_flow(self, flow_id: str) -> None:
        run = self.flows.by_id.get(flow_id)
        if run is None:
            return
        self.flows.mark_busy(flow_id)
        try:
            run.wake()
        except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
            self.faults.engine_failed(run, error)

    def _flow_failed(self, flow_id: str, error: Exception) -> None:
        run = self.flows.by_id.get(flow_id)
        if run is not None:
            self.faults.engine_failed(run, error)

    def _flow_released(self, flow_log: FlowLog, wake_at: float | None) -> None:
        self.flows.remove_released(flow_log)
        if wake_at is not None:
            # Not every store tells its own worker when the flow wakes.
            self.claimer.claim_at(wake_at)

    def _flow_ended(self, flow_log: FlowLog, event: Ending) -> None:
        at, record = flow_log.last_at, flow_log.record
        flow_log.count(at, outcome_of(event), seconds=at - record.created_at)
        if isinstance(event, FlowFailed):
            run = self.flows.by_id.get(flow_log.flow_id)
            dependency_of = None if run is None else run.starter.dependency_of
            letter = dead_letter(record, flow_log.history.items, event, at, dependency_of)
            self.journal.batch.dead.append(letter)
        self.journal.when_durable(flow_log.flow_id, self._report_ended, flow_log, event)

    def _report_ended(self, flow_log: FlowLog, event: Ending) -> None:
        if flow_log.is_stored:
            if isinstance(event, FlowFailed):
                report_flow_failed(flow_log.record, flow_log.history.items, event)
            report_flow(flow_log, event, flow_log.last_at)
            self.ticker.flows_ended([flow_log.flow_id])
            if self._on_ended is not None:
                self._on_ended(flow_log.flow_id, event)

    def _rows_refused(self, flow_id: str, error: StoreError) -> None:
        """The store refused a flow's rows: drop the flow, since its log would have a gap."""
        run = self.flows.by_id.get(flow_id) or self.chunked_replay.get(flow_id)
        if run is None:
            log_flow(logging.ERROR, flow_id, "the store refused its rows\n%s", trace_of(error))
        else:
            run.log.is_stored = False
            self.faults.engine_failed(run, error)


def _task(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work)
