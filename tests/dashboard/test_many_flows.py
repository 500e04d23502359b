"""The page stays quick when the store is full: 100,000 flows, of which 10,000 are retried and 1,000 are dead."""

import json
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.conftest import INCIDENT, OpenPage
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V6")
FLOWS, RETRIED, DEAD = 100_000, 10_000, 1_000
SLOW = 5.0
"""Seconds. An idle machine needs less than one; on busy ones, what is not bounded takes longer than this."""
FLOW = """
INSERT INTO flows (id, definition, queue, priority, key, status, created_at, start_at, wake_at, finished_at, claims,
    input)
VALUES (?, ?, 'default', 0, ?, ?, ?, ?, ?, ?, 1, '{}')
"""
RETRY = """
INSERT INTO retry_queue (flow_id, item, step, queue, status, attempt_number, max_retries, backoff_kind,
    backoff_base_delay_ms, retry_kind, scheduled_at, definition, dependency, waits_for, reason, error_type, since)
VALUES (?, 1, 'charge_card', 'default', 'waiting', 3, 7, 'exponential', 2000, 'exception', ?, 'workflow:Order',
    'payments', 'circuit', 'the circuit of payments is open', 'ConnectionError', ?)
"""
LETTER = """
INSERT INTO dead_letters (flow_id, definition, queue, at, kind, step, attempts, error_type, message, payload, state)
VALUES (?, 'action:send_mail', 'default', ?, 'permanent', 'send_mail', 1, 'redrive.errors.Permanent', 'no mailbox',
    '{}', 'dead')
"""


def fill(path: Path) -> None:
    """Write the rows that so many flows would have left."""
    now = time.time()
    dice = random.Random(7)
    flows: list[tuple[object, ...]] = []
    retries: list[tuple[object, ...]] = []
    letters: list[tuple[object, ...]] = []
    for number in range(FLOWS):
        flow = f"01a00000-0000-7000-8000-{number:012d}"
        at = now - dice.uniform(60, 86_400)
        if number % 10 == 3:
            flows.append((flow, "workflow:Order", f"order-{number}", "waiting", at, at, now + 3600, None))
            retries.append((flow, now + dice.uniform(60, 3600), at))
        elif number % 100 == 7:
            flows.append((flow, "action:send_mail", None, "failed", at, at, None, at + 1))
            letters.append((flow, at + 1))
        else:
            flows.append((flow, "action:make_thumbnail", None, "completed", at, at, None, at + 1))
    assert (len(retries), len(letters)) == (RETRIED, DEAD)
    with sqlite3.connect(path) as database:
        database.executemany(FLOW, flows)
        database.executemany(RETRY, retries)
        database.executemany(LETTER, letters)
    database.close()


@pytest.fixture(scope="module")
def full(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("full")
    with ServerProcess(f"sqlite:///{folder}/full.db", folder, INCIDENT, "--no-worker") as server:
        fill(folder / "full.db")
        yield server


def test_the_first_view_is_there_at_once(full: ServerProcess, open_page: OpenPage) -> None:
    began = time.monotonic()
    page = open_page(full.url)
    expect(page.get_by_role("list", name="What needs you")).to_contain_text("1,000 flows failed for good")
    expect(page.get_by_role("region", name="By dependency")).to_contain_text("10,000")
    assert time.monotonic() - began < SLOW


def test_filters_answer_at_once_and_rows_stay_few(full: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{full.url}/flows")
    expect(page.locator("tbody tr")).to_have_count(50)
    for name, wanted in (("Retrying", "Order"), ("Needs you", "send_mail"), ("Completed", "make_thumbnail")):
        began = time.monotonic()
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("tbody tr a").first).to_contain_text(wanted)
        assert time.monotonic() - began < SLOW
    page.get_by_role("link", name="All", exact=True).click()
    page.get_by_role("searchbox").fill("order-99993")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.evaluate("document.querySelectorAll('*').length") < 4000


def test_a_flood_of_updates_does_not_freeze_the_page(full: ServerProcess, open_page: OpenPage) -> None:
    """Ten seconds of sixty updates each, which arrive together."""
    seen = full.client.get("/v1/overview").json()
    stream = "".join(
        f"id: {number}\nevent: snapshot\ndata: {json.dumps({**seen, 'dead': number})}\n\n" for number in range(1, 601)
    )
    page = open_page("about:blank")
    page.route("**/v1/overview", lambda route: route.fulfill(content_type="text/event-stream", body=stream))
    began = time.monotonic()
    page.goto(full.url)
    expect(page.get_by_role("list", name="What needs you")).to_contain_text("600 flows failed for good")
    page.get_by_role("link", name="600 flows failed for good").focus()
    assert time.monotonic() - began < SLOW
