"""What operators do in the browser: each action asks for the reason, says what happened, and shows it live."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.incident_flows import count, spoil, start, status, tidy_up, until
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V2")


def confirm(page: Page, verb: str, why: str = "tested") -> None:
    """Give the reason in the open dialog, and say yes."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Why")).fill(why)
    dialog.get_by_label(re.compile("^Your name")).fill("anna")
    dialog.get_by_role("button", name=verb).click()


def close(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name="OK").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_flow_is_paused_resumed_and_cancelled(night: Night, page: Page) -> None:
    flow = start(night.client, "workflow", "Reminder", {"hours": 5})
    show(page, f"/flows/{flow}")
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


def test_a_flow_is_cancelled_at_once(night: Night, page: Page) -> None:
    flow = start(night.client, "action", "write_report", {"month": "2026-11"})
    show(page, f"/flows/{flow}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_label(re.compile("^End it at once")).check()
    confirm(page, "Cancel the flow", "the wrong month")
    close(page)
    expect(page.locator(".headline .status")).to_have_text("cancelled")


def test_a_dead_letter_is_redriven_and_discarded_from_its_flow(night: Night, page: Page) -> None:
    [flow] = spoil(night.client, "no such mailbox")
    show(page, f"/flows/{flow}")
    page.get_by_role("button", name="Redrive").click()
    confirm(page, "Redrive", "the mailbox is there now")
    expect(page.get_by_role("dialog")).to_contain_text("The flow was put back")
    close(page)
    expect(page.locator(".notes")).to_contain_text("the mailbox is there now")
    expect(page.locator("#item-1 .segment.attempt")).to_have_count(2)
    page.get_by_role("button", name="Discard").click()
    confirm(page, "Discard", "it never was")
    expect(page.get_by_role("dialog")).to_contain_text("The dead letter was discarded.")
    close(page)
    expect(page.get_by_role("button", name="Redrive")).to_have_count(0)
    letter = night.client.get(f"/v1/dead-letters/{flow}").json()
    assert (letter["state"], letter["why"]) == ("discarded", "it never was")


def step_of(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name="Steps").get_by_role("row").filter(has_text=name)


def test_a_failed_step_is_tried_again_and_completed_by_hand(night: Night, page: Page) -> None:
    flow = start(night.client, "graph", "parcel", {"order": "o-2", "lines": ["pen"]})
    show(page, f"/flows/{flow}")
    row = step_of(page, "book")
    expect(row).to_contain_text("waiting")
    attempts = page.get_by_role("region", name="Every attempt").get_by_role("row").filter(has_text="no route to host")
    expect(attempts).to_have_count(1)
    row.get_by_role("button", name="Try again").click()
    confirm(page, "Try again", "the network is back")
    close(page)
    expect(attempts).to_have_count(2)
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
    assert "the network is back" in night.client.get(f"/v1/flows/{flow}/explain").text


def test_a_step_is_resolved_by_hand(night: Night, page: Page) -> None:
    flow = start(night.client, "graph", "parcel", {"order": "o-3", "lines": ["pen"]})
    show(page, f"/flows/{flow}")
    step_of(page, "book").get_by_role("button", name="Resolve").click()
    confirm(page, "Resolve it", "the customer came by")
    expect(page.get_by_role("dialog")).to_contain_text("The step will be resolved.")
    close(page)
    expect(page.locator(".notes")).to_contain_text("the customer came by")
    expect(step_of(page, "book").get_by_role("button")).to_have_count(0)


def test_chosen_flows_are_cancelled_together(night: Night, page: Page) -> None:
    client = night.client
    for number in range(3):
        start(client, "workflow", "Reminder", {"hours": 4}, key=f"bulk-{number}")
    show(page, "/flows?text=bulk-")
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


def test_chosen_flows_are_retried_paused_and_resumed_together(night: Night, page: Page) -> None:
    client = night.client
    flows = [start(client, "action", "book_carrier", {"weight": 1}, key=f"some-{number}") for number in range(2)]
    until(lambda: count(client, retrying="true", text="some-") == 2)
    show(page, "/flows?text=some-")
    bar = page.get_by_role("region", name="Actions on the selected flows")

    def act(verb: str, why: str) -> None:
        page.get_by_label("Select all rows").check()
        bar.get_by_role("button", name=verb).click()
        confirm(page, f"{verb} 2 flows", why)
        expect(page.get_by_role("dialog")).to_contain_text("Done: 2 flows.")
        close(page)

    act("Retry now", "the shift has ended")
    until(lambda: all(attempts_of(night, flow) == 2 for flow in flows))
    act("Pause", "lunch")
    until(lambda: count(client, status="paused", text="some-") == 2)
    expect(page.locator("tbody .status").first).to_have_text("paused")
    act("Resume", "full again")
    until(lambda: count(client, status="waiting", text="some-") == 2)
    for flow in flows:
        client.post(f"/v1/flows/{flow}/cancel", json={"why": "tidying up"})


def attempts_of(night: Night, flow: str) -> int:
    made: int = night.client.get(f"/v1/flows/{flow}").json()["steps"][0]["items"][0]["attempts"]
    return made


def test_failed_flows_are_redriven_together(night: Night, page: Page) -> None:
    flows = spoil(night.client, "a", "b")
    show(page, "/flows?status=failed&definition=spoil")
    for flow in flows:
        page.get_by_label(f"Select spoil {flow}").check()
    page.get_by_role("region", name="Actions on the selected flows").get_by_role("button", name="Redrive").click()
    confirm(page, "Redrive 2 flows", "fixed by hand")
    expect(page.get_by_role("dialog")).to_contain_text("Done: 2 flows.")
    close(page)
    for flow in flows:
        assert "fixed by hand" in night.client.get(f"/v1/flows/{flow}/explain").text
    until(lambda: all(status(night.client, flow) == "failed" for flow in flows))
    tidy_up(night.client)


def test_all_that_match_are_paused_resumed_and_cancelled_after_a_dry_run(night: Night, page: Page) -> None:
    client = night.client
    for number in range(55):
        start(client, "workflow", "Reminder", {"hours": 4}, key=f"many-{number}")
    until(lambda: count(client, status="waiting", text="many-") == 55)
    show(page, "/flows?text=many-")
    expect(page.locator("tbody tr")).to_have_count(50)
    bar = page.get_by_role("region", name="Actions on the selected flows")
    for verb, becomes in (("Pause", "paused"), ("Resume", "waiting"), ("Cancel", "cancelled")):
        page.get_by_label("Select all rows").check()
        bar.get_by_role("button", name="Select all 55 that match").click()
        expect(bar).to_contain_text("All 55 that match")
        bar.get_by_role("button", name=verb).click()
        expect(page.get_by_role("dialog")).to_contain_text("55 flows will be changed.")
        confirm(page, f"{verb} all that match")
        expect(page.get_by_role("dialog")).to_contain_text("Done: 55 flows.")
        close(page)
        until(lambda: count(client, status=becomes, text="many-") == 55)  # noqa: B023 - called before the next turn


def test_a_wait_is_skipped_by_retrying_now(night: Night, page: Page) -> None:
    flow = start(night.client, "action", "book_carrier", {"weight": 1}, key="retry-now")
    show(page, f"/flows/{flow}")
    failed = page.locator("#item-1 .segment.attempt.bad")
    expect(failed).to_have_count(1)
    page.get_by_role("button", name="Retry now").click()
    confirm(page, "Retry now", "the shift has ended")
    close(page)
    expect(failed).to_have_count(2)
    expect(page.locator("main")).to_contain_text("the shift has ended")
    night.client.post(f"/v1/flows/{flow}/cancel", json={"why": "tidying up"})


def test_an_error_of_the_server_is_shown_in_the_dialog(night: Night, page: Page) -> None:
    client = night.client
    flow = start(client, "workflow", "Reminder", {"hours": 5})
    show(page, f"/flows/{flow}")
    page.get_by_role("button", name="Pause").click()
    page.route("**/pause", lambda route: route.abort())
    confirm(page, "Pause")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("The server cannot be reached.")
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
