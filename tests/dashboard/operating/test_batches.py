"""The view of batches: counts by state, progress, cancel and redrive; and flows by batch and tag."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.hostile_text import SCRIPT
from tests.dashboard.incident_flows import tidy_up
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")
NAME = SCRIPT.replace("/", "|")
"""A batch cannot have a slash in its name."""


def row(page: Page) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=NAME, exact=True))


@pytest.mark.promise("V2", "V4")
def test_a_batch_is_counted_redriven_and_cancelled(night: Night, page: Page) -> None:
    show(page, "/batches")
    rows = [{"action": "import_row", "inputs": {"number": number}, "queue": "batches"} for number in range(2)]
    rest = [
        {"action": "spoil", "inputs": {"name": "a.txt"}},
        {"workflow": "Reminder", "inputs": {"hours": 2}, "tags": {"tenant": "beta"}},
    ]
    body = {"name": NAME, "flows": rows + rest, "tags": {"tenant": SCRIPT[:200]}}
    answer = night.client.post("/v1/batches", json=body)
    assert answer.status_code == 201, answer.text
    batch = row(page)
    expect(batch.locator(".counts-bar")).to_have_attribute("aria-label", "2 completed, 1 failed, 1 waiting")
    expect(batch).to_contain_text("3 of 4 flows ended (75 %)")
    batch.get_by_role("button", name="Redrive failed").click()
    assert confirm(page, "Redrive 1", "the picture was replaced") == "1 flow will be run again."
    batch.get_by_role("button", name="Cancel").click()
    assert confirm(page, "Cancel the flows", SCRIPT) == "1 flow will be cancelled."
    expect(batch).to_contain_text("done, 1 failed")
    expect(batch).to_contain_text("4 of 4 flows ended (100 %)")
    expect(batch.get_by_role("button", name="Cancel")).to_have_count(0)
    audit = night.client.get("/v1/audit", params={"action": "batch.redrive"}).text
    assert "the picture was replaced" in audit

    page.get_by_label("State").select_option("running")
    expect(page.locator(".empty")).to_contain_text("No batch matches")
    page.get_by_label("State").select_option("done")
    batch.get_by_role("link", name="1 cancelled").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name=f"Remove the filter batch: {NAME}").click()
    page.locator("tbody").get_by_role("link", name="tenant=beta").first.click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(".chips")).to_contain_text("tenant=beta")
    page.locator("tbody [data-row]").click()
    expect(page.locator(".facts.across .tags")).to_have_text("tenant=beta")
    page.locator(".facts.across").get_by_role("link", name=NAME, exact=True).click()
    expect(page).to_have_url(re.compile("/batches[?]name="))
    expect(row(page)).to_contain_text("done, 1 failed")
    assert page.evaluate("window.hit") is None
    tidy_up(night.client)


def test_flows_are_found_by_several_tags(night: Night, page: Page) -> None:
    for number, tags in enumerate(({"a": "1", "b": "2"}, {"a": "1"})):
        given = {"action": "import_row", "inputs": {"number": number}, "queue": "tags", "tags": tags}
        assert night.client.post("/v1/flows", json=given).status_code == 201
    show(page, "/flows?tag=a%3D1")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Also with the tag").fill("b=2")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Remove the filter a=1").click()
    expect(page).to_have_url(re.compile(r"/flows[?]tag=b%3D2$"))
