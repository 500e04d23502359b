"""What the flows of a storm run. Each flow has a number, which says what it is and what it must return.

Nothing here remembers anything: how often work fails is told by its arguments and by the number of the attempt.
"""

import asyncio
import os
import time
from typing import Any, Literal

from tests.chaos.effects import note

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.flows.action import ActionCall
from redrive.flows.flow_call import FlowCall

HANDLERS = "CHAOS_HANDLERS"
"""The environment variable with the address of the handlers of HTTP steps."""
MENDED = "CHAOS_MENDED"
"""The environment variable with the path of a file: work that fails for good succeeds once the file is there."""
NARROW = "narrow"
"""The queue with a limit."""
PATIENTLY = RetryPolicy(attempts=20, exception_types=["ConnectionError"], backoff_seconds=0.02)

Kind = Literal["job", "order", "sleeper", "wide", "script", "graph", "compensated", "narrow", "doomed", "blocker"]
KINDS: tuple[Kind, ...] = ("job", "order", "sleeper", "order", "wide", "script", "job", "narrow", "doomed", "order")
WITH_HANDLERS: tuple[Kind, ...] = (*KINDS[:-2], "graph", "compensated", "doomed", "graph", "order")


@action(name="chaos_touch")
async def touch(name: str, failures: int = 0, ms: int = 1) -> str:
    note("start", "touch")
    await asyncio.sleep(ms / 1000)
    if redrive.current_attempt().number <= failures:
        raise ConnectionError("the other side is away")
    note("end", "touch")
    return f"touched {name}"


@action(name="chaos_pack")
def pack(name: str) -> str:
    note("start", "pack")
    note("end", "pack")
    return f"packed {name}"


@action(name="chaos_refuse")
async def refuse(name: str) -> None:
    note("start", "refuse")
    raise ValueError(f"no {name}")


@action(name="chaos_mend")
async def mend(name: str) -> str:
    """Fails for good until someone mends it."""
    note("start", "mend")
    if not os.path.exists(os.environ[MENDED]):  # noqa: ASYNC240 - as quick as a look can be
        raise redrive.Permanent(f"{name} is broken")
    note("end", "mend")
    return f"mended {name}"


@action(name="chaos_block")
async def block(seconds: float) -> str:
    """The first attempt holds the event loop of its worker."""
    note("start", "block")
    if redrive.current_attempt().number == 1:
        time.sleep(seconds)  # noqa: ASYNC251 - what it is for
    note("end", "block")
    return "let go"


@workflow(name="ChaosOrder")
class Order(Workflow):
    """Sequential, parallel, retried, and failing-then-handled work in the loop and in threads."""

    async def run(self, number: int) -> list[str]:
        done = [await self.run_action(touch(f"shelf-{number}"), retry=PATIENTLY)]
        done += await asyncio.gather(
            self.run_action(touch(f"bank-{number}", number % 3, 20), retry=PATIENTLY),
            self.run_action(pack(f"box-{number}"), retry=PATIENTLY),
        )
        try:
            await refuse(f"gift-{number}")
        except ValueError as error:
            done.append(f"{error}")
        return done


@workflow(name="ChaosSleeper")
class Sleeper(Workflow):
    async def run(self, number: int, seconds: float) -> list[str]:
        first = await self.run_action(touch(f"first-{number}"), retry=PATIENTLY)
        await asyncio.sleep(seconds)
        return [first, await self.run_action(touch(f"second-{number}", 1), retry=PATIENTLY)]


@workflow(name="ChaosWide")
class Wide(Workflow):
    async def run(self, number: int, width: int) -> list[str]:
        calls = (self.run_action(touch(f"{number}-{one}", one % 2, 5), retry=PATIENTLY) for one in range(width))
        return list(await asyncio.gather(*calls))


SCRIPT = """
fn main(number):
    first = @chaos_touch(name="script-" + str(number)) [ConnectionError -> retry: 20, backoff: 20ms]
    parallel:
        box = @chaos_pack(name=str(number))
        more = @chaos_touch(name="more", failures=1) [ConnectionError -> retry: 20, backoff: 20ms]
    return [first, box, more]
"""

GRAPH = """
graph: chaos_order
goals: [ship]
steps:
  reserve:
    endpoint: {handlers}/reserve
    inputs: {{number: integer}}
    outputs: {{shelf: string}}
    compensate: release
    work_config: {{max_retries: 200, backoff: 50, max_backoff: 500, backoff_type: exponential}}
  charge:
    endpoint: {handlers}/charge
    mode: async
    timeout: 4s
    inputs: {{number: integer, shelf: string}}
    outputs: {{receipt: string}}
    compensate: refund
    work_config: {{max_retries: 200, backoff: 50, max_backoff: 500, backoff_type: exponential}}
  ship:
    endpoint: {handlers}/ship
    inputs: {{number: integer, receipt: string, refuses: boolean}}
    outputs: {{parcel: string}}
    work_config: {{max_retries: 200, backoff: 50, max_backoff: 500, backoff_type: exponential}}
  release:
    endpoint: {handlers}/release
    inputs: {{shelf: string}}
    work_config: {{max_retries: 200, backoff: 50, max_backoff: 500, backoff_type: exponential}}
  refund:
    endpoint: {handlers}/refund
    inputs: {{receipt: string}}
    work_config: {{max_retries: 200, backoff: 50, max_backoff: 500, backoff_type: exponential}}
"""


def graph() -> redrive.Graph:
    return redrive.read_graph(GRAPH.format(handlers=os.environ[HANDLERS]))


script = redrive.Script("chaos_script", SCRIPT)
redrive.register_script(script)
if HANDLERS in os.environ:
    redrive.register_graph(graph())


def kind_of(number: int, handlers: bool) -> Kind:
    kinds = WITH_HANDLERS if handlers else KINDS
    return kinds[number % len(kinds)]


def call_of(kind: Kind, number: int, lease: float) -> FlowCall[Any] | ActionCall[Any]:
    match kind:
        case "job":
            return touch(f"job-{number}", number % 3)
        case "order":
            return Order.call(number)
        case "sleeper":
            return Sleeper.call(number, 0.2 + number % 7 / 5)
        case "narrow":
            return Sleeper.call(number, 0.01)
        case "wide":
            return Wide.call(number, 8)
        case "script":
            return script.call({"number": number})
        case "doomed":
            return mend(f"engine-{number}")
        case "blocker":
            return block(1.5 * lease)
        case _:
            return graph().call({"number": number, "refuses": kind == "compensated"})


def result_of(kind: Kind, number: int) -> Any:
    """What the flow must return; None where it must fail instead, with its work compensated."""
    match kind:
        case "job":
            return f"touched job-{number}"
        case "order":
            touched = [f"touched {place}-{number}" for place in ("shelf", "bank")]
            return [*touched, f"packed box-{number}", f"no gift-{number}"]
        case "sleeper" | "narrow":
            return [f"touched first-{number}", f"touched second-{number}"]
        case "wide":
            return [f"touched {number}-{one}" for one in range(8)]
        case "script":
            return [f"touched script-{number}", f"packed {number}", "touched more"]
        case "doomed":
            return f"mended engine-{number}"
        case "blocker":
            return "let go"
        case "graph":
            return {"parcel": f"parcel-{number}"}
        case "compensated":
            return None
