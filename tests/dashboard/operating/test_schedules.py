"""The views of schedules: the next tick, the last flows, what was skipped and why; pause, resume, trigger, backfill."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.hostile_text import SCRIPT
from tests.dashboard.incident_flows import control
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")
ROW = {"action": "import_row", "inputs": {"number": 9}, "queue": "schedules", "tags": {"tenant": "acme"}}
DAILY = {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}


def url_of(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"


def put(night: Night, name: str, **body: Any) -> None:
    answer = night.client.put(url_of(name), json={"flow": ROW, "timing": DAILY, **body})
    assert answer.status_code == 200, answer.text


@pytest.fixture(autouse=True)
def schedules(night: Night, page: Page) -> Iterator[None]:
    show(page, "/schedules")
    yield
    for one in night.client.get("/v1/schedules").json()["schedules"]:
        night.client.delete(url_of(one["name"]), params={"why": "the test is over"})


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


@pytest.mark.promise("V2", "V4")
def test_a_schedule_is_paused_resumed_and_triggered_whatever_its_name(night: Night, page: Page) -> None:
    put(night, SCRIPT)
    one = row(page, SCRIPT)
    expect(one).to_contain_text("active")
    expect(one).to_contain_text("0 2 * * * in Europe/Berlin")
    expect(one).to_contain_text(re.compile(r"in \d+[hms]"))
    one.get_by_role("button", name="Pause").click()
    assert confirm(page, "Pause it", SCRIPT) == f"The schedule {SCRIPT} is paused."
    expect(one).to_contain_text("paused")
    expect(one).to_contain_text(SCRIPT[:60])
    one.get_by_role("button", name="Resume").click()
    confirm(page, "Resume it", "it is open")
    expect(one).to_contain_text("active")
    one.get_by_role("button", name="Trigger").click()
    assert "started the flow" in confirm(page, "Start a flow", "the report was wrong")
    expect(one.get_by_role("cell").nth(2)).to_contain_text("completed")
    one.get_by_role("link", name=SCRIPT, exact=True).click()
    expect(page.locator("h1")).to_have_text(SCRIPT)
    runs = page.get_by_role("region", name="Last flows")
    expect(runs).to_contain_text("the report was wrong")
    runs.get_by_role("link").click()
    expect(page.locator(".facts.across")).to_contain_text(f"the schedule {SCRIPT}, by hand at")
    expect(page.locator(".facts.across .tags")).to_have_text("tenant=acme")
    page.locator(".facts.across").get_by_role("link", name=SCRIPT, exact=True).click()
    expect(page.locator("h1")).to_have_text(SCRIPT)
    audit = night.client.get("/v1/audit", params={"action": "schedule.trigger"}).text
    assert "the report was wrong" in audit
    assert page.evaluate("window.hit") is None


@pytest.mark.promise("V2")
def test_past_ticks_are_filled_back_once(night: Night, page: Page) -> None:
    put(night, "reports", timing={"cron": "0 2 * * *"})
    row(page, "reports").get_by_role("link", name="reports").click()
    expect(page.locator(".ticks li")).to_have_count(5)
    today = datetime.now(UTC).replace(hour=0, minute=0)
    span = {"From": f"{today - timedelta(days=3):%Y-%m-%dT%H:%M}", "To": f"{today:%Y-%m-%dT%H:%M}"}
    for said in ("3 flows started.", "0 flows started; 3 ticks had one already."):
        page.get_by_role("button", name="Backfill").click()
        assert confirm(page, "Start the flows", "a new report", **span) == said


def test_what_was_skipped_is_shown_with_the_reason(night: Night, page: Page) -> None:
    nap = {"workflow": "Reminder", "inputs": {"hours": 2}}
    put(night, "often", flow=nap, timing={"every": "1s"})
    often = row(page, "often")
    expect(often).to_contain_text(re.compile(r"\d+ ticks?: an earlier flow still ran"))
    often.get_by_role("link", name="often").click()
    expect(page.get_by_role("region", name="Skipped ticks")).to_contain_text("an earlier flow still ran")
    flow = night.client.get(url_of("often")).json()["last_runs"][-1]["flow_id"]
    night.client.delete(url_of("often"), params={"why": "the test is over"})
    expect(page.locator("main")).to_contain_text("There is no schedule of this name")
    control(night.client, f"/v1/flows/{flow}/cancel", "tidying up")
