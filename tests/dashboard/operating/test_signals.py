"""A flow that waits for a signal says until when, and takes one from the page."""

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.incident_flows import start
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.tab import show


@pytest.mark.promise("V1", "V2")
def test_the_signal_that_a_flow_waits_for_is_sent(night: Night, page: Page) -> None:
    flow = start(night.client, "workflow", "Approval", {"order": "o-17"})
    show(page, f"/flows/{flow}")
    waits = page.get_by_role("region", name="Where it stands")
    expect(waits).to_contain_text("The signal 'approved'", ignore_case=True)
    expect(waits.locator(".waits").first).to_contain_text("30d")
    waits.get_by_role("button", name="Send approved").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("ann called")
    dialog.get_by_label("Arguments").fill("{by: ann}")
    dialog.get_by_role("button", name="Send it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Arguments is not JSON")
    said = confirm(page, "Send it", "ann called", Arguments='{"by": "ann"}')
    assert said == "The signal approved was sent."
    expect(page.get_by_role("region", name="Result")).to_contain_text("o-17 was approved by ann")
    expect(page.get_by_role("region", name="What else happened")).to_contain_text('Signal approved(by="ann")')
    assert "approved: ann called" in night.client.get("/v1/audit", params={"action": "flow.signal"}).text
