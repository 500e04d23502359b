"""The view of policies: the waits of a pasted policy, its mistakes, and the same in other notations."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import ON_ONE_STORE, Night, OpenPage
from tests.dashboard.hostile_text import SCRIPT
from tests.dashboard.tab import show

pytestmark = [ON_ONE_STORE, pytest.mark.promise("V1")]

SPREAD = "[retry: 3, backoff: 2s, jitter: full]"


@pytest.fixture(autouse=True)
def policies(page: Page) -> None:
    show(page, "/policies")


def cells(page: Page, row: int) -> list[str]:
    return page.get_by_role("table").get_by_role("row").nth(row).locator("th, td").all_inner_texts()


def test_a_pasted_policy_shows_when_its_attempts_begin(page: Page) -> None:
    page.get_by_label("Policy", exact=True).fill(SPREAD)
    expect(page.locator(".policy-summary")).to_contain_text("brackets")
    expect(page.locator(".waits-says")).to_contain_text("4 attempts")
    assert cells(page, 0) == ["Attempt", "Earliest", "Latest", "For example"]
    assert cells(page, 4)[:3] == ["4", "at once", "14s"]
    plot = page.get_by_role("img", name=re.compile("When each attempt begins: .*attempt 4 after 0ms to 14s"))
    expect(plot.locator("canvas")).to_be_visible()


def test_the_url_holds_the_policy(night: Night, page: Page, open_page: OpenPage) -> None:
    page.get_by_label("Policy", exact=True).fill(SPREAD)
    expect(page).to_have_url(re.compile(r"text=%5Bretry%3A\+3"))
    shared = open_page(page.url)
    expect(shared.locator(".waits-says")).to_contain_text("4 attempts")
    shared.goto(f"{night.url}/policies#{quote(SPREAD)}")
    expect(shared.get_by_label("Policy", exact=True)).to_have_value(SPREAD)
    expect(shared.locator(".waits-says")).to_contain_text("4 attempts")


def test_findings_say_what_to_write_instead(page: Page) -> None:
    page.get_by_label("Policy", exact=True).fill("[retry: 30, backoff: 1s]")
    finding = page.locator(".finding").filter(has_text="RD001")
    expect(finding).to_contain_text("without jitter")
    expect(finding).to_contain_text("Instead: write jitter: full")
    page.get_by_label("Policy", exact=True).fill("[transient -> retry: 3, backoff: 2s, jitter: full] [deadline: 10m]")
    expect(page.locator(".finding")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("nothing to improve")


def test_the_policy_is_converted_and_copied(page: Page) -> None:
    page.get_by_role("button", name="tenacity").click()
    expect(page.locator(".policy-summary")).to_contain_text("tenacity")
    brackets = page.locator(".conversion").filter(has=page.get_by_role("heading", name="brackets"))
    expect(brackets.locator("pre")).to_contain_text("retry: 4")
    brackets.get_by_role("button", name="Copy").click()
    expect(brackets.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == brackets.locator("pre").inner_text()


def test_every_example_can_be_read(page: Page) -> None:
    notations = ("brackets", "tenacity", "temporal", "step functions", "celery", "work config")
    examples = page.get_by_role("group", name="Examples").get_by_role("button")
    expect(examples).to_have_count(len(notations))
    for place, notation in enumerate(notations):
        examples.nth(place).click()
        expect(page.locator(".policy-summary .status")).to_have_text(notation)
        expect(page.get_by_role("alert")).to_have_count(0)


def test_rules_are_previewed_one_by_one(page: Page) -> None:
    page.get_by_role("button", name="Brackets", exact=True).click()
    failures = page.get_by_label("Failure", exact=True)
    expect(failures.get_by_role("option")).to_have_count(2)
    failures.select_option(index=0)
    expect(page.locator(".waits-says")).to_contain_text("11 attempts")
    failures.select_option(index=1)
    expect(page.locator(".waits-says")).to_contain_text("4 attempts")


def test_a_mistake_is_told_and_what_was_read_before_stays(page: Page) -> None:
    page.get_by_label("Policy", exact=True).fill(SPREAD)
    expect(page.locator(".waits-says")).to_contain_text("4 attempts")
    page.get_by_label("Policy", exact=True).fill("[retry: many]")
    expect(page.get_by_role("alert")).to_contain_text("many")
    expect(page.locator(".stale .waits-says")).to_contain_text("4 attempts")


@pytest.mark.promise("V4")
def test_hostile_text_stays_text(page: Page) -> None:
    page.get_by_label("Policy", exact=True).fill(f"[{SCRIPT} -> retry: 3]")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("main img, main script")).to_have_count(0)
    assert page.title() == "Policies · redrive"
