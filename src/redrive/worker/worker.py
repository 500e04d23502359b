"""A worker: claims flows, carries out their attempts, writes down what happens, and hands over when it must."""

import asyncio
import functools
import logging
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from redrive.calls.scope import CURRENT, UNOWNED
from redrive.client.eager_start import OwnStarts
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.errors import UnknownDefinitionError
from redrive.failures.failure import Failure
from redrive.failures.redaction import redact
from redrive.failures.traces import trace_of
from redrive.flows.action import Place
from redrive.flows.asks import ItemAsk
from redrive.flows.events import AnyEvent, AttemptFailed, FlowFailed, ItemGaveUp
from redrive.flows.history import Item
from redrive.flows.registry import known_definitions
from redrive.flows.values import NOT_READ
from redrive.resilience.dependencies import Dependencies
from redrive.runners.attempt import Attempt
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.stores.records import Lease, Message, NewWorker
from redrive.worker.attempt_outcomes import failure_from
from redrive.worker.attempt_starts import AttemptStarts
from redrive.worker.claimer import Claims
from redrive.worker.dead_letters import dead_letter
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.flow_run import FlowRun
from redrive.worker.held_lease import HeldLease
from redrive.worker.housekeeping import keep_lease, prune_finished, take_over
from redrive.worker.inbox import deliver
from redrive.worker.journal import Journal, patiently
from redrive.worker.owned_flow import OwnedFlow
from redrive.worker.recovery.mid_replay import HalfReplayed
from redrive.worker.recovery.rebuild import Rebuilding
from redrive.worker.recovery.replay import cannot_go_on
from redrive.worker.running_attempts import UnderWay
from redrive.worker.settings import WorkerSettings
from redrive.worker.shutdown import hand_over, leave
from redrive.worker.slots import Places
from redrive.worker.store_outages import store_is_back
from redrive.worker.telemetry import tell_attempt_failed, tell_flow_ended
from redrive.worker.timer_queue import Alarms
from redrive.worker.unsupported_flows import HandingOn

log = logging.getLogger("redrive")


class Worker:
    """Works from `run()` until `stop()`; LeaseLostError ends it when it may no longer write."""

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings | None = None,
        on_ended: Callable[[str, AnyEvent], None] | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        """`on_ended` is told of each flow that ends here, once that is durable. `dependencies`: as they are known."""
        self.store = store
        self.settings = settings or WorkerSettings()
        self.clock = current_clock()
        self.dice = current_dice()
        self.now, self.monotonic = self.clock.wall, self.clock.monotonic
        self.runs: dict[str, FlowRun] = {}
        self.idle: OrderedDict[str, FlowRun] = OrderedDict()
        """Those of the runs that wait for a little, the one unused for longest first."""
        self.half_replayed = HalfReplayed(self.runs)
        self.lease: Lease | None = None
        self.joined = asyncio.Event()
        most = self.settings
        self.places = Places({"loop": most.concurrency, "thread": most.threads, "process": most.processes})
        self.guard = DependencyGuard(self.dice, dependencies)
        self.alarms = Alarms(self.clock)
        self.runner = Runner(self, self.settings.threads, self.settings.processes, self.settings.http)
        self.journal: Journal
        self.own_starts: OwnStarts
        self.stopping = asyncio.Event()
        self.claims = Claims(self)
        self._mail = asyncio.Event()
        self._on_ended = on_ended
        self.under_way = UnderWay(self.places, self.guard, lambda attempt: self.runner.cancel(attempt), self.monotonic)
        self._after_mail: list[Callable[[], None]] = []
        self.rebuilding = Rebuilding(self)
        self.handing_on = HandingOn(self)

    # Its life

    async def run(self) -> None:
        """Work until told to stop, then hand over."""
        # Guarded calls in a flow's code must ask for the flow's clock.
        CURRENT.set(UNOWNED)
        name, queues = f"{socket.gethostname()}:{os.getpid()}", self.settings.queues
        new = NewWorker(name=name, definitions=known_definitions(), queues=queues)
        await self._join(new)
        if self.lease is None:
            return
        self.own_starts = OwnStarts(self)
        held = HeldLease(self.lease, self.settings.lease)
        self.journal = Journal(self.store, held, self.own_starts.refuse, self._nothing_is_kept_of)
        stop_listening = self.store.on_wake(self._woken)
        tasks = [
            self._task(self.journal.run()),
            self._task(keep_lease(self.store, held)),
            self._task(self.claims.run()),
            self._task(self._reading_mail()),
            self._task(self.journal.follow()),
            self._task(take_over(self.store, self.settings, self._woken)),
        ]
        if self.settings.keep_finished is not None:
            tasks.append(self._task(prune_finished(self.store, self.settings.keep_finished, self.now)))
        stopping = self._task(self.stopping.wait())
        self.joined.set()
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not any(task.done() for task in tasks):
                self.claims.caught_up = False
                journal, keeper, claiming, mail = tasks[:4]
                claiming.cancel()
                mail.cancel()
                await hand_over(self, journal, keeper)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            stop_listening()
            self.claims.caught_up = False
            for task in (*tasks, stopping):
                task.cancel()
            try:
                await asyncio.wait([*tasks, stopping])
                await self._let_go()
                await leave(self.store, held)
            finally:
                # Whoever started a flow here is answered, whatever went wrong.
                self.own_starts.close()

    async def _join(self, new: NewWorker) -> None:
        """Without a lease when it is told to stop while the store is away: it has nothing to hand over."""
        joining = self._task(patiently(self.store, self.store.join, new, self.settings.lease))
        stopping = self._task(self.stopping.wait())
        try:
            await asyncio.wait([joining, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not joining.cancel() and joining.exception() is None:
                self.lease = joining.result()
                store_is_back(self.store.address)
        if joining.done():
            joining.result()

    def stop(self) -> None:
        """Claim nothing more, let running attempts end, and hand over."""
        self.stopping.set()

    def _task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(work)

    async def _let_go(self) -> None:
        self.alarms.close()
        await self.rebuilding.close()
        await self.runner.close()
        self.guard.let_go(self.monotonic())
        for run in self.runs.values():
            run.released = True
            run.driver.discard()
        self.runs.clear()
        self.idle.clear()

    # Mail

    def _woken(self) -> None:
        self.claims.wake()
        self._mail.set()

    async def _reading_mail(self) -> None:
        assert self.lease is not None  # noqa: S101 - it was made when the worker began
        loop = asyncio.get_running_loop()
        while True:
            poll = loop.call_later(self.settings.poll, self._mail.set)
            await self._mail.wait()
            poll.cancel()
            self._mail.clear()
            if not self.runs:
                continue
            calls, self._after_mail = self._after_mail, []
            messages = await patiently(self.store, self.store.read_mail, self.lease)
            for message in messages:
                run = self.runs.get(message.flow_id)
                if run is not None and not run.released and message.id not in run.mail_taken:
                    try:
                        deliver(run, message)
                    except Exception as error:  # noqa: BLE001 - one flow's trouble is not another's
                        self.set_aside(run, error, [message])
            for call in calls:
                try:
                    call()
                except Exception as error:  # noqa: BLE001 - as above
                    log.error("what was to follow the mail failed; the worker goes on\n%s", trace_of(error))

    # What runs ask of their worker

    def queue_for_place(self, run: AttemptStarts, item: int) -> None:
        place = run.driver.place(run.history.items[item].step)
        self.places.line_up(place, lambda: run.place_found(item, place))

    def after_mail(self, call: Callable[[], None]) -> None:
        self._after_mail.append(call)
        self._mail.set()

    def hand_on(self, run: FlowRun, missing: Sequence[str], has_mail: bool) -> None:
        self.handing_on.hand_on(run, missing, has_mail)

    def rebuild(self, run: FlowRun) -> None:
        self.rebuilding.begin(run)

    def begin(self, run: AttemptStarts, item: Item, place: Place, ask: ItemAsk | None = None) -> None:
        delivery = item.delivery
        if run.released or item.state != "running" or delivery is None:
            self.guard.ignored((run.id, item.number), self.monotonic())
            self.places.free(place)
            return
        timeout = None if item.timeout_at is None else max(0.001, item.timeout_at - item.attempt_began)
        self.idle.pop(run.id, None)
        attempt = Attempt(
            flow_id=run.id,
            item=item.number,
            step=item.step,
            number=item.attempt,
            delivery_token=delivery,
            policy=item.known_policy or item.policy,
            timeout=timeout,
            timeout_at=item.timeout_at,
            details=item.details,
            on_beat=self.rebuilding.beat,
            place=place,
        )
        self.under_way.begin(attempt)
        try:
            handler = run.driver.handler(item.step)
        except UnknownDefinitionError as error:
            self.failed(attempt, error, poison=True)
            return
        values = ask.values if ask is not None else None
        self.runner.start(handler, attempt, bytes(item.args).decode() if values is None else values)

    def wake_at(self, when: float, run: FlowRun) -> None:
        def call() -> None:
            self.idle.pop(run.id, None)
            try:
                run.ring()
            except Exception as error:  # noqa: BLE001 - one flow's trouble is not another's
                self.set_aside(run, error)

        if run.alarm is not None:
            self.alarms.take_back(run.alarm)
        run.alarm = self.alarms.at(when, call)

    def look_for_flows_at(self, when: float) -> None:
        self.claims.look_again_at(when)

    def attempt_failed(self, run: FlowRun, item: Item, event: AttemptFailed | ItemGaveUp) -> None:
        tell_attempt_failed(run, item, event)

    def ended(self, run: OwnedFlow, event: AnyEvent) -> None:
        if isinstance(event, FlowFailed):
            self.journal.batch.dead.append(dead_letter(run, event))
        self.journal.then(self._tell_ended, run, event)

    def _tell_ended(self, run: OwnedFlow, event: AnyEvent) -> None:
        if run.is_stored:
            tell_flow_ended(run, event)
            if self._on_ended is not None:
                self._on_ended(run.id, event)

    def has(self, flow_id: str) -> bool:
        """Whether it works on the flow, and will tell when that ends."""
        run = self.runs.get(flow_id)
        return run is not None and not run.released

    def forget(self, run: OwnedFlow) -> None:
        if self.runs.get(run.id) is run:
            del self.runs[run.id]
            # Else it is the next run of the same flow that waits there.
            self.idle.pop(run.id, None)
        run.driver.discard()
        if run.alarm is not None:
            self.alarms.take_back(run.alarm)
        self.claims.flow_ended()

    def set_aside(self, run: FlowRun, error: BaseException, mail: Sequence[Message] = ()) -> None:
        """The engine itself failed on this flow, or on this mail for it: park it as its log has it.

        Where nothing can be written, leave it for whoever comes after this lease.
        """
        if run.is_stored and (run.released or self._parked(run, error, mail)):
            log.error("flow %s: the engine failed\n%s", run.id, trace_of(error))
            return
        left_alone = "flow %s: the engine failed; the flow is left alone until this worker ends\n%s"
        log.error(left_alone, run.id, trace_of(error))
        run.released = True
        run.driver.discard()
        self.runs.pop(run.id, None)
        self.idle.pop(run.id, None)

    def _parked(self, run: FlowRun, error: BaseException, mail: Sequence[Message]) -> bool:
        problem = f"the engine failed on it: {redact(repr(error), 500)}; its worker's log says where"
        try:
            run.leave_line()
            self.under_way.stop_all_but(run.id, ())
            # Half a turn: with that in its log it could never be replayed.
            run.take_back()
            cannot_go_on(run, [], problem, [one for one in mail if one.id not in run.mail_taken])
        except Exception as failed:  # noqa: BLE001 - it is left alone then
            log.error("flow %s could not be parked\n%s", run.id, trace_of(failed))
        return run.released

    def _nothing_is_kept_of(self, flow_id: str, error: BaseException) -> None:
        run = self.runs.get(flow_id) or self.half_replayed.get(flow_id)
        if run is None:
            log.error("flow %s: the store refuses what was written of it\n%s", flow_id, trace_of(error))
        else:
            run.is_stored = False
            self.set_aside(run, error)

    def keeps_idle(self, run: FlowRun) -> bool:
        if self.places.closed:
            return False
        self.idle[run.id] = run
        self.idle.move_to_end(run.id)
        while len(self.runs) > self.settings.flows and self.idle:
            _, oldest = self.idle.popitem(last=False)
            if oldest is run:
                return False
            if not oldest.active and not oldest.released:
                oldest.release("waiting", oldest.next_wake())
        return True

    # What the runner reports

    def succeeded(self, attempt: Attempt, result: str, read: Any = NOT_READ) -> None:
        if (held := self.rebuilding.held.get(attempt.flow_id)) is not None:
            held.append(functools.partial(self.succeeded, attempt, result, read))
            return
        run = self._over(attempt)
        if run is not None:
            try:
                run.succeeded(attempt.item, attempt.delivery_token, result, read)
            except Exception as error:  # noqa: BLE001 - one flow's trouble is not another's
                self.set_aside(run, error)

    def accepted(self, attempt: Attempt) -> None:
        if (held := self.rebuilding.held.get(attempt.flow_id)) is not None:
            held.append(functools.partial(self.accepted, attempt))
            return
        run = self._over(attempt)
        if run is not None:
            try:
                run.accepted(attempt.item, attempt.delivery_token)
            except Exception as error:  # noqa: BLE001 - one flow's trouble is not another's
                self.set_aside(run, error)

    def failed(
        self,
        attempt: Attempt,
        error: BaseException,
        *,
        timed_out: bool = False,
        poison: bool = False,
        failure: Failure | None = None,
    ) -> None:
        if (held := self.rebuilding.held.get(attempt.flow_id)) is not None:
            report = functools.partial(self.failed, timed_out=timed_out, poison=poison, failure=failure)
            held.append(functools.partial(report, attempt, error))
            return
        try:
            failure = failure or failure_from(error, self.now(), timed_out=timed_out, poison=poison)
        except Exception as trouble:  # noqa: BLE001 - it cannot be looked at, and ends the attempt all the same
            if (run := self._over(attempt, failure_from(trouble, self.now(), poison=True))) is not None:
                self.set_aside(run, trouble)
            return
        run = self._over(attempt, failure)
        if run is not None:
            try:
                run.failed(attempt.item, attempt.delivery_token, error, failure)
            except Exception as trouble:  # noqa: BLE001 - one flow's trouble is not another's
                self.set_aside(run, trouble)

    def _over(self, attempt: Attempt, failure: Failure | None = None) -> FlowRun | None:
        return self.runs.get(attempt.flow_id) if self.under_way.end(attempt, failure) else None
