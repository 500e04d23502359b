"""Run a user's flows in many histories of a faulty fleet, and compare each outcome with a run without faults."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.dice import Random, seeded_random
from redrive.errors import Permanent, StoreUnavailableError
from redrive.flows.action import ActionCall
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.flow_call import FlowCall
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.history import fold
from redrive.flows.workflows.workflow import Workflow
from redrive.runners.attempt import Attempt
from redrive.testing.fleet.checks import log_of
from redrive.testing.fleet.fate import PEACE, Faults
from redrive.testing.fleet.history import LEASE, SPAN, History
from redrive.testing.fleet.machine import FleetApp
from redrive.testing.fleet.rare_collections import RareCollections
from redrive.worker.settings import WorkerSettings

Startable = FlowCall[Any] | ActionCall[Any] | type[Workflow]
Answer = Callable[[str, Any], Any]
ASK_AGAIN = 0.4
# Of the time that the flows take in peace: how long a lease lasts, so that many are lost in a history.
LEASES_PER_HISTORY = 6.0
PATIENCE_IN_PEACE = 40 * 86_400.0
# In peace nobody has to take over.
CALM = WorkerSettings(lease=86_400.0, poll=86_400.0)


@dataclass(frozen=True, kw_only=True)
class FleetReport:
    """What `simulate_fleet` did."""

    histories: int
    calls: int
    """How often actions were called, in all histories together."""
    seconds: float
    """How long it took, in real time."""


def simulate_fleet(
    what: Startable | Callable[[Random], Startable],
    *,
    histories: int = 100,
    seed: int = 0,
    workers: int = 2,
    flows: int = 2,
    faults: Faults | None = None,
    http: Answer | None = None,
    may_fail: bool = False,
) -> FleetReport:
    """Run flows in a simulated fleet whose workers are killed, frozen, stopped and cut off, in many histories.

    Raises AssertionError, with the seed and the story, for the first history in which a flow does not end, or ends
    differently than without faults, or in which an attempt is called that is not in the log or whose work is recorded
    as done; and for a flow that fails without faults. The same seed repeats the history:
    `simulate_fleet(..., seed=4711, histories=1)`.

    what: as in `run_flow`, or a function that draws a call from a generator of random numbers.
    seed: the seed of the first history; each further one uses the next number.
    workers, flows: how many workers there are, and how many flows are started.
    faults: what goes wrong, and how often; `Faults(freezes=0)` turns one kind off.
    http: answers HTTP steps: a function of the endpoint and the inputs that returns the outputs.
    may_fail: whether a flow may fail without faults; then it must fail in the same way with them.

    All workers are real, and run in this thread on one virtual time. Plain functions run there too. An attempt that is
    lost with its worker is made again, unless its policy allows only one.
    """
    if not (isinstance(what, FlowCall | ActionCall) or callable(what)):
        raise TypeError(
            f"simulate_fleet({what!r}): pass a call such as Checkout.call(...), or a function that draws one"
        )
    if workers < 1 or flows < 1 or histories < 1:
        raise ValueError(f"use at least one history, worker and flow, not {histories}, {workers} and {flows}")
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("simulate_fleet runs event loops of its own; call it from a test that is not async")
    began, calls, peace = SYSTEM_CLOCK.monotonic(), 0, _Peace(what, flows, http, may_fail)
    with RareCollections() as collections:
        for number in range(seed, seed + histories):
            expected, span = peace.of(number)
            settings = WorkerSettings(lease=max(LEASE, span / LEASES_PER_HISTORY), poll=max(1.0, span / 20), grace=0.5)
            history = History(
                number, faults or Faults(), workers=workers, settings=settings, handle_http=_handler_of(http)
            )
            ids = _start_all(history, peace.draw(number), 0.3 * span)
            history.run(span, patience=20 * span + 10 * settings.lease)
            calls += len(history.effects.calls)
            _compare(history, ids, expected)
            collections.history_ended()
    return FleetReport(histories=histories, calls=calls, seconds=SYSTEM_CLOCK.monotonic() - began)


class _Peace:
    """How flows end when nothing goes wrong, and how long that takes."""

    def __init__(self, what: Any, flows: int, http: Answer | None, may_fail: bool) -> None:
        self._what = what
        self._may_fail = may_fail
        self._flows = flows
        self._http = http
        self._draws = not isinstance(what, FlowCall | ActionCall | type)
        self._known: tuple[list[str], float] | None = None

    def draw(self, seed: int) -> list[Startable]:
        """The calls of this history."""
        random = seeded_random(f"calls {seed}")
        drawn = [self._what(random) if self._draws else self._what for _ in range(self._flows)]
        return [one.call() if isinstance(one, type) and issubclass(one, Workflow) else one for one in drawn]

    def of(self, seed: int) -> tuple[list[str], float]:
        """The outcome of each flow, and for how many seconds things should go wrong."""
        if self._known is None or self._draws:
            history = History(seed, PEACE, workers=1, settings=CALM, handle_http=_handler_of(self._http))
            ids = _start_all(history, self.draw(seed), 0.0)
            history.run(0.0, patience=PATIENCE_IN_PEACE)
            if history.findings.all:
                raise _failed(history, "already in peace, with one worker")
            outcomes = [_outcome(history, one) for one in ids]
            if not self._may_fail and (failed := [one for one in outcomes if one.startswith("failed")]):
                raise AssertionError(
                    f"without any fault, a flow {failed[0]}: such a test proves nothing; mend the flow or the test, or "
                    "pass may_fail=True if the flow is to fail like that"
                )
            self._known = outcomes, max(SPAN, 1.2 * history.world.now)
        return self._known


def _start_all(history: History, calls: list[Startable], within: float) -> list[str]:
    """Have a client start each call; returns the ids, which come as the flows are started."""
    ids = [""] * len(calls)

    def client(index: int) -> Callable[[FleetApp], Awaitable[None]]:
        async def start(app: FleetApp) -> None:
            while True:
                try:
                    call: Any = calls[index]
                    ids[index] = (await app.start(call, key=f"{index}")).id
                except StoreUnavailableError:
                    await asyncio.sleep(ASK_AGAIN)  # noqa: TID251 - on the machine's virtual time
                else:
                    return

        return start

    for index in range(len(calls)):
        history.visit(within * history.world.random.random(), history.client, client(index))
    return ids


def _handler_of(http: Answer | None) -> Callable[[HttpHandler, Attempt, str, int], Awaitable[Any]]:
    async def handle(handler: HttpHandler, attempt: Attempt, body: str, before: int) -> str:
        if http is None:
            raise Permanent("an HTTP step in a simulation needs simulate_fleet(..., http=answer)")
        outputs = http(handler.endpoint, msgspec.json.decode(body))
        return msgspec.json.encode(await outputs if inspect.isawaitable(outputs) else outputs).decode()

    return handle


def _outcome(history: History, flow_id: str) -> str:
    ending = fold(log_of(history.server, flow_id)).ending
    if isinstance(ending, FlowCompleted):
        return f"completed with {bytes(ending.result).decode()}"
    if isinstance(ending, FlowFailed):
        return f"failed ({ending.kind}) with {ending.error.type}: {ending.error.message}"
    return "cancelled" if isinstance(ending, FlowCancelled) else "has not ended"


def _compare(history: History, ids: list[str], expected: list[str]) -> None:
    if not history.findings.all:
        for flow_id, wanted in zip(ids, expected, strict=True):
            found = _outcome(history, flow_id)
            if found != wanted:
                history.findings.add(
                    "another outcome than in peace", f"flow {flow_id} {found}; in peace: {wanted}", flow_id
                )
    if history.findings.all:
        raise _failed(history, f"repeat it with simulate_fleet(..., seed={history.seed}, histories=1)")


def _failed(history: History, how: str) -> AssertionError:
    found = "\n".join(map(str, history.findings.all))
    about = [finding.flow_id for finding in history.findings.all if finding.flow_id]
    story = "\n".join(history.story.about(about)) if about else str(history.story)
    return AssertionError(f"history {history.seed}: {found}\n{how}\n{story}")
