"""The views Now, Flows and a flow, in a browser, against a real server in the middle of an incident."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.incident_flows import CUSTOMERS, IMPORTS, MAILS, ORDERS, PICTURES, start
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")


def test_now_says_what_needs_somebody_and_leads_there(night: Night, page: Page) -> None:
    show(page, "/")
    expect(page.locator("h1")).to_have_text("2 things need you")
    needs = page.get_by_role("list", name="What needs you")
    dead = night.client.get("/v1/overview").json()["dead"]
    assert dead >= MAILS + CUSTOMERS + PICTURES
    expect(needs).to_contain_text(f"{dead} flows failed for good")
    expect(needs).to_contain_text("2 flows are parked")
    expect(page.locator(".held-line")).to_contain_text(f"the queue imports, with {IMPORTS} flows")
    needs.get_by_role("link", name="2 flows are parked").click()
    expect(page).to_have_url(re.compile(r"/flows\?status=parked$"))
    expect(page.locator("tbody tr")).to_have_count(2)


def test_now_says_which_dependency_fails_and_what_happens_next(night: Night, page: Page) -> None:
    show(page, "/")
    outage = page.locator(".outage", has_text="payments")
    expect(outage).to_contain_text(re.compile("payments (has been failing since|is recovering)"))
    expect(outage).to_contain_text(re.compile(f"{ORDERS} steps wait for it and go on by themselves"))
    expect(page.get_by_role("region", name="What happens next")).to_contain_text("payments")
    row = page.get_by_role("region", name="By dependency").get_by_role("row").filter(has_text="payments")
    expect(row).to_contain_text("open")
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"dependency=payments"))
    expect(page.locator("tbody tr")).to_have_count(ORDERS)


def test_the_list_says_what_a_flow_waits_for_and_until_when(night: Night, page: Page) -> None:
    show(page, "/flows?definition=workflow:Restock&status=waiting")
    expect(page.locator("tbody tr")).to_have_count(3)
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("waiting")
    expect(row).to_contain_text("Retry-After of the server")
    expect(row).to_contain_text("attempt 2 of 6 of reserve_stock")
    expect(row).to_contain_text("RetryAfter")
    countdown = row.locator(".countdown")
    expect(countdown).to_have_text(re.compile(r"in \d+[ms]( \d+s)?"))
    before = countdown.inner_text()
    expect(countdown).not_to_have_text(before)


def test_search_and_filters_are_kept_in_the_url(night: Night, page: Page) -> None:
    show(page, "/flows")
    expect(page.get_by_role("searchbox")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("order-1703")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"\?text=order-1703$"))
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value("order-1703")
    page.get_by_role("link", name="Completed").click()
    expect(page.locator("main")).to_contain_text("No flow matches")
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(1)
    show(page, "/flows")
    page.locator(".more-filters summary").click()
    page.get_by_label("Queue", exact=True).fill("imports")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("tbody tr")).to_have_count(IMPORTS)
    expect(page.locator(".chips")).to_contain_text("queue: imports")
    page.get_by_role("link", name="Remove the filter queue: imports").click()
    expect(page).to_have_url(re.compile(r"/flows$"))


def test_pages_follow_each_other(night: Night, page: Page) -> None:
    show(page, "/flows")
    expect(page.locator("tbody tr")).to_have_count(50)
    first = page.locator("tbody tr a").first.get_attribute("href")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("tbody tr a").first).not_to_have_attribute("href", first or "")
    page.get_by_role("link", name="First page").click()
    expect(page.locator("tbody tr a").first).to_have_attribute("href", first or "")


def test_a_flow_behind_an_open_circuit_says_why_it_waits(night: Night, page: Page) -> None:
    show(page, f"/flows/{night.flows.order}")
    standing = page.get_by_role("region", name="Where it stands")
    expect(standing).to_contain_text(re.compile(r"attempt \d of 8 of charge_card", re.IGNORECASE))
    expect(standing).to_contain_text("the circuit of payments is open")
    expect(standing).to_contain_text("redrive flows cancel")
    segment = page.locator("#item-2 .segment.attempt").first
    segment.hover()
    details = page.locator(".segment-details")
    expect(details).to_contain_text("pay.example.net:443: connection refused")
    expect(details).to_contain_text("retry_on matches transient failure")
    page.locator("#item-2 .segment.held").first.focus()
    expect(details).to_contain_text("The circuit of payments is open")
    expect(page.get_by_role("region", name="Steps")).to_contain_text("the circuit of payments is open: ")


def test_what_is_planned_is_drawn_up_to_giving_up(night: Night, page: Page) -> None:
    show(page, f"/flows/{night.flows.restock}")
    expect(page.get_by_role("region", name="Where it stands")).to_contain_text("reserve_stock gives up")
    row = page.locator("#item-1")
    expect(row.locator(".segment.future")).to_have_count(5)
    places = [box["x"] for one in row.locator(".segment.future").all() if (box := one.bounding_box())]
    assert places == sorted(places)
    row.locator(".segment.giveUp").focus()
    expect(page.locator(".segment-details")).to_contain_text("the step fails for good")


def test_every_attempt_stands_in_a_table_with_what_was_decided(night: Night, page: Page) -> None:
    show(page, f"/flows/{night.flows.restock}")
    row = page.get_by_role("region", name="Every attempt").get_by_role("row").filter(has_text="reserve_stock")
    expect(row).to_contain_text("failed")
    expect(row).to_contain_text("stock-taking until the shift ends")
    expect(row).to_contain_text("Retry-After asked for 40m")


def test_the_graph_of_a_flow_is_drawn_in_layers_with_states(night: Night, page: Page) -> None:
    show(page, f"/flows/{night.flows.parcel}")
    graph = page.get_by_role("region", name="The graph of the steps")

    def left(name: str) -> float:
        box = graph.locator(".node", has_text=name).bounding_box()
        assert box
        return box["x"]

    expect(graph.locator(".node")).to_have_count(5)
    assert left("check") == left("pack") < left("book") < left("label") < left("hand_over")
    expect(graph.locator(".edge")).to_have_count(4)
    expect(graph.locator(".node", has_text="pack")).to_contain_text("completed · 3 of 3")
    expect(graph.locator(".node", has_text="book")).to_have_class(re.compile("warn|wait|busy"))
    expect(graph.locator(".node", has_text="hand_over")).to_contain_text("pending")


def test_the_log_and_the_result_are_shown(night: Night, page: Page) -> None:
    flow = start(night.client, "action", "import_row", {"number": 17})
    show(page, f"/flows/{flow}")
    expect(page.get_by_role("region", name="Result")).to_contain_text("row 17")
    page.get_by_text("Show the events").click()
    expect(page.locator(".events")).to_contain_text("flow completed")
