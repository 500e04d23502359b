"""Live views go on by themselves after whatever interrupts them, and show what was missed."""

import json
import re

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import Night, OpenPage
from tests.dashboard.incident_flows import start
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V3")
STREAM_BY_HAND = """
const real = window.fetch;
window.send = () => {};
window.fetch = (path, options) => {
  if (path !== "/v1/overview") return real(path, options);
  const encoder = new TextEncoder();
  const start = (stream) => { window.send = (text) => stream.enqueue(encoder.encode(text)); };
  const body = new ReadableStream({ start });
  return Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream" } }));
};
"""


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


@pytest.mark.promise("V6")
def test_of_snapshots_that_come_together_the_last_one_is_shown(night: Night, open_page: OpenPage) -> None:
    seen = night.server.client.get("/v1/overview").json()
    page = open_page("about:blank")
    page.add_init_script(STREAM_BY_HAND)
    page.clock.install()

    def send(*numbers: int, then: str = "") -> None:
        snapshots = (json.dumps({**seen, "dead": number}) for number in numbers)
        events = "".join(f"id: {number}\nevent: snapshot\ndata: {body}\n\n" for number, body in enumerate(snapshots))
        page.evaluate("(text) => window.send(text)", events + then)

    page.goto(night.url)
    expect(page.locator("[data-connection]")).to_have_text("Connecting")
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 2)
    shown = page.get_by_role("list", name="What needs you")
    send(1001)
    expect(shown).to_contain_text("1,001 flows failed for good")
    send(1002)
    send(1003)
    expect(shown).to_contain_text("1,001 flows failed for good")
    page.clock.run_for(100)
    expect(shown).to_contain_text("1,003 flows failed for good")
    # What is known is shown before it is said that nothing more may come.
    send(1004, then="event: problem\ndata: {}\n\n")
    expect(shown).to_contain_text("1,004 flows failed for good")
    expect(page.locator("[data-connection]")).to_have_text("Reconnecting")


def test_a_view_that_needs_no_stream_says_nothing_about_one(night: Night, open_page: OpenPage) -> None:
    page = open_page(f"{night.url}/policies")
    expect(page.locator("h1")).to_have_text(re.compile("."))
    expect(page.locator("[data-connection]")).to_have_text("")
    page.get_by_role("link", name="Flows", exact=True).click()
    expect(page.locator("[data-connection]")).to_have_text("Live")
    page.get_by_role("link", name="Policies", exact=True).click()
    expect(page.locator("[data-connection]")).to_have_text("")
