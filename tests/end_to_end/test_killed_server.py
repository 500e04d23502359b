"""The server is killed while retries wait, attempts run and callbacks are due: nothing is lost or done twice."""

import asyncio
import json
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import psycopg
import pytest
from tests.end_to_end.scene import ROUNDING, Ended, Handlers, called, ended, logged, open_app, run, until
from tests.end_to_end.served import ServedApp, served

from redrive.client.app import App
from redrive.flows.events import AttemptAccepted, ItemCompleted
from redrive.policies.decision import RetryAt
from redrive.stores.records import RetryRow

FLOWS = 4


def steps(handlers: Handlers, wait: int) -> list[dict[str, Any]]:
    line = {"type": "object", "for_each": True, "from": "lines"}
    config = {"max_retries": 2, "backoff": wait, "max_backoff": wait, "backoff_type": "fixed"}
    pack = {"endpoint": handlers.at("told"), "inputs": {"line": line}, "outputs": {"boxes": "any"}}
    later = {"endpoint": handlers.at("accept"), "mode": "async", "timeout": "30s", "outputs": {"parcel": "string"}}
    return [{"name": "pack", **pack, "work_config": config}, {"name": "later", **later, "work_config": config}]


def post(url: str, data: object) -> tuple[int, Any]:
    request = Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})  # noqa: S310 - our own
    with urlopen(request, timeout=20) as answer:  # noqa: S310 - our own server
        return answer.status, json.load(answer)


async def start(server: ServedApp, goal: str, **inputs: Any) -> str:
    status, flow = await asyncio.to_thread(post, f"{server.url}/v1/flows", {"goals": [goal], "inputs": inputs})
    assert status == 201
    flow_id: str = flow["id"]
    return flow_id


def let_lease_run_out(address: str) -> None:
    """As if its ten seconds had passed. That a process is gone can be seen with SQLite, and not with PostgreSQL."""
    if address.startswith("postgres"):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("UPDATE redrive.workers SET expires_at = now()")


class Story(NamedTuple):
    wait: int
    """Milliseconds between the attempts."""
    waiting: list[RetryRow]
    """The retry queue when nobody worked."""
    waited: list[Ended]
    ran: Ended
    later: Ended


async def story(address: str, handlers: Handlers) -> Story:
    async with open_app(address, worker=False) as app:
        with served(address) as server:
            # Longer than it takes to start again, so that a retry which does not wait for its time is seen.
            wait = 700 + int(server.takes * 1300)
            for step in steps(handlers, wait):
                await app.register_step(step)
            hold = f"killed-{server.port}"
            lines = [{"how": "ok"}, {"how": "503", "times": 1}, {"how": "reset", "times": 1}]
            waited = [await start(server, "pack", lines=lines) for _ in range(FLOWS)]
            ran = await start(server, "pack", lines=[{"how": "ok", "hold": hold}, {"how": "ok"}])
            later = await start(server, "later")
            await logged(app, later, AttemptAccepted)
            await called(handlers, ran, 2)
            await logged(app, ran, ItemCompleted)
            await until(lambda: all_wait(app, 2 * FLOWS))
            server.kill()
            waiting = await app.retries()
            handlers.release(hold)
            let_lease_run_out(address)
            server.start()
            [call] = await called(handlers, later)
            status, answer = await asyncio.to_thread(post, call.headers["redrive-callback"], {"parcel": "p1"})
            assert (status, answer) == (202, {"outcome": "accepted"})
            flows = [await ended(app, handlers, flow_id) for flow_id in (*waited, ran, later)]
    return Story(wait, waiting, flows[:FLOWS], *flows[FLOWS:])


async def all_wait(app: App, count: int) -> bool:
    return len(await app.retries()) == count


@pytest.mark.promise("A14", "A9", "A12", "A16")
def test_kill_9_of_the_server(address: str, handlers: Handlers) -> None:
    told = run(story(address, handlers))
    for flow in told.waited:
        _check_waited(flow, told.wait / 1000, {row.item: row for row in told.waiting if row.flow_id == flow.id})
    _check_ran(told.ran)
    assert (told.later.result, told.later.words) == (
        {"parcel": "p1"},
        ["ItemStarted", "AttemptAccepted", "ItemCompleted", "FlowCompleted"],
    )
    assert len(told.later.calls) == 1


def _check_waited(flow: Ended, wait: float, rows: dict[int, RetryRow]) -> None:
    """Retries that waited were made at their times, with their counts and tokens."""
    assert flow.status == "completed"
    assert [one.attempt for one in flow.events(ItemCompleted)] == [1, 2, 2]
    failures = {failure.item: (at, failure) for at, failure in flow.failures()}
    starts = {started.item: (at, started) for at, started in flow.starts()}
    assert set(failures) == set(starts) == set(rows) == {2, 3}
    for item, (failed_at, failure) in failures.items():
        assert failure.failure.kind != "lost"
        assert isinstance(failure.decision, RetryAt)
        when = failure.decision.when
        assert when == pytest.approx(failed_at + wait, abs=ROUNDING)
        assert rows[item].scheduled_at == pytest.approx(when, abs=ROUNDING)
        assert rows[item].attempt_number == 1
        started_at, started = starts[item]
        assert started_at >= when - ROUNDING
        first, second = (call for call in flow.calls if call.receipt == f"{flow.id}.{item}")
        assert second.at >= when - ROUNDING
        assert (first.attempt, second.attempt, second.delivery) == (1, 2, started.delivery)
        assert first.delivery != second.delivery
    # What was done was not done again.
    assert [call.attempt for call in flow.calls if call.receipt == f"{flow.id}.1"] == [1]


def _check_ran(flow: Ended) -> None:
    """The attempt that ran counts, nobody knows how it ended, and it is made again as the same work."""
    [(_, lost)] = flow.failures()
    assert (lost.item, lost.failure.kind) == (1, "lost")
    assert flow.status == "completed"
    assert [call.attempt for call in flow.calls if call.receipt == f"{flow.id}.1"] == [1, 2]
    assert [call.attempt for call in flow.calls if call.receipt == f"{flow.id}.2"] == [1]
