"""The view of queues and workers: depth, limits, pauses; who is alive, what it knows and runs."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.incident_flows import start
from tests.dashboard.operating.conftest import HOSTILE
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V1")


@pytest.fixture
def page(shop: ServerProcess, checked_tab: Page) -> Page:
    checked_tab.goto(f"{shop.url}/queues")
    return checked_tab


def row(page: Page, queue: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=queue, exact=True))


@pytest.mark.promise("V2")
def test_a_queue_is_paused_and_resumed_with_its_why(shop: ServerProcess, page: Page) -> None:
    start(shop.client, "action", "write_report", {"month": "2026-09"}, queue="imports")
    imports = row(page, "imports")
    expect(imports).to_contain_text("active")
    imports.get_by_role("button", name="Pause").click()
    assert confirm(page, "Pause it", HOSTILE) == "The queue imports is paused."
    expect(imports).to_contain_text("paused")
    expect(imports).to_contain_text(HOSTILE[:60])
    [stored] = [one for one in shop.client.get("/v1/queues").json()["queues"] if one["name"] == "imports"]
    assert stored["pause"]["why"] == HOSTILE
    assert "anna" in stored["pause"]["by"]
    start(shop.client, "action", "import_row", {"number": 2}, queue="imports")
    expect(imports.get_by_role("cell").nth(2)).to_have_text("1")
    imports.get_by_role("button", name="Resume").click()
    assert confirm(page, "Resume it", "it is over") == "The queue imports goes on."
    expect(imports).to_contain_text("active")
    audit = shop.client.get("/v1/audit", params={"action": "queue.resume"}).text
    assert "it is over" in audit


@pytest.mark.promise("V2")
def test_a_queue_is_limited_and_a_wrong_limit_is_refused(shop: ServerProcess, page: Page) -> None:
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


def test_a_worker_says_what_it_knows_and_runs(shop: ServerProcess, page: Page) -> None:
    start(shop.client, "action", "write_report", {"month": "2026-10"})
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
