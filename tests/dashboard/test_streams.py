"""Live views go on by themselves after whatever interrupts them, and show what was missed."""

import json
import re

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import ON_ONE_STORE, Night, OpenPage

pytestmark = [ON_ONE_STORE, pytest.mark.promise("V3")]
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
