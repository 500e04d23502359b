"""The view of dependencies: the circuit in words, what waits behind it, and its circuit by hand."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.hostile_text import SCRIPT
from tests.dashboard.incident_flows import ORDERS, start, status, until
from tests.dashboard.operating.dialogs import confirm
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")


@pytest.fixture(autouse=True)
def dependencies(page: Page) -> None:
    show(page, "/dependencies")


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def waiting(card: Locator) -> int:
    """How many steps wait behind a dependency, for whatever reason."""
    return sum(int(one) for one in re.findall(r"(\d+) for", card.locator(".behind").inner_text()))


def test_an_open_circuit_says_what_happens_next(page: Page) -> None:
    payments = card(page, "payments")
    says = re.compile(r"Down on every worker for \d+[sm]")
    expect(payments.locator(".dependency-says")).to_contain_text(says)
    expect(payments.locator(".behind")).to_contain_text(re.compile(r"\d for an open circuit, the next"))
    expect(payments.get_by_role("row").nth(1)).to_contain_text("open")
    until(lambda: waiting(payments) == ORDERS)
    payments.locator(".behind a").first.click()
    expect(page).to_have_url(re.compile(r"/flows\?dependency=payments&waits_for="))


@pytest.mark.promise("V2")
def test_a_circuit_is_held_open_and_closed_by_hand(night: Night, page: Page) -> None:
    flow = start(night.client, "action", "import_row", {"number": 1})
    until(lambda: status(night.client, flow) == "completed")
    archive = card(page, "archive")
    expect(archive.locator(".dependency-head .status")).to_have_text("closed")
    expect(archive.get_by_role("button", name="Close now")).to_have_count(0)
    archive.get_by_role("button", name="Hold open").click()
    expect(page.get_by_role("dialog")).to_contain_text("until someone closes it")
    assert "opens on every worker" in confirm(page, "Hold it open", SCRIPT)
    expect(archive.locator(".dependency-head .status")).to_have_text("held open")
    expect(archive.locator(".notice")).to_contain_text(re.compile("Opened by hand by .*anna"))
    expect(archive.locator(".notice")).to_contain_text(SCRIPT[:60])
    # The worker follows, and says so.
    expect(archive.get_by_role("row").nth(1)).to_contain_text("open")
    # It is nobody's outage: somebody wants it so, and nothing tries it again.
    show(page, "/")
    expect(page.locator(".held-line")).to_contain_text("the circuit of archive")
    expect(page.locator(".outage").filter(has_text="archive")).to_have_count(0)
    show(page, "/dependencies")
    entry, *_ = night.client.get("/v1/audit", params={"action": "dependency.open"}).json()["entries"]
    assert (entry["target"], SCRIPT[:60] in entry["detail"]) == ("archive", True)
    archive.get_by_role("button", name="Close now").click()
    assert "closes on every worker" in confirm(page, "Close it", "the shelf is back")
    expect(archive.locator(".dependency-head .status")).to_have_text(re.compile("closed|recovering"))
    expect(archive.locator(".notice")).to_contain_text("Closed by hand")
    [order] = [one["order"] for one in listed(night) if one["name"] == "archive"]
    assert (order["order"], order["why"]) == ("close", "the shelf is back")


def listed(night: Night) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = night.client.get("/v1/dependencies").json()["dependencies"]
    return found


def test_the_last_hour_is_drawn_with_its_figures(night: Night, page: Page) -> None:
    until(lambda: any(sum(one["sparkline"]["retried"]) for one in listed(night)))
    drawn = card(page, "payments").get_by_role("img", name=re.compile("Attempts against payments a minute"))
    expect(drawn).to_have_attribute("aria-label", re.compile(r"retried [1-9]"))
