"""The view of dependencies: the circuit in words, what waits behind it, and its circuit by hand."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.incident_flows import start, until
from tests.dashboard.operating.conftest import HOSTILE, ORDERS
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V1")


@pytest.fixture
def page(shop: ServerProcess, checked_tab: Page) -> Page:
    checked_tab.goto(f"{shop.url}/dependencies")
    return checked_tab


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def waiting(card: Locator) -> int:
    """How many steps wait behind a dependency, for whatever reason."""
    return sum(int(one) for one in re.findall(r"(\d+) for", card.locator(".behind").inner_text()))


def test_an_open_circuit_says_what_happens_next(page: Page) -> None:
    payments = card(page, "payments")
    says = re.compile(r"Down on every worker for \d+s|probe is under way")
    expect(payments.locator(".dependency-says")).to_contain_text(says)
    expect(payments.locator(".behind")).to_contain_text(re.compile(r"\d for an open circuit, the next"))
    expect(payments.get_by_role("row").nth(1)).to_contain_text(re.compile(r"(half )?open"))
    until(lambda: waiting(payments) == ORDERS)
    payments.locator(".behind a").first.click()
    expect(page).to_have_url(re.compile(r"/flows\?dependency=payments&waits_for="))


@pytest.mark.promise("V2")
def test_a_circuit_is_held_open_and_closed_by_hand(shop: ServerProcess, page: Page) -> None:
    start(shop.client, "workflow", "Restock", {"order": "o-1"})
    warehouse = card(page, "warehouse")
    expect(warehouse.locator(".dependency-head .status")).to_have_text("closed")
    expect(warehouse.get_by_role("button", name="Close now")).to_have_count(0)
    warehouse.get_by_role("button", name="Hold open").click()
    expect(page.get_by_role("dialog")).to_contain_text("until someone closes it")
    assert "opens on every worker" in confirm(page, "Open it", HOSTILE)
    expect(warehouse.locator(".dependency-head .status")).to_have_text("held open")
    expect(warehouse.locator(".notice")).to_contain_text(re.compile("Opened by hand by .*anna"))
    expect(warehouse.locator(".notice")).to_contain_text(HOSTILE[:60])
    # The worker follows, and says so.
    expect(warehouse.get_by_role("row").nth(1)).to_contain_text("open")
    [entry] = shop.client.get("/v1/audit", params={"action": "dependency.open"}).json()["entries"]
    assert (entry["target"], HOSTILE[:60] in entry["detail"]) == ("warehouse", True)
    warehouse.get_by_role("button", name="Close now").click()
    assert "closes on every worker" in confirm(page, "Close it", "the shelf is back")
    expect(warehouse.locator(".dependency-head .status")).to_have_text(re.compile("closed|recovering"))
    expect(warehouse.locator(".notice")).to_contain_text("Closed by hand")
    [order] = [one["order"] for one in listed(shop) if one["name"] == "warehouse"]
    assert (order["order"], order["why"]) == ("close", "the shelf is back")


def listed(shop: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.client.get("/v1/dependencies").json()["dependencies"]
    return found


def test_the_last_hour_is_drawn_with_its_figures(shop: ServerProcess, page: Page) -> None:
    until(lambda: any(sum(one["sparkline"]["retried"]) for one in listed(shop)))
    drawn = card(page, "payments").get_by_role("img", name=re.compile("Attempts against payments a minute"))
    expect(drawn).to_have_attribute("aria-label", re.compile(r"retried [1-9]"))
