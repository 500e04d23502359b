"""Live views go on by themselves after whatever interrupts them, and show what was missed."""

import re

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import OpenPage
from tests.dashboard.incident_flows import start
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V3")


def test_a_view_survives_the_crash_of_its_server(empty: ServerProcess, open_page: OpenPage) -> None:
    flow = start(empty.client, "workflow", "Reminder", {"hours": 5})
    page = open_page(f"{empty.url}/flows/{flow}")
    connection = page.locator("[data-connection]")
    expect(page.locator(".headline .status")).to_have_text("waiting")
    expect(connection).to_have_text("Live")
    empty.kill()
    expect(connection).to_have_text("Reconnecting")
    expect(page.locator(".headline .status")).to_have_text("waiting")
    empty.start()
    empty.client.post(f"/v1/flows/{flow}/pause", json={"why": "while nobody looked"})
    expect(connection).to_have_text("Live", timeout=20_000)
    expect(page.locator(".headline .status")).to_have_text("paused")


def test_a_list_shows_what_was_started_while_its_stream_was_cut(empty: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{empty.url}/flows")
    expect(page.locator("main")).to_contain_text("No flows yet")
    page.context.set_offline(True)
    start(empty.client, "workflow", "Reminder", {"hours": 5})
    page.context.set_offline(False)
    expect(page.locator("tbody tr")).to_have_count(1)
    start(empty.client, "workflow", "Reminder", {"hours": 5})
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_stream_that_is_refused_is_replaced_by_single_answers(empty: ServerProcess, open_page: OpenPage) -> None:
    page = open_page("about:blank")
    page.route(
        re.compile(r"/v1/flows\?"),
        lambda route: (
            route.fulfill(status=503, content_type="application/problem+json", body='{"detail": "too many streams"}')
            if route.request.headers["accept"] == "text/event-stream"
            else route.continue_()
        ),
    )
    page.goto(f"{empty.url}/flows")
    expect(page.locator("main")).to_contain_text("No flows yet")
    start(empty.client, "workflow", "Reminder", {"hours": 5})
    expect(page.locator("tbody tr")).to_have_count(1)
