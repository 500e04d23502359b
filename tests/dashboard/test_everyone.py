"""The page works for everyone: narrow, dark, by keyboard alone, and for those who hear it."""

import re
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import ON_ONE_STORE, Night, OpenPage
from tests.dashboard.tab import NARROW, settle, show

pytestmark = [ON_ONE_STORE, pytest.mark.promise("V5")]
VIEWS = ("now", "flows", "order", "parcel", "dead_letter")


def path_of(night: Night, view: str) -> str:
    flows = night.flows
    return {
        "now": "/",
        "flows": "/flows?dependency=payments",
        "order": f"/flows/{flows.order}",
        "parcel": f"/flows/{flows.parcel}",
        "dead_letter": f"/flows/{flows.undeliverable}",
    }[view]


def violations(page: Page) -> list[str]:
    """What axe finds; it writes inline styles, for which the page must not have a content security policy."""
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
    return [
        f"{one['id']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else ''}"
        for one in found.response["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(("view", "theme"), [*((view, "light") for view in VIEWS), ("now", "dark"), ("order", "dark")])
def test_axe_finds_nothing(night: Night, axe_page: Page, view: str, theme: Literal["light", "dark"]) -> None:
    axe_page.emulate_media(color_scheme=theme)
    show(axe_page, path_of(night, view))
    settle(axe_page)
    assert violations(axe_page) == []


def test_axe_finds_nothing_in_a_dialog_and_on_a_narrow_screen(night: Night, axe_page: Page) -> None:
    page = axe_page
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    show(page, f"/flows/{night.flows.reminder}")
    settle(page)
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_a_telephone(night: Night, page: Page, view: str) -> None:
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    show(page, path_of(night, view))
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    cut_off = page.evaluate(
        "[...document.querySelectorAll('main *')]"
        ".filter((one) => !one.closest('.graph, .unseen, thead, .track') && one.getBoundingClientRect().right > 391)"
        ".map((one) => one.outerHTML.slice(0, 100))"
    )
    assert cut_off == []
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Flows", exact=True).first.click()
    expect(page).to_have_url(re.compile("/flows$"))


def test_dark_follows_the_system_and_a_choice_is_kept(night: Night, open_page: OpenPage) -> None:
    page = open_page(f"{night.url}/flows", color_scheme="dark")
    settle(page)

    def ground() -> int:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", found)[:3]))

    assert ground() < 150
    page.get_by_role("button", name="Theme").click()
    assert ground() > 600
    page.reload()
    settle(page)
    assert ground() > 600


def test_the_keyboard_is_enough(night: Night, page: Page) -> None:
    show(page, "/")
    settle(page)
    press = page.keyboard.press
    press("j")
    press("j")
    focused = page.locator(":focus")
    expect(focused).to_have_text("2 flows are parked")
    press("Enter")
    expect(page.locator("tbody tr")).to_have_count(2)
    press("g")
    press("f")
    expect(page).to_have_url(re.compile("/flows$"))
    expect(page.locator("tbody tr")).to_have_count(50)
    press("/")
    page.keyboard.type("report-2026")
    expect(page.locator("tbody tr")).to_have_count(1)
    press("Escape")
    expect(page.locator("input:focus")).to_have_count(0)
    press("j")
    expect(page.locator("[data-row]:focus")).to_have_count(1)
    press("Enter")
    expect(page.locator("h1")).to_contain_text("write_report")
    press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Pause").focus()
    press("Enter")
    expect(page.get_by_role("dialog").get_by_label(re.compile("^Why"))).to_be_focused()
    press("Escape")
    expect(page.get_by_role("button", name="Pause")).to_be_focused()
    press("g")
    press("n")
    expect(page).to_have_url(f"{night.url}/")


def test_the_arrow_keys_walk_through_attempts_and_waits(night: Night, page: Page) -> None:
    show(page, f"/flows/{night.flows.order}")
    settle(page)
    track = page.locator("#item-2 .track")
    assert track.locator("button[tabindex='0']").count() == 1
    track.locator("button[tabindex='0']").focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(".segment-details h3")).to_contain_text("attempt 1 of 8 failed")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".segment-details h3")).to_contain_text("backoff after attempt 1 of 8")
