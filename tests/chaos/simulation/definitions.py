"""A graph and a script of simulated flows, with what they return."""

from typing import Any

import msgspec
from tests.chaos.simulation.work import MENDED, PATIENT, take

import redrive
from redrive import action, current_attempt
from redrive.flows.graphs.graph import Graph
from redrive.flows.scripts.script import Script
from redrive.testing.fleet.fleet_runner import calls_before

# How each step behaves: how often it fails at first; -1: for good, until it is mended.
Plan = dict[str, int]


async def behave(step: str, plan: Plan, takes: float = 0.0) -> None:
    await take(takes)
    fails = plan.get(step, 0)
    if fails < 0 and current_attempt().flow_id not in MENDED:
        raise redrive.Permanent(step)
    if calls_before.get() < fails:
        raise ConnectionError(step)


@action(name="fleet_reserve")
async def reserve(order: str, plan: Plan) -> dict[str, str]:
    await behave("reserve", plan)
    return {"reservation": f"r-{order}"}


@action(name="fleet_charge")
async def charge(order: str, plan: Plan) -> dict[str, str]:
    await behave("charge", plan, 0.2)
    return {"payment": f"p-{order}"}


@action(name="fleet_pack")
async def pack(line: int, plan: Plan) -> dict[str, int]:
    await behave("pack", plan, 0.1 * (line % 3))
    return {"box": line * 10}


@action(name="fleet_ship")
async def ship(reservation: str, payment: str, box: list[int], stamp: str, plan: Plan) -> dict[str, Any]:
    await behave("ship", plan)
    return {"parcel": f"{reservation} {payment} {sum(box)} {stamp}"}


@action(name="fleet_release")
async def release(reservation: str, plan: Plan) -> None:
    await behave("release", plan)


@action(name="fleet_refund")
async def refund(payment: str, plan: Plan) -> None:
    await behave("refund", plan)


ORDER = (
    Graph("fleet_order", goals=["ship"])
    .step("reserve", reserve, outputs=["reservation"], retry=PATIENT, compensate="release")
    .step("charge", charge, outputs=["payment"], retry=PATIENT, compensate="refund", dependency="bank")
    .step("pack", pack, outputs={"box": "integer"}, for_each="line", parallelism=2, retry=PATIENT)
    .step(
        "stamp",
        "http://127.0.0.1:9/stamp",
        inputs={"order": "string", "plan": "object"},
        outputs={"stamp": "string"},
        mode="async",
        retry=PATIENT,
        timeout=3.0,
    )
    .step("ship", ship, outputs=["parcel"], retry=PATIENT)
    .step("release", release, retry=PATIENT)
    .step("refund", refund, retry=PATIENT)
)


def order_outcome(inputs: dict[str, Any], mended: bool) -> Any:
    plan = inputs["plan"]
    if any(fails < 0 for fails in plan.values()) and not mended:
        raise redrive.Permanent("a step")
    order = inputs["order"]
    return {"parcel": f"r-{order} p-{order} {sum(inputs['line']) * 10} s-{order}"}


TEXT = """
fn main(name, fails, lines, breaks):
    one = @fleet_work(name=name, fails=fails, takes=0.1) [ConnectionError -> retry: 12, backoff: 300ms]
    try:
        @fleet_broken(name="never")
    except Permanent as error:
        @fleet_plain(name=error.message)
    boxes = spread lines:line -> @fleet_work(name=line, fails=0, takes=0.2) [retry: 12, backoff: 200ms]
    parallel:
        left = @fleet_work(name="left", fails=fails, takes=0) [ConnectionError -> retry: 12, backoff: 1s]
        right = @fleet_plain(name="right")
    if breaks:
        @fleet_broken(name=name)
    return [one, boxes, left, right]
"""
SCRIPT = Script("fleet_script", TEXT)


def script_outcome(inputs: dict[str, Any], mended: bool) -> Any:
    if inputs["breaks"] and not mended:
        raise redrive.Permanent(inputs["name"])
    return [inputs["name"], inputs["lines"], "left", "RIGHT"]


def register() -> None:
    redrive.register_graph(ORDER)
    redrive.register_script(SCRIPT)


def inputs_of(stored: str) -> dict[str, Any]:
    """The inputs in the stored input of a graph's or a script's flow."""
    found: dict[str, Any] = msgspec.json.decode(stored)["inputs"]
    return found
