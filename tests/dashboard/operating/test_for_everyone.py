"""The operators' views work in both themes, on a telephone, by keyboard, and show each role what it may do."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import OpenPage
from tests.dashboard.incident_flows import start, until
from tests.dashboard.operating.conftest import CUSTOMERS, begin_trouble
from tests.dashboard.operating.dialogs import group
from tests.dashboard.server_process import ServerProcess
from tests.dashboard.test_everyone import violations

from redrive.server.access.api_keys import Role

VIEWS = {
    "/dead": ".group",
    "/dead?open=workflow%3AOnboarding%7Clook_up_customer%7CTimeoutError%7Cexhausted": ".letters tbody tr",
    "/dependencies": ".dependency",
    "/queues": ".worker .slots",
    "/definitions": ".definition-card",
    "/policies?text=%5Bretry%3A+30%2C+backoff%3A+2s%2C+jitter%3A+full%5D": ".conversion",
}


@pytest.fixture
def ready(shop: ServerProcess) -> ServerProcess:
    """The server, once its worker has told what it runs; some report runs for an hour."""
    if not shop.client.get("/v1/flows", params={"key": "report"}).json()["flows"]:
        start(shop.client, "action", "write_report", {"month": "2026-10"}, key="report")
    until(lambda: shop.client.get("/v1/workers").json()["workers"][0]["report"])
    until(lambda: shop.client.get("/v1/dependencies").json()["dependencies"])
    return shop


@pytest.mark.promise("V5")
def test_axe_finds_nothing(ready: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(ready.url, bypass_csp=True)
    for path, shown in VIEWS.items():
        page.goto(ready.url + path)
        expect(page.locator(shown).first).to_be_visible()
        assert violations(page) == [], path


@pytest.mark.promise("V5")
def test_the_colours_can_be_told_apart_in_the_dark(ready: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(ready.url, color_scheme="dark", bypass_csp=True)
    colours = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
    for path, shown in VIEWS.items():
        page.goto(ready.url + path)
        expect(page.locator(shown).first).to_be_visible()
        found = Axe().run(page, options={"runOnly": colours})
        assert found.response["violations"] == [], path


@pytest.mark.promise("V5")
def test_nothing_is_wider_than_a_telephone_and_axe_finds_nothing_there(
    ready: ServerProcess, open_page: OpenPage
) -> None:
    page = open_page(ready.url, narrow=True, bypass_csp=True)
    for path, shown in VIEWS.items():
        page.goto(ready.url + path)
        expect(page.locator(shown).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
        cut_off = page.evaluate(
            "[...document.querySelectorAll('main *')]"
            ".filter((one) => !one.closest('.unseen, thead, .u-over, pre') && one.getBoundingClientRect().right > 391)"
            ".map((one) => one.outerHTML.slice(0, 100))"
        )
        assert cut_off == [], path
    page.goto(f"{ready.url}/dead")
    group(page, "look_up_customer").get_by_role("button", name=re.compile("Redrive")).click()
    expect(page.get_by_role("dialog")).to_contain_text("A dry run finds")
    assert violations(page) == []


@pytest.mark.promise("V5")
def test_a_group_is_redriven_by_keyboard_alone(ready: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(ready.url)
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.locator("h1")).to_have_text("Dead letters")
    expect(page.locator(".group")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    title = group(page, "look_up_customer").locator(".group-title")
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
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)


def sign_in(page: Page, url: str, key: str) -> None:
    page.context.clear_cookies()
    page.goto(url)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("main h1")).to_be_visible()


def actions(page: Page) -> Locator:
    return page.locator("main").get_by_role(
        "button", name=re.compile("Redrive|Discard|Hold open|Close now|Pause|Limit")
    )


@pytest.mark.promise("V2")
def test_roles_decide_what_is_shown_and_offered(empty_shop: ServerProcess, open_page: OpenPage) -> None:
    begin_trouble(empty_shop)
    until(lambda: empty_shop.client.get("/v1/dependencies").json()["dependencies"])
    roles: tuple[Role, ...] = ("read", "operate", "admin")
    keys = {role: empty_shop.key(role) for role in roles}
    page = open_page(empty_shop.url)
    offered: dict[str, list[int]] = {}
    for role, key in keys.items():
        sign_in(page, empty_shop.url, key)
        offered[role] = []
        for path, shown in (("/dead", ".group"), ("/dependencies", ".dependency"), ("/queues", ".worker")):
            page.goto(empty_shop.url + path)
            expect(page.locator(shown).first).to_be_visible()
            offered[role].append(min(actions(page).count(), 1))
    assert offered == {"read": [0, 0, 0], "operate": [1, 1, 0], "admin": [1, 1, 1]}
    sign_in(page, f"{empty_shop.url}/dead", keys["read"])
    expect(group(page, "send_mail").locator(".group-example")).to_have_text(re.compile(r"redacted \(\d+ bytes\)"))
    assert "no mailbox" not in page.content()
