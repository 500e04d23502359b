"""A flow shows its children by state, and each child leads to its parent."""

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.incident_flows import start
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.tab import show


@pytest.mark.promise("V1", "V3")
def test_children_are_counted_by_state_and_lead_to_their_parent(night: Night, page: Page) -> None:
    parent = start(night.client, "workflow", "Delivery", {"parcels": 2}, queue="children")
    show(page, f"/flows/{parent}")
    children = page.get_by_role("region", name="Children")
    bar = children.locator(".counts-bar")
    expect(bar).to_have_attribute("aria-label", "2 completed, 1 waiting")
    children.get_by_role("link", name="1 waiting").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(".chips")).to_contain_text(f"parent: {parent}")
    page.locator("tbody [data-row]").click()
    page.locator(".facts.across").get_by_role("link", name=parent).click()
    expect(children).to_contain_text("3 children")
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the flow", "it was delivered")
    expect(bar).to_have_attribute("aria-label", "2 completed, 1 cancelled")
