"""`redrive signal`: sends a signal to a flow, with who sent it."""

import asyncio

import pytest
from tests.cli.test_durable_commands import Command, run, store  # noqa: F401 - fixtures

import redrive
from redrive import Workflow, workflow
from redrive.flows.message_events import SignalReceived

pytestmark = pytest.mark.promise("E1")


@workflow(name="CliLetters")
class Letters(Workflow):
    async def run(self) -> dict[str, object]:
        return await workflow.receive("letter")


def test_a_signal_reaches_the_flow_and_a_second_one_comes_too_late(run: Command) -> None:  # noqa: F811 - a fixture
    async def start() -> str:
        async with redrive.open(worker=False) as app:
            return (await app.start(Letters.call(), key="o-17")).id

    async def finish(flow_id: str) -> tuple[object, list[str]]:
        async with redrive.open() as app:
            result = await app.handle(flow_id).result(timeout=20)
            lines = await app.read_lines(flow_id)
            return result, [line.event.by for line in lines if isinstance(line.event, SignalReceived)]

    flow_id = asyncio.run(start())
    said = run("signal", "o-17", "letter", "by=ann", "amount=12.5", "tags=[1]", "--by", "bob", "--json")
    assert said.data == {"id": flow_id, "signal": "letter", "by": "bob"}
    assert asyncio.run(finish(flow_id)) == ({"by": "ann", "amount": 12.5, "tags": [1]}, ["bob"])
    assert "is completed" in run("signal", flow_id, "letter").refused()
    [entry] = [one for one in run("audit", "--json").data["entries"] if one["action"] == "flow.signal"][-1:]
    assert (entry["target"], entry["detail"]) == (flow_id, "letter")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["letter", "by"], "'by' is not an argument; write KEY=VALUE"),
        (["letter", "a=1", "a=2"], "'a' is given twice"),
        (["", "a=1"], "1 to 200 characters"),
    ],
)
def test_what_is_no_signal_is_refused(run: Command, arguments: list[str], says: str) -> None:  # noqa: F811 - a fixture
    async def start() -> str:
        async with redrive.open(worker=False) as app:
            return (await app.start(Letters.call())).id

    assert says in run("signal", asyncio.run(start()), *arguments).refused()
