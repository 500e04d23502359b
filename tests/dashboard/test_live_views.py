"""Views are kept up to date by themselves, and go on after whatever interrupts their streams."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.incident_flows import control, count, spoil, start, tidy_up, until
from tests.dashboard.tab import settle, show

pytestmark = pytest.mark.promise("V3")


@pytest.fixture(autouse=True)
def tidied(night: Night) -> Iterator[None]:
    yield
    tidy_up(night.client)


def test_a_change_is_shown_within_a_second(night: Night, page: Page) -> None:
    flow = start(night.client, "workflow", "Reminder", {"hours": 3})
    show(page, f"/flows/{flow}")
    expect(page.locator(".headline .status")).to_have_text("waiting")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    control(night.client, f"/v1/flows/{flow}/pause", "lunch")
    sent = time.monotonic()
    expect(page.locator(".headline .status")).to_have_text("paused")
    # Machines of tests are slow at times: the promise is one second on an idle one.
    assert time.monotonic() - sent < 5


def dies(night: Night) -> str:
    spoil(night.client, "live")
    return f"{night.client.get('/v1/overview').json()['dead']} flows failed for good"


def begins(night: Night) -> str:
    start(night.client, "action", "echo", {"value": "live"}, key=(key := f"live-{time.monotonic_ns()}"))
    return key


def is_held_open(night: Night) -> str:
    control(night.client, "/v1/dependencies/archive/open", "live test")
    return "live test"


def is_paused(night: Night) -> str:
    start(night.client, "action", "echo", {"value": "live"}, queue="live")
    control(night.client, "/v1/queues/live/pause", "live test")
    return "live test"


def fails(night: Night) -> str:
    spoil(night.client, "live")
    return "Permanent"


CHANGES: dict[str, Callable[[Night], str]] = {
    "/": dies,
    "/flows": begins,
    "/dead": fails,
    "/dependencies": is_held_open,
    "/queues": is_paused,
    "/definitions": fails,
}
PLACES = {"/dead": ".group:has-text('spoil')", "/definitions": "article:has-text('spoil'):has-text('1 dead letter')"}
"""Where it stands, if its words may stand elsewhere already."""


@pytest.mark.parametrize("path", CHANGES)
def test_every_view_shows_what_happens_without_a_reload(night: Night, page: Page, path: str) -> None:
    show(page, path)
    settle(page)
    place = page.locator(PLACES.get(path, "main")).first
    try:
        said = CHANGES[path](night)
        expect(place).to_contain_text("" if path == "/definitions" else said)
        expect(place).to_be_visible()
    finally:
        if path == "/dependencies":
            control(night.client, "/v1/dependencies/archive/close", "tidying up")
        if path == "/queues":
            control(night.client, "/v1/queues/live/resume", "tidying up")


def test_a_list_shows_what_was_started_while_its_stream_was_cut(night: Night, page: Page) -> None:
    key = f"cut-{time.monotonic_ns()}"
    show(page, f"/flows?text={key}")
    expect(page.locator("main")).to_contain_text("No flow matches")
    page.context.set_offline(True)
    start(night.client, "action", "echo", {"value": "1"}, key=f"{key}-1")
    page.context.set_offline(False)
    expect(page.locator("tbody tr")).to_have_count(1)
    start(night.client, "action", "echo", {"value": "2"}, key=f"{key}-2")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_stream_that_is_refused_is_replaced_by_single_answers(night: Night, page: Page) -> None:
    key = f"refused-{time.monotonic_ns()}"
    page.route(
        re.compile(r"/v1/flows\?"),
        lambda route: (
            route.fulfill(status=503, content_type="application/problem+json", body='{"detail": "too many streams"}')
            if route.request.headers["accept"] == "text/event-stream"
            else route.continue_()
        ),
    )
    show(page, f"/flows?text={key}")
    expect(page.locator("main")).to_contain_text("No flow matches")
    start(night.client, "action", "echo", {"value": "1"}, key=key)
    until(lambda: count(night.client, key=key) == 1)
    expect(page.locator("tbody tr")).to_have_count(1)
