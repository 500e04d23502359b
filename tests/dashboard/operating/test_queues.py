"""The view of queues and workers: depth, limits, pauses; who is alive, what it knows and runs."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.hostile_text import SCRIPT
from tests.dashboard.incident_flows import control, start
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")


@pytest.fixture(autouse=True)
def queues(page: Page) -> None:
    show(page, "/queues")


def row(page: Page, queue: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=queue, exact=True))


@pytest.mark.promise("V2")
def test_a_queue_is_paused_and_resumed_with_its_why(night: Night, page: Page) -> None:
    report = start(night.client, "action", "write_report", {"month": "2026-09"}, queue="labels")
    labels = row(page, "labels")
    expect(labels).to_contain_text("active")
    labels.get_by_role("button", name="Pause").click()
    assert confirm(page, "Pause it", SCRIPT) == "The queue labels is paused."
    expect(labels).to_contain_text("paused")
    expect(labels).to_contain_text(SCRIPT[:60])
    [stored] = [one for one in night.client.get("/v1/queues").json()["queues"] if one["name"] == "labels"]
    assert stored["pause"]["why"] == SCRIPT
    assert "anna" in stored["pause"]["by"]
    start(night.client, "action", "import_row", {"number": 2}, queue="labels")
    expect(labels.get_by_role("cell").nth(2)).to_have_text("1")
    labels.get_by_role("button", name="Resume").click()
    assert confirm(page, "Resume it", "it is over") == "The queue labels goes on."
    expect(labels).to_contain_text("active")
    audit = night.client.get("/v1/audit", params={"action": "queue.resume"}).text
    assert "it is over" in audit
    control(night.client, f"/v1/flows/{report}/cancel", "tidying up")


@pytest.mark.promise("V2")
def test_a_queue_is_limited_and_a_wrong_limit_is_refused(night: Night, page: Page) -> None:
    default = row(page, "default")
    expect(default).to_contain_text("no limit")
    default.get_by_role("button", name="Limit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("the database is slow")
    dialog.get_by_label("Limit").fill("many")
    dialog.get_by_role("button", name="Set the limit").click()
    expect(dialog.get_by_role("alert")).to_contain_text("many is not a limit; write a whole number from 1")
    said = confirm(page, "Set the limit", "the database is slow", Limit="25")
    assert said == "The queue default runs 25 of its flows at once."
    expect(default).to_contain_text("of 25")
    default.get_by_role("button", name="Limit").click()
    assert confirm(page, "Set the limit", "it is fast again", Limit="") == "The queue default has no limit."
    expect(default).to_contain_text("no limit")


def test_a_worker_says_what_it_knows_and_runs(page: Page) -> None:
    worker = page.locator(".worker")
    expect(worker).to_have_count(1)
    expect(worker).to_contain_text("alive")
    expect(worker).to_contain_text("takes all queues")
    worker.locator(".knows summary").click()
    expect(worker.locator(".known")).to_contain_text("send_mail")
    expect(worker.locator(".running summary")).to_contain_text("write_report")
    expect(worker.locator(".slots")).to_contain_text(re.compile(r"busy"))
    worker.locator(".running summary").click()
    worker.locator(".running a", has_text="write_report").first.click()
    expect(page).to_have_url(re.compile("/flows/"))


def test_a_queue_leads_to_its_flows(page: Page) -> None:
    page.get_by_role("link", name="default", exact=True).click()
    expect(page).to_have_url(re.compile(r"/flows\?queue=default$"))
