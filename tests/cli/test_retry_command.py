"""`redrive flows retry`: a flow in backoff is asked to go on at once; one that waits for nothing is not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.cli.test_durable_commands import SHOP, Command, run, store  # noqa: F401 - fixtures

import redrive
from redrive.client.app import App


def work_until(happened: Callable[[App], Awaitable[bool]]) -> None:
    async def work() -> None:
        async with redrive.open() as app, asyncio.timeout(20):
            while not await happened(app):  # noqa: ASYNC110 - it happens in a store
                await asyncio.sleep(0.01)

    asyncio.run(work())


async def waits(app: App) -> bool:
    return any(row.status == "waiting" for row in await app.retries())


def test_a_flow_in_backoff_is_retried_now_with_who_and_why(run: Command) -> None:  # noqa: F811 - a fixture
    flow_id = run("start", f"{SHOP}:cli_unreachable").out.strip()
    refused = run("flows", "retry", flow_id, "--why", "x").refused()
    assert "does not wait for a next attempt, so there is nothing to retry now" in refused
    work_until(waits)
    said = run("flows", "retry", flow_id, "--why", "it is back", "--by", "ann", "--json")
    assert said.data == {"id": flow_id, "requested": "retry", "by": "ann", "why": "it is back"}
    assert f"Asked flow {flow_id} to retry; but no live worker" in run("flows", "retry", flow_id, "--why", "again").out
    work_until(lambda app: _explained(app, flow_id))
    assert "retried now by ann (it is back)" in run("explain", flow_id).out
    [entry] = [one for one in run("audit", "--json").data["entries"] if one["detail"] == "it is back"]
    assert (entry["action"], entry["target"]) == ("flow.retry", flow_id)


@pytest.mark.promise("E9")
def test_the_policy_of_waiting_work_is_changed_with_who_and_why(run: Command) -> None:  # noqa: F811 - a fixture
    flow_id = run("start", f"{SHOP}:cli_unreachable").out.strip()
    change = ("flows", "policy", flow_id, "--why", "no hurry", "--by", "ann")
    assert "no work under way whose policy could be changed" in run(*change, "--retry", "attempts: 9").refused()
    work_until(waits)
    assert run(*change).refused() == "--retry is missing; give the new policy: --retry 'attempts: 10'"
    assert "attemps" in run(*change, "--retry", "attemps: 10").err
    said = run(*change, "--retry", "{attempts: 9, max_wait: 1h}", "--json")
    assert said.data == {"id": flow_id, "requested": "policy", "by": "ann", "why": "no hurry"}
    work_until(lambda app: _explained(app, flow_id, "policy changed by ann (no hurry)"))
    assert "cli_unreachable: now attempts 9" in run("explain", flow_id).out
    [entry, _] = [one for one in run("audit", "--json").data["entries"] if one["detail"] == "no hurry"]
    assert (entry["action"], entry["target"]) == ("flow.policy", flow_id)


async def _explained(app: App, flow_id: str, words: str = "retried now") -> bool:
    return words in str(await app.explain(flow_id))
