"""A report that was answered with 202 counts, whatever the handler answers afterwards, and however late it comes."""

import asyncio
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.end_to_end.scene import PATIENCE, until
from tests.end_to_end.served import ServedApp, served

import redrive
from redrive.client.app import App
from redrive.flows.events import AttemptFailed
from redrive.stores.records import FINISHED
from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Seen

TIMEOUT = 0.5
AROUND_TIMEOUT = 24
STEP = {"mode": "async", "outputs": {"parcel": "string"}}
ANSWERS = {
    "503": Reply(status=503),
    "422": Reply(status=422),
    "reset": Reply(fault="reset"),
    "closed": Reply(fault="close"),
    "cut off": Reply(fault="cut_body", body={"outputs": "half of it"}),
    "says failed": Reply(body={"success": False, "error": "no"}),
    "not json": Reply(body=b"<html>"),
    "other outputs": Reply(body={"parcel": "of the answer"}),
    "accepted": Reply(status=202),
}


class ReportingHandler:
    """Reports the outcome of each first attempt, and answers it then or at once. Later attempts are counted."""

    def __init__(self, answer: Callable[[], Reply], after: Callable[[], float], at_once: bool = False) -> None:
        """`after`: seconds until the report. `at_once`: the answer does not wait for it."""
        self._answer = answer
        self._after = after
        self._at_once = at_once
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.acknowledged: dict[str, bool] = {}
        """By flow, whether the report was."""

    def reply(self, seen: Seen) -> Reply:
        flow = seen.headers["redrive-flow"]
        with self._lock:
            self.calls[flow] += 1
            attempt, answer, after = self.calls[flow], self._answer(), self._after()
        if attempt > 1:
            return Reply(body={"parcel": f"of attempt {attempt}"})
        reporting = threading.Thread(target=self._report, args=(flow, seen.headers["redrive-callback"], after))
        reporting.start()
        if not self._at_once:
            reporting.join()
        return answer

    def _report(self, flow: str, url: str, after: float) -> None:
        time.sleep(after)
        self.acknowledged[flow] = post(url, {"success": True, "outputs": {"parcel": "p1"}})[0] in (200, 202)


def post(url: str, data: object) -> tuple[int, Any]:
    request = Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})  # noqa: S310 - our own
    try:
        with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - our own server
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, error.read()


@contextmanager
def two_processes(address: str, beside: bool) -> Iterator[tuple[ServedApp, App]]:
    """A server that takes the reports, and an app: the worker is in the server, or `beside` it in the app."""
    with served(address, *(["--no-worker"] if beside else [])) as server:
        http = redrive.HttpSettings(allow=("private",), callback_base=server.url)
        yield server, redrive.open(address, http=http, worker=beside)


async def run_flows(server: ServedApp, app: App, count: int, **step: Any) -> list[str]:
    """Flows of one step that have all ended."""
    await app.register_step({"name": "pack", **STEP, **step})
    start = {"goals": ["pack"], "inputs": {}}
    flows = [(await asyncio.to_thread(post, f"{server.url}/v1/flows", start))[1]["id"] for _ in range(count)]

    async def have_ended() -> bool:
        return all([(await app.find(flow)).status in (*FINISHED, "parked") for flow in flows])

    await until(have_ended, 3 * PATIENCE)
    return flows


@pytest.mark.promise("X5", "A16")
@pytest.mark.parametrize("beside", [False, True], ids=["worker in the server", "worker beside it"])
def test_a_report_counts_before_the_answer_of_its_own_handler(address: str, beside: bool) -> None:
    answers = itertools.cycle(ANSWERS.values())
    handler = ReportingHandler(lambda: next(answers), lambda: 0.0)

    async def story(server: ServedApp, app: App, url: str) -> None:
        retry = {"max_retries": 3, "backoff": 10}
        async with app:
            flows = await run_flows(server, app, 2 * len(ANSWERS), endpoint=url, timeout="20s", work_config=retry)
            for flow in flows:
                assert handler.acknowledged[flow]
                assert await app.handle(flow).result(timeout=PATIENCE) == {"parcel": "p1"}
                assert handler.calls[flow] == 1

    with FlakyServer(then=handler.reply) as handlers, two_processes(address, beside) as (server, app):
        asyncio.run(story(server, app, handlers.url))


@pytest.mark.promise("X5", "A16")
@pytest.mark.parametrize("at_once", [True, False], ids=["accepted before", "not answered before"])
def test_a_report_around_the_timeout_counts_exactly_if_it_is_acknowledged(address: str, at_once: bool) -> None:
    chance = random.Random(7)
    handler = ReportingHandler(lambda: Reply(status=202), lambda: TIMEOUT + chance.uniform(-0.3, 0.1), at_once)

    async def story(server: ServedApp, app: App, url: str) -> None:
        once, timeout = {"max_retries": 0}, f"{TIMEOUT:g}s"
        async with app:
            flows = await run_flows(server, app, AROUND_TIMEOUT, endpoint=url, timeout=timeout, work_config=once)
            for flow in flows:

                async def is_answered(flow: str = flow) -> bool:
                    return flow in handler.acknowledged

                await until(is_answered)
                status, lines = (await app.find(flow)).status, await app.read_lines(flow)
                failed = any(isinstance(line.event, AttemptFailed) for line in lines)
                assert (status == "completed", failed) == (handler.acknowledged[flow], not handler.acknowledged[flow])

    with FlakyServer(then=handler.reply) as handlers, two_processes(address, beside=True) as (server, app):
        asyncio.run(story(server, app, handlers.url))
