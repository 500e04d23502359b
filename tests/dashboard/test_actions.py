"""What operators do in the browser: each action asks for the reason, says what happened, and shows it live."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night, OpenPage
from tests.dashboard.incident_flows import count, start, until
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V2")


def confirm(page: Page, verb: str, why: str = "tested") -> None:
    """Give the reason in the open dialog, and say yes."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Why")).fill(why)
    dialog.get_by_label(re.compile("^Your name")).fill("anna")
    dialog.get_by_role("button", name=verb).click()


def close(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_flow_is_paused_resumed_and_cancelled(night: Night, open_page: OpenPage) -> None:
    flow = start(night.server.client, "workflow", "Reminder", {"hours": 5})
    page = open_page(f"{night.url}/flows/{flow}")
    status = page.locator(".headline .status")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog")).to_be_visible()  # no reason was given
    confirm(page, "Pause", "lunch")
    expect(page.get_by_role("dialog")).to_contain_text("The flow will pause.")
    close(page)
    expect(status).to_have_text("paused")
    expect(page.locator(".headline")).to_contain_text("anna")
    expect(page.locator(".headline")).to_contain_text("lunch")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog").get_by_label(re.compile("^Your name"))).to_have_value("anna")
    confirm(page, "Resume")
    close(page)
    expect(status).to_have_text(re.compile("waiting|running"))
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the flow", "ordered twice")
    close(page)
    expect(status).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_a_dead_letter_is_redriven_from_its_flow(night: Night, open_page: OpenPage) -> None:
    client = night.server.client
    flow = start(client, "action", "send_mail", {"to": "emil"})
    until(lambda: client.get(f"/v1/flows/{flow}").json()["status"] == "failed")
    page = open_page(f"{night.url}/flows/{flow}")
    page.get_by_role("button", name="Redrive").click()
    confirm(page, "Redrive", "the mailbox is there now")
    expect(page.get_by_role("dialog")).to_contain_text("The flow was put back")
    close(page)
    expect(page.locator(".notes")).to_contain_text("the mailbox is there now")
    expect(page.locator("#item-1 .segment.attempt")).to_have_count(2)
    # Others count the dead letters of this night.
    client.post(f"/v1/dead-letters/{flow}/discard", json={"why": "tidying up"})


def test_a_failed_step_is_completed_by_hand(night: Night, open_page: OpenPage) -> None:
    flow = start(night.server.client, "graph", "parcel", {"order": "o-2", "lines": ["pen"]})
    page = open_page(f"{night.url}/flows/{flow}")
    row = page.get_by_role("region", name="Steps").get_by_role("row").filter(has_text="book")
    expect(row).to_contain_text("waiting")
    row.get_by_role("button", name="Complete").click()
    outputs = page.get_by_role("dialog").get_by_label(re.compile("^Outputs"))
    outputs.fill("{booking")
    confirm(page, "Complete it", "booked by phone")
    expect(page.get_by_role("alert")).to_contain_text("Outputs is not JSON")
    outputs.fill('{"booking": "by phone"}')
    confirm(page, "Complete it", "booked by phone")
    close(page)
    expect(page.locator(".headline .status")).to_have_text("completed")
    expect(page.locator(".notes")).to_contain_text("completed manually")


def test_chosen_flows_are_cancelled_together(night: Night, open_page: OpenPage) -> None:
    client = night.server.client
    for number in range(3):
        start(client, "workflow", "Reminder", {"hours": 4}, key=f"bulk-{number}")
    page = open_page(f"{night.url}/flows?text=bulk-")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Select Reminder bulk-1").check()
    expect(page.get_by_role("region", name="Actions on the selected flows")).to_contain_text("1 selected")
    page.get_by_label("Select all rows").check()
    page.get_by_role("region", name="Actions on the selected flows").get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel 3 flows")
    expect(page.get_by_role("dialog")).to_contain_text("Done: 3 flows.")
    close(page)
    until(lambda: count(client, status="cancelled", text="bulk-") == 3)
    expect(page.locator("tbody")).not_to_contain_text("waiting")


def test_all_that_match_are_paused_after_a_dry_run(night: Night, open_page: OpenPage) -> None:
    client = night.server.client
    for number in range(55):
        start(client, "workflow", "Reminder", {"hours": 4}, key=f"many-{number}")
    until(lambda: count(client, status="waiting", text="many-") == 55)
    page = open_page(f"{night.url}/flows?text=many-")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_label("Select all rows").check()
    bar = page.get_by_role("region", name="Actions on the selected flows")
    bar.get_by_role("button", name="Select all 55 that match").click()
    expect(bar).to_contain_text("All 55 that match")
    bar.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog")).to_contain_text("55 flows will be changed.")
    confirm(page, "Pause all that match")
    expect(page.get_by_role("dialog")).to_contain_text("Done: 55 flows.")
    until(lambda: count(client, status="paused", text="many-") == 55)
    client.post("/v1/flows/bulk", json={"action": "cancel", "filter": {"text": "many-"}, "why": "tidying up"})
    until(lambda: count(client, status="cancelled", text="many-") == 55)


def test_a_wait_is_skipped_by_retrying_now(night: Night, open_page: OpenPage) -> None:
    flow = start(night.server.client, "workflow", "Restock", {"order": "o-3"}, key="retry-now")
    page = open_page(f"{night.url}/flows/{flow}")
    failed = page.locator("#item-1 .segment.attempt.bad")
    expect(failed).to_have_count(1)
    page.get_by_role("button", name="Retry now").click()
    confirm(page, "Retry now", "the shift has ended")
    close(page)
    expect(failed).to_have_count(2)
    expect(page.locator("main")).to_contain_text("the shift has ended")
    night.server.client.post(f"/v1/flows/{flow}/cancel", json={"why": "tidying up"})


def test_an_error_of_the_server_is_shown_in_the_dialog(night: Night, open_page: OpenPage) -> None:
    client = night.server.client
    flow = start(client, "workflow", "Reminder", {"hours": 5})
    page = open_page(f"{night.url}/flows/{flow}")
    page.get_by_role("button", name="Pause").click()
    page.route("**/pause", lambda route: route.abort())
    confirm(page, "Pause")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("The server cannot be reached.")
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_roles_decide_what_is_shown_and_offered(empty: ServerProcess, open_page: OpenPage) -> None:
    flow = start(empty.client, "action", "import_row", {"number": 99})
    until(lambda: empty.client.get(f"/v1/flows/{flow}").json()["status"] == "completed")
    sleeping = start(empty.client, "workflow", "Reminder", {"hours": 5})
    reader, operator = empty.key("read"), empty.key("operate")
    page = open_page(f"{empty.url}/flows/{flow}")
    key = page.get_by_label("API key")
    key.fill("rdk_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    key.fill(reader)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".headline .status")).to_have_text("completed")
    expect(page.get_by_role("region", name="Result")).to_contain_text("Your key may not see payloads")
    assert "row 99" not in page.content()
    assert reader not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
    page.goto(f"{empty.url}/flows/{sleeping}")
    expect(page.locator(".headline .status")).to_have_text("waiting")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.goto(f"{empty.url}/flows")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    key.fill(operator)
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{empty.url}/flows/{sleeping}")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause", "role tested")
    close(page)
    expect(page.locator(".headline .status")).to_have_text("paused")
