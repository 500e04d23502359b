"""Reports, answers, timeouts and crashes in every order: what was acknowledged counts, and nothing else does."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import pytest

import redrive
from redrive.flows.events import AttemptFailed, ItemCompleted
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt
from redrive.runners.http.answers import Accepted, Answer, outcome_of
from redrive.runners.runner import Runner
from redrive.testing import FlowApp, FlowOutcome, flow_app

TIMEOUT = 10.0
MOMENTS = (0.0, 0.0, 1.0, TIMEOUT - 1e-6, TIMEOUT, TIMEOUT, TIMEOUT + 1e-6, 11.0)
"""Many of them the same, so that things happen at once."""
GRAPH = """
graph: reported
steps:
  pack:
    endpoint: http://handler.invalid/
    mode: async
    timeout: 10s
    outputs: {parcel: string}
    retry: {max_attempts: 3, backoff: fixed, backoff_base_ms: 1000}
"""
ANSWERS: tuple[tuple[int, bytes], ...] = ((202, b""), (202, b""), (503, b""), (422, b""), (200, b'{"parcel": "mine"}'))


class Report(NamedTuple):
    """What was reported, and what that was answered with."""

    said: str
    succeeded: bool
    answer: str


class Handler:
    """In place of the network: answers and reports at random moments of the virtual clock."""

    def __init__(self, app: FlowApp, chance: random.Random) -> None:
        self._app = app
        self._chance = chance
        self.reports: list[Report] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def call(self, handler: HttpHandler, attempt: Attempt, body: str) -> str | Accepted:
        chance = self._chance
        for _ in range(chance.choice((0, 1, 1, 1, 2))):
            succeeded, after = chance.random() < 0.7, chance.choice(MOMENTS)
            said = f"{len(self.tasks)} of {attempt.delivery_token}"
            report = self._report(_token(attempt), said, succeeded, after)
            self.tasks.append(asyncio.get_running_loop().create_task(report))
        status, answer = chance.choice(ANSWERS)
        await self._app.clock.asleep(chance.choice(MOMENTS))
        if chance.random() < 0.5:
            # A report at the same time as the answer.
            said, token = f"{len(self.tasks)} of {attempt.delivery_token}", _token(attempt)
            report = self._report(token, said, chance.random() < 0.7, None)
            self.tasks.append(asyncio.get_running_loop().create_task(report))
            await turns(chance.choice((0, 1, 3, 10, 30)))
        return outcome_of(Answer(status=status, headers={}, body=answer), handler, 1000, self._app.now())

    async def close(self) -> None: ...

    async def _report(self, token: str, said: str, succeeded: bool, after: float | None) -> None:
        if after is not None:
            await self._app.clock.asleep(after)
        success = {"success": True, "outputs": {"parcel": said}}
        body = success if succeeded else {"success": False, "error": said}
        answer = await self._app.report_outcome(token, json.dumps(body).encode())
        self.reports.append(Report(said, succeeded, answer))


def _token(attempt: Attempt) -> str:
    return f"{attempt.receipt_token}.{attempt.delivery_token}"


async def turns(count: int) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


def slow_down(app: FlowApp, chance: random.Random) -> None:
    """Let other tasks run before and after each access to the store, and time pass while a report is stored."""

    def slowed(verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        do = getattr(app.store, verb)

        async def pause() -> None:
            await turns(chance.choice((0, 0, 1, 5, 20)))
            if verb == "send":
                await app.clock.asleep(chance.choice((0.0, 0.0, 1e-6, 2e-6, 1.0)))

        async def access(*args: Any, **named: Any) -> Any:
            await pause()
            answer = await do(*args, **named)
            await pause()
            return answer

        return access

    for verb in ("send", "commit", "read_inbox", "read_events", "read_events_after", "claim"):
        setattr(app.store, verb, slowed(verb))


async def crash(app: FlowApp, after: float) -> None:
    await app.clock.asleep(after)
    await app.kill()
    app.revive()


async def story(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[FlowOutcome, list[Report]]:
    chance = random.Random(seed)
    async with flow_app() as app:
        handler = Handler(app, chance)
        monkeypatch.setattr(Runner, "_new_http_runner", lambda _: handler)
        slow_down(app, chance)
        graph = redrive.read_graph(GRAPH)
        redrive.register_graph(graph)
        handle = await app.start(graph.call({}))
        crashes = [chance.choice(MOMENTS) for _ in range(chance.choice((0, 0, 1, 2)))]
        crashing = [asyncio.ensure_future(crash(app, after)) for after in crashes]
        outcome = await app.outcome(handle)
        await asyncio.gather(*handler.tasks, *crashing)
        return outcome, handler.reports


def counted(outcome: FlowOutcome) -> set[str]:
    """What the log says that attempts ended with."""
    said = set[str]()
    for line in outcome.lines:
        if isinstance(line.event, ItemCompleted):
            said.add(json.loads(bytes(line.event.result))["parcel"])
        elif isinstance(line.event, AttemptFailed):
            said.add(line.event.failure.message)
    return said


@pytest.mark.promise("X5", "A16")
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_in_every_order_an_acknowledged_report_counts(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 30):
        outcome, reports = asyncio.run(story(seed, monkeypatch))
        assert outcome.status in ("completed", "failed")
        said = counted(outcome)
        by_attempt: dict[str, list[Report]] = {}
        for report in reports:
            by_attempt.setdefault(report.said.partition(" of ")[2], []).append(report)
        for of_attempt in by_attempt.values():
            # Another report of the same attempt may have come first; they are answered in any order.
            accepted = [one for one in of_attempt if one.answer == "accepted"]
            assert not accepted or any(one.said in said for one in of_attempt), (seed, of_attempt, outcome)
            for one in of_attempt:
                assert one.answer in ("accepted", "duplicate") or one.said not in said, (seed, one, outcome)
