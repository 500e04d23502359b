"""The operators' views work in both themes, on a telephone, and by keyboard."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import ON_ONE_STORE, Night
from tests.dashboard.incident_flows import CUSTOMERS, begin_together, count, until
from tests.dashboard.operating.dialogs import group
from tests.dashboard.tab import NARROW, show
from tests.dashboard.test_everyone import violations

pytestmark = [ON_ONE_STORE, pytest.mark.promise("V5")]
VIEWS = {
    "/dead": ".group",
    "/dead?open=workflow%3AOnboarding%7Clook_up_customer%7CTimeoutError%7Cexhausted": ".letters tbody tr",
    "/dependencies": ".dependency",
    "/queues": ".worker .slots",
    "/batches": ".counts-bar",
    "/schedules": "tbody tr",
    "/schedules/nightly": ".ticks",
    "/definitions": ".definition-card",
    "/policies?text=%5Bretry%3A+30%2C+backoff%3A+2s%2C+jitter%3A+full%5D": ".conversion",
}


@pytest.fixture(autouse=True)
def ready(night: Night) -> None:
    """The worker has told what it runs, and there are a batch and a schedule."""
    begin_together(night.client)
    until(lambda: night.client.get("/v1/workers").json()["workers"][0]["report"])
    until(lambda: night.client.get("/v1/dependencies").json()["dependencies"])


def test_axe_finds_nothing(axe_page: Page) -> None:
    page = axe_page
    for path, shown in VIEWS.items():
        show(page, path)
        expect(page.locator(shown).first).to_be_visible()
        assert violations(page) == [], path


def test_the_colours_can_be_told_apart_in_the_dark(axe_page: Page) -> None:
    page = axe_page
    page.emulate_media(color_scheme="dark")
    colours = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
    for path, shown in VIEWS.items():
        show(page, path)
        expect(page.locator(shown).first).to_be_visible()
        found = Axe().run(page, options={"runOnly": colours})
        assert found.response["violations"] == [], path


def test_nothing_is_wider_than_a_telephone_and_axe_finds_nothing_there(axe_page: Page) -> None:
    page = axe_page
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    for path, shown in VIEWS.items():
        show(page, path)
        expect(page.locator(shown).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
        cut_off = page.evaluate(
            "[...document.querySelectorAll('main *')]"
            ".filter((one) => !one.closest('.unseen, thead, .u-over, pre') && one.getBoundingClientRect().right > 391)"
            ".map((one) => one.outerHTML.slice(0, 100))"
        )
        assert cut_off == [], path
    show(page, "/dead")
    group(page, "look_up_customer").get_by_role("button", name=re.compile("Redrive")).click()
    expect(page.get_by_role("dialog")).to_contain_text("A dry run finds")
    assert violations(page) == []


def test_a_group_is_redriven_by_keyboard_alone(night: Night, page: Page) -> None:
    show(page, "/")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.locator("h1")).to_have_text("Dead letters")
    title = group(page, "look_up_customer").locator(".group-title")
    expect(title).to_be_visible()
    for _ in range(page.locator(".group").count()):
        page.keyboard.press("j")
        if title.evaluate("(one) => one === document.activeElement"):
            break
    expect(title).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".letters tbody tr")).to_have_count(CUSTOMERS)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Why")).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text(f"{CUSTOMERS} flows were redriven.")
    expect(dialog.get_by_role("button", name="OK")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    until(lambda: count(night.client, status="failed", definition="workflow:Onboarding") == CUSTOMERS)


def test_a_schedule_is_paused_by_keyboard_alone(page: Page) -> None:
    show(page, "/")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("t")
    nightly = page.get_by_role("link", name="nightly")
    expect(nightly).to_be_visible()
    page.keyboard.press("j")
    expect(nightly).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("nightly")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Why")).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("The schedule nightly is paused.")
