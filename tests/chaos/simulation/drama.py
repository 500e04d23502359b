"""One simulated history with random flows and operators, and what must have come of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from tests.chaos.simulation import definitions, work
from tests.chaos.simulation.handlers import Handlers
from tests.chaos.simulation.known import KNOWN
from tests.chaos.simulation.programs import failing_program, program
from tests.chaos.simulation.work import MENDED, PATIENT, Program, outcome_of

import redrive
from redrive.client.handle import Handle
from redrive.errors import (
    CommitUnknownError,
    FlowCancelledError,
    FlowFinishedError,
    InvalidStateError,
    StoreUnavailableError,
)
from redrive.flows.events import FlowCompleted, FlowFailed
from redrive.flows.history import fold
from redrive.flows.registry import ACTION, GRAPH, SCRIPT
from redrive.stores.queues import QueueSettings
from redrive.stores.records import FlowRecord
from redrive.testing.fleet.checks import log_of
from redrive.testing.fleet.fate import Faults
from redrive.testing.fleet.history import SPAN, History
from redrive.testing.fleet.machine import FleetApp, Machine
from redrive.worker.settings import WorkerSettings

T = TypeVar("T")
ASK_AGAIN = 0.4
WRECKED = ("poison",)


class Drama:
    """Draws flows, clients and operators from the seed."""

    def __init__(self, seed: int | str, faults: Faults | None = None, known: frozenset[str] = KNOWN) -> None:
        MENDED.clear()
        handlers = Handlers(lambda: self.history)
        settings = WorkerSettings(lease=2.0, poll=1.0, grace=0.5)
        self.history = History(
            seed, faults or Faults(), workers=2, settings=settings, known=known, handle_http=handlers.handle
        )
        self.handlers = handlers
        self.random = random = self.history.world.random
        self.cancelled: set[str] = set()
        self.refused: list[tuple[str, Exception]] = []
        """Starts that raised: the id that the flow would have had, and the error."""
        self._key_numbers = 0
        self.history.server.data.queue_settings["narrow"] = QueueSettings(limit=random.choice((1, 2)))
        for _ in range(random.choice((1, 2, 2, 3, 4))):
            self._plan_flow()

    def run(self) -> History:
        self.history.run()
        if not self.history.findings.all:
            self._check()
        return self.history

    # What clients do

    def _plan_flow(self) -> None:
        random, history = self.random, self.history
        call, settings, breaks = self._draw_call()
        machine: Machine = random.choice(history.machines)
        told = random.random()
        waits = random.random() < 0.3

        async def operate(app: FleetApp, flow_id: str) -> None:
            handle = app.handle(flow_id)
            if told < 0.1:
                await self._later(lambda: self._cancel(handle, told < 0.03))
            elif told < 0.25:
                await self._later(handle.pause)
                await self._later(handle.resume)
            if breaks and told < 0.5:
                await self._redrive(app, handle)

        async def visit(app: FleetApp) -> None:
            handle = await self._start(app, call, settings)
            if handle is not None:
                # Operators work elsewhere, on a machine that is never killed.
                history.visit(history.world.now, history.client, lambda client: operate(client, handle.id))
                if waits:
                    await self._see_result(handle)

        history.visit(SPAN * 0.8 * random.random() * random.random(), machine, visit)

    def _draw_call(self) -> tuple[Callable[[], Any], dict[str, Any], bool]:
        random = self.random
        settings: dict[str, Any] = {}
        if random.random() < 0.3:
            self._key_numbers += 1
            settings["key"] = f"key-{random.randint(1, self._key_numbers)}"
        if random.random() < 0.2:
            settings["queue"] = "narrow"
        if random.random() < 0.15:
            settings["delay"] = 3.0 * random.random()
        kind, breaks = random.random(), random.random() < 0.2
        name = random.choice("abc")
        if kind < 0.45:
            steps = failing_program(random) if breaks else program(random)
            return lambda: Program.call(steps), settings, breaks
        if kind < 0.6:
            settings["retry"] = PATIENT
            if breaks:
                return lambda: work.broken(name), settings, True
            fails, takes = random.choice((0, 0, 1, 2)), random.choice((0.0, 0.3, 1.0))
            return lambda: work.work(name, fails, takes), settings, False
        if kind < 0.85:
            plan = {step: 1 for step in ("reserve", "charge", "pack", "ship") if random.random() < 0.3}
            if breaks:
                plan["ship"] = -1
            inputs = {"order": name, "line": list(range(random.choice((0, 1, 3)))), "plan": plan}
            # What was compensated cannot be redriven.
            return lambda: definitions.ORDER.call(inputs), settings, False
        given = {"name": name, "fails": random.choice((0, 1)), "lines": ["x", "y"][: random.choice((0, 1, 2))]}
        given["breaks"] = breaks
        return lambda: definitions.SCRIPT.call(given), settings, breaks

    async def _start(self, app: FleetApp, call: Callable[[], Any], settings: dict[str, Any]) -> Handle[Any] | None:
        made: list[str] = app.made_ids
        while True:
            before = len(made)
            try:
                return await app.start(call(), **settings)
            except redrive.errors.KeyTakenError:
                return None
            except StoreUnavailableError as error:
                self.refused += [(one, error) for one in made[before : before + 1]]
                if "key" not in settings:
                    return None
                await asyncio.sleep(ASK_AGAIN)
            except redrive.errors.StoreError as error:
                self.refused += [(one, error) for one in made[before : before + 1]]
                return None

    async def _later(self, act: Callable[[], Awaitable[Any]]) -> None:
        await asyncio.sleep(2.5 * self.random.random())
        await insist(act)

    async def _cancel(self, handle: Handle[Any], force: bool) -> None:
        self.cancelled.add(handle.id)
        await handle.cancel(force=force)

    async def _redrive(self, app: FleetApp, handle: Handle[Any]) -> None:
        """Mend what is broken once the flow has failed, and put it back to work."""
        while True:
            status = await insist(handle.status)
            if status in ("completed", "cancelled"):
                return
            if status == "failed":
                break
            await asyncio.sleep(ASK_AGAIN)
        MENDED.add(handle.id)
        await insist(lambda: app.redrive(handle.id, by="ann", why="mended"))

    async def _see_result(self, handle: Handle[Any]) -> None:
        record = None
        try:
            result = await handle.result()
        except FlowCancelledError:
            if handle.id not in self.cancelled:
                self.history.findings.add("a client was told otherwise", f"{handle.id} is cancelled", handle.id)
        except redrive.Permanent:
            pass
        except redrive.errors.StoreError as error:
            self.history.findings.add("a client was told otherwise", f"{handle.id}: {error!r}", handle.id)
        except redrive.RedriveError:
            # What became of the flow is checked at the end.
            pass
        else:
            record = self.history.server.data.flows[handle.id]
            if result != expected(record, handle.id in MENDED):
                self.history.findings.add("a client was told otherwise", f"{handle.id}: {result!r}", handle.id)

    # What must have come of it

    def _check(self) -> None:
        data, findings = self.history.server.data, self.history.findings
        for flow in data.flows.values():
            self._check_flow(flow)
        for flow_id, error in self.refused:
            if flow_id in data.flows:
                unknown = isinstance(error, CommitUnknownError)
                kind = "a start whose outcome is unknown" if unknown else "a start raised, and its flow was added"
                findings.add(kind, f"{flow_id}: {error!r}", flow_id)

    def _check_flow(self, flow: FlowRecord) -> None:
        findings = self.history.findings
        lines = log_of(self.history.server, flow.id)
        ending = fold(lines).ending
        if flow.status == "cancelled":
            if flow.id not in self.cancelled:
                findings.add("cancelled by nobody", flow.id, flow.id)
            return
        try:
            wanted = expected(flow, flow.id in MENDED)
        except redrive.Permanent:
            if not isinstance(ending, FlowFailed):
                findings.add("a flow that should have failed", f"{flow.id}: {ending}", flow.id)
            elif not ending.error.type.endswith("Permanent"):
                self._failed_otherwise(flow, ending)
            return
        if isinstance(ending, FlowFailed):
            self._failed_otherwise(flow, ending)
        elif not isinstance(ending, FlowCompleted) or msgspec.json.decode(ending.result) != wanted:
            findings.add("a wrong result", f"{flow.id}: {ending}, not {wanted!r}", flow.id)

    def _failed_otherwise(self, flow: FlowRecord, ending: FlowFailed) -> None:
        innocent = ending.kind in WRECKED or "Lost" in ending.error.type or "CrashLoop" in ending.error.type
        kind = "an innocent became a dead letter" if innocent else "a flow failed that should not have"
        self.history.findings.add(
            kind, f"{flow.id}: {ending.kind}, {ending.error.type}: {ending.error.message}", flow.id
        )


def expected(flow: FlowRecord, mended: bool) -> Any:
    """What the flow returns in peace; redrive.Permanent where it fails."""
    if flow.definition.startswith(GRAPH):
        return definitions.order_outcome(definitions.inputs_of(flow.input), mended)
    if flow.definition.startswith(SCRIPT):
        return definitions.script_outcome(definitions.inputs_of(flow.input), mended)
    given = msgspec.json.decode(flow.input)
    if flow.definition.startswith(ACTION):
        args = given["args"]
        if flow.definition == f"{ACTION}fleet_broken":
            return outcome_of(["broken", args["name"]], mended)
        return args["name"]
    return outcome_of(given["program"], mended)


async def insist(act: Callable[[], Awaitable[T]]) -> T | None:
    """Do it again while the store does not answer; None when it is too late for it."""
    while True:
        try:
            return await act()
        except StoreUnavailableError:
            await asyncio.sleep(ASK_AGAIN)
        except (FlowFinishedError, InvalidStateError):
            return None
