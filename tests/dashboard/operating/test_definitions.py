"""The view of definitions: what workers have registered, under which policies, and how its steps fare."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.incident_flows import CUSTOMERS, MAILS, until
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")


@pytest.fixture(autouse=True)
def definitions(night: Night, page: Page) -> None:
    until(lambda: "look_up_customer" in night.client.get("/v1/definitions").text)
    show(page, "/definitions")


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def test_a_definition_says_how_its_steps_fare(page: Page) -> None:
    onboarding = card(page, "Onboarding workflow")
    expect(onboarding).to_contain_text("on 1 worker")
    step = onboarding.get_by_role("row").filter(has_text="look_up_customer")
    expect(step).to_contain_text(re.compile(r"100 % of \d+"))
    cells = step.get_by_role("cell").all_inner_texts()
    # Three attempts each: two are retried, and the third gives up. They may have been redriven since.
    gave_up = int(cells[4])
    assert gave_up >= CUSTOMERS
    assert cells[2:4] == ["0", str(2 * gave_up)]
    assert re.search(rf"100 % of {3 * gave_up}", cells[1])
    onboarding.get_by_role("link", name=f"{CUSTOMERS} dead letters").click()
    expect(page.locator(".summary")).to_have_text(re.compile(f"{CUSTOMERS} letters in 1 group"))


def test_a_policy_is_shown_with_its_origin_and_leads_to_its_waits(page: Page) -> None:
    step = card(page, "Onboarding workflow").get_by_role("row").filter(has_text="look_up_customer")
    expect(step.locator("summary")).to_contain_text("attempts 3, backoff exponential 50ms")
    expect(step).to_contain_text("set for the action")
    step.locator("summary").click()
    expect(step.locator("pre")).to_contain_text("attempts: 3")
    step.get_by_role("link", name="when it retries").click()
    expect(page.locator(".waits-says")).to_contain_text("3 attempts")


def test_what_has_no_flows_is_listed_and_the_search_finds_steps(page: Page) -> None:
    expect(page.locator(".idle")).to_contain_text("hand_over")
    page.keyboard.press("/")
    page.keyboard.type("send_m")
    expect(page.locator(".definition-card")).to_have_count(1)
    expect(card(page, "send_mail action")).to_contain_text(f"{MAILS} dead letters")
    page.keyboard.type("nonsense")
    expect(page.locator("main")).to_contain_text("No definition matches")
