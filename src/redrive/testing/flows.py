"""Run flows in tests: in memory, on a virtual clock, with a worker that can be killed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from redrive.assembly import store_at
from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.dice import Dice
from redrive.determinism.ids import ordered_id
from redrive.flows.action import ActionCall, listen_for_unawaited_calls, unknown_actions
from redrive.flows.flow_call import FlowCall
from redrive.flows.stored_inputs import required_actions
from redrive.flows.workflows.workflow import Workflow
from redrive.pipeline.durable import forgetting_pipelines
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, FlowRecord, FlowStatus
from redrive.testing.crash_points import CrashPoint, Side, Witness, watched_worker
from redrive.testing.flow_outcome import FlowOutcome
from redrive.testing.in_context import virtual_clock
from redrive.testing.virtual_clock import VirtualClock, visible_loop
from redrive.worker.settings import WorkerSettings

T = TypeVar("T")

LOOK_AGAIN = 0.001
PATIENCE = 60.0
# Real seconds without any progress after which a flow counts as stalled.
STALLED_AFTER = 10.0
# A turn of the event loop that takes longer (real seconds) was held up.
HELD_UP = 0.1
# A debugger may pause a test for long, and there is no other worker to take over its flows.
LEASE = 3600.0
# A flow that was claimed more often and needs unknown actions has been released because of them.
GIVEN_BACK = 2
AT_REST = (*FINISHED, "parked", "paused")


class FlowApp(App):
    """An App on a virtual clock. Its worker can be killed, and a new one then continues with the same store."""

    def __init__(self, store: Store, clock: VirtualClock, settings: WorkerSettings, same_ids: bool) -> None:
        """`same_ids`: flows have the same ids in every run, and with them the same `workflow.uuid()`."""
        super().__init__(store, True, settings, self._same_id if same_ids else ordered_id)
        self.clock = clock
        self.witness = Witness()
        self._started = 0
        self._point: CrashPoint | None = None
        self._up = asyncio.Event()
        self._up.set()

    def _same_id(self, now: float) -> str:
        self._started += 1
        return f"00000000-0000-7000-8000-{self._started:012}"

    async def kill(self) -> None:
        """Kill the worker as kill -9 would; nothing runs until `revive()`."""
        self._up.clear()
        point, worker = self._point, self._worker
        if point is not None and worker is not None and not point.dead:
            point.dead = True
            point.kill()
        while self._worker is not None:
            await _real_sleep(0.0)

    def revive(self) -> None:
        """Start a new worker, which recovers from the store."""
        self._up.set()

    def crash_at(self, commit: int, side: Side) -> None:
        """Kill the worker right before or right after its n-th commit from now; a new one then continues."""
        self.witness.crash_at = (self.witness.commits + commit, side)

    async def until(self, happened: Callable[[], Any], within: float = PATIENCE) -> None:
        """Wait in real time until a condition is true: `await app.until(lambda: app.witness.executed)`."""
        until = SYSTEM_CLOCK.monotonic() + within
        while not happened():
            self._raise_faults()
            if SYSTEM_CLOCK.monotonic() > until:
                raise AssertionError(f"the condition was still false after {within:g} s")
            await _real_sleep(LOOK_AGAIN)

    async def settled(self, flow: Handle[Any] | str, within: float = PATIENCE) -> FlowStatus:
        """Wait until a flow has ended or is only waiting. Use it while the clock is frozen."""
        flow_id = flow if isinstance(flow, str) else flow.id
        until = SYSTEM_CLOCK.monotonic() + within
        while True:
            record = await self.find(flow_id)
            worker = self._worker
            run = worker.flows.by_id.get(flow_id) if worker is not None else None
            # Durable events may not have been acted on yet.
            if worker is None or not worker.joined.is_set() or worker.journal.is_drained:
                if record.status not in ("ready", "running") and not self._is_due(record):
                    return record.status
                if run is not None and not run.starter.active:
                    return record.status
            until += await self._look_again(flow_id, until)

    async def outcome(self, flow: Handle[Any] | str, within: float | None = None) -> FlowOutcome:
        """Wait until a flow has ended, or is parked or paused, and return its outcome.

        within: real seconds, after which AssertionError is raised with the flow's log. By default a minute, or less
        when the flow makes no progress at all.
        """
        flow_id = flow if isinstance(flow, str) else flow.id
        until = SYSTEM_CLOCK.monotonic() + (PATIENCE if within is None else within)
        seen, stalled_at = self._progress(), SYSTEM_CLOCK.monotonic() + STALLED_AFTER
        while (record := await self._at_rest(flow_id)) is None or record.status not in AT_REST:
            if (
                record is not None
                and record.claims > GIVEN_BACK
                and (missing := unknown_actions(required_actions(record.definition, record.input)))
            ):
                raise AssertionError(f"the flow needs actions that are not registered here: {', '.join(missing)}")
            held_up = await self._look_again(flow_id, until)
            until, stalled_at = until + held_up, stalled_at + held_up
            if seen != (seen := self._progress()):
                stalled_at = SYSTEM_CLOCK.monotonic() + STALLED_AFTER
            elif within is None and SYSTEM_CLOCK.monotonic() > stalled_at:
                raise AssertionError(await self._why_stalled(flow_id))
        return await self._outcome_now(flow_id)

    async def _at_rest(self, flow_id: str) -> FlowRecord | None:
        """The flow as stored; None while the worker has it in memory, and so has more to do."""
        worker = self._worker
        if worker is not None and flow_id in worker.flows.by_id:
            return None
        return await self.find(flow_id)

    def _is_due(self, record: FlowRecord) -> bool:
        """Whether the flow is due, so that the worker is about to claim it."""
        if record.status != "waiting" or record.wake_at is None or not self._up.is_set():
            return False
        return record.wake_at <= self.clock.wall()

    def _progress(self) -> tuple[Any, ...]:
        return self.witness.commits, len(self.witness.executed), self.clock.now

    async def _why_stalled(self, flow_id: str) -> str:
        outcome = await self._outcome_now(flow_id)
        running = [item for item in outcome.history.items.values() if item.state == "running"]
        about = "; ".join(
            f"attempt {item.attempt} of {item.step} (item {item.number}) has not ended"
            + (", and has no timeout" if item.timeout_at is None else "")
            for item in running
        )
        return f"nothing has happened for {STALLED_AFTER:g} s: {about or 'no worker runs the flow'}\n{outcome}"

    async def _outcome_now(self, flow_id: str) -> FlowOutcome:
        record = await self.find(flow_id)
        lines = tuple(await self.read_lines(flow_id))
        result, error = None, None
        if record.status in FINISHED:
            try:
                result = await self.handle(flow_id).result(timeout=PATIENCE)
            except Exception as failure:  # noqa: BLE001 - any error is part of the outcome
                error = failure
        return FlowOutcome(
            flow_id=flow_id,
            status=record.status,
            _result=result,
            error=error,
            lines=lines,
            executed=tuple(one for one in self.witness.executed if one.flow_id == flow_id),
            began=record.created_at,
            ended=lines[-1].at if lines else record.created_at,
        )

    async def _look_again(self, flow_id: str, until: float) -> float:
        """Sleep briefly; return how long the loop was held up meanwhile, as by a debugger."""
        if self._working is not None and self._working.done():
            self._working.result()
        self._raise_faults()
        if SYSTEM_CLOCK.monotonic() > until:
            raise AssertionError(f"the flow has not ended in time\n{await self._outcome_now(flow_id)}")
        began = SYSTEM_CLOCK.monotonic()
        await _real_sleep(LOOK_AGAIN)
        took = SYSTEM_CLOCK.monotonic() - began
        return took if took > HELD_UP else 0.0

    # Overrides of App, for a worker that can be killed

    async def work(self) -> None:
        while not self._closing:
            await self._up.wait()
            if not self._closing:
                await self._live_once()

    async def _live_once(self) -> None:
        point = CrashPoint(self.store, self.witness)
        worker = watched_worker(point, self.settings, self._results.flow_ended, self.clock)
        life = asyncio.get_running_loop().create_task(worker.run())
        point.kill = life.cancel
        self._point, self._worker = point, worker
        await asyncio.wait([life])
        if point.dead:
            await point.last_words()
            if worker.lease is not None:
                # As the reaper does once the lease has expired.
                # Reaped, not released: its flows have lost their owner.
                await self.store.extend_lease(worker.lease, 0.0)
                await self.store.reap_leases()
        self._worker = None
        if not point.dead:
            try:
                life.result()
            except Exception as error:
                # No other worker will follow.
                self._results.fail(error)
                raise

    def stop(self) -> None:
        super().stop()
        self._up.set()

    async def __aenter__(self) -> Self:
        self._affinity.bind()
        # Otherwise its worker would end, and a caller waiting for a result would wait forever.
        visible_loop()
        self._stop_listening = listen_for_unawaited_calls(self.witness.faults.append)
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_listening()
        await super().__aexit__(kind, error, trace)
        if error is None and self._working is not None:
            self._working.result()
        if error is None:
            self._raise_faults()

    def _raise_faults(self) -> None:
        if self.witness.faults:
            raise AssertionError("\n".join(self.witness.faults))


@asynccontextmanager
async def flow_app(
    address: str | Store = "memory://",
    *,
    dice: Dice | None = None,
    same_ids: bool | None = None,
    **settings: Any,
) -> AsyncIterator[FlowApp]:
    """Open an app for a test: `async with flow_app() as app: handle = await app.start(Billing, user="u1"); ...`.

    Time is virtual: `app.clock`. When nothing runs, it jumps to the next timer; `with app.clock.frozen():` stops it.
    An action takes time with `await app.clock.asleep(30)`, and one that hangs is advanced to its timeout.

    address: the store's URL; in memory by default.
    dice: the source of jitter; seeded by default, so that waits are the same in every run.
    same_ids: whether flows have the same ids in every run, and with them the same workflow.random() and uuid(); by
    default they do in memory.
    settings: settings of the worker, as in `redrive.open`.
    """
    with virtual_clock(dice=dice) as clock, forgetting_pipelines():
        store = store_at(address) if isinstance(address, str) else address
        same_ids = address == "memory://" if same_ids is None else same_ids
        async with FlowApp(store, clock, WorkerSettings(**{"grace": 0.0, "lease": LEASE, **settings}), same_ids) as app:
            yield app


def run_flow(call: FlowCall[Any] | ActionCall[Any] | type[Workflow]) -> FlowOutcome:
    """Run a flow to its end on a virtual clock: `run_flow(Billing.call(user="u1")).result`.

    call: as in `app.start`: `run_flow(charge("u1"))` runs a job, `run_flow(graph.call({"n": 4}))` a graph. A workflow
    without arguments may be given as its class.
    """

    async def run() -> FlowOutcome:
        async with flow_app() as app:
            return await app.outcome(await app.start(call.call() if isinstance(call, type) else call))

    return run_now(run())


def run_now(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion, from a test that is not async."""
    if asyncio._get_running_loop() is not None:
        story.close()
        raise RuntimeError("this starts its own event loop; in an async test, use `async with flow_app() as app`")
    return asyncio.run(story)


async def _real_sleep(seconds: float) -> None:
    await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + seconds)
