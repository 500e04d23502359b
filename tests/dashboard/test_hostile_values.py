"""Whatever others put into names, keys, inputs, errors and reasons is shown as text, and does nothing."""

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.hostile_text import IMAGE, LONG, RIGHT_TO_LEFT, SCRIPT
from tests.dashboard.incident_flows import control, spoil, start, status, tidy_up, until
from tests.dashboard.tab import NARROW, settle, show

pytestmark = pytest.mark.promise("V4")
HIT = "window.hit"
LONE = """[...document.querySelectorAll('main *')].filter((one) => /[\\u05d0\\u202e]/.test(
    [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(''))
    && !one.closest('bdi, pre, code, svg')).map((one) => one.outerHTML.slice(0, 200))"""
"""Text from right to left that would turn around what follows it."""


@pytest.fixture(autouse=True)
def tidied(night: Night) -> Iterator[None]:
    yield
    tidy_up(night.client)


def is_harmless(page: Page) -> None:
    assert page.evaluate(HIT) is None
    assert page.locator("main script, main img[src='x'], dialog script, dialog img").count() == 0


def path_of(queue_or_dependency: str) -> str:
    return quote(queue_or_dependency, safe="")


def test_scripts_in_every_field_are_text_in_every_view(night: Night, page: Page) -> None:
    client = night.client
    flow = start(client, "action", SCRIPT, {"name": SCRIPT}, key=SCRIPT, queue=IMAGE)
    until(lambda: status(client, flow) == "waiting")
    result = start(client, "action", "echo", {"value": SCRIPT})
    spoil(client, SCRIPT)
    because = {"why": SCRIPT, "by": SCRIPT}
    orders = {
        f"/v1/flows/{flow}/pause": f"/v1/flows/{flow}/cancel",
        f"/v1/queues/{path_of(IMAGE)}/pause": f"/v1/queues/{path_of(IMAGE)}/resume",
        f"/v1/dependencies/{path_of(IMAGE)}/open": f"/v1/dependencies/{path_of(IMAGE)}/close",
    }
    for path in orders:
        answer = client.post(path, json=because)
        assert answer.is_success, answer.text
    until(lambda: status(client, flow) == "paused")
    views = {
        f"/flows/{flow}": ".headline",
        f"/flows/{result}": "section:has-text('Result')",
        f"/flows?{urlencode({'queue': IMAGE})}": "tbody",
        f"/dead?{urlencode({'step': 'spoil'})}": ".group-example",
        "/": "main",
        "/dependencies": ".dependency:has-text('Opened by hand')",
        "/queues": "tbody",
        "/definitions": ".definition-card:has-text('onerror')",
        f"/policies?{urlencode({'text': f'[{SCRIPT} -> retry: 3]'})}": "main",
    }
    for path, there in views.items():
        show(page, path)
        expect(page.locator("main h1")).to_be_visible()
        place = page.locator("textarea" if path.startswith("/policies") else there).first
        if path.startswith("/policies"):
            expect(place).to_have_value(f"[{SCRIPT} -> retry: 3]")
            expect(page.get_by_role("alert")).to_be_visible()
        else:
            expect(place).to_contain_text('onerror="window.hit=1"')
        is_harmless(page)
    show(page, f"/flows/{flow}")
    expect(page.get_by_role("region", name="Every attempt")).to_contain_text(SCRIPT)
    page.get_by_text("Show the events").click()
    expect(page.locator(".events")).to_contain_text("window.hit=1")
    is_harmless(page)
    show(page, "/queues")
    row = page.get_by_role("row").filter(has_text="onerror")
    row.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog")).to_contain_text(IMAGE)
    is_harmless(page)
    for path in orders.values():
        assert client.post(path, json=because).is_success, path


def test_scripts_in_urls_are_text(page: Page) -> None:
    script = "<script>window.hit=1</script>"
    show(page, f"/flows?text={script}&definition=<img src=x onerror=window.hit=1>")
    expect(page.get_by_role("searchbox")).to_have_value(script)
    is_harmless(page)
    show(page, "/flows/<script>window.hit=1<%2Fscript>")
    expect(page.locator("main")).to_be_visible()
    is_harmless(page)


def test_text_that_runs_from_right_to_left_turns_nothing_else(night: Night, page: Page) -> None:
    [flow] = spoil(night.client, RIGHT_TO_LEFT)
    start(night.client, "workflow", "Reminder", {"hours": 3}, key=f"{RIGHT_TO_LEFT}-{flow}", queue=RIGHT_TO_LEFT)
    control(night.client, f"/v1/queues/{path_of(RIGHT_TO_LEFT)}/pause", RIGHT_TO_LEFT)
    for path in (f"/flows/{flow}", "/flows", "/dead", "/queues", "/"):
        show(page, path)
        expect(page.locator("main")).to_contain_text("\u05d0\u05d1\u05d2")
        assert page.evaluate(LONE) == [], path
    control(night.client, f"/v1/queues/{path_of(RIGHT_TO_LEFT)}/resume", "tidying up")


def test_a_megabyte_of_text_neither_breaks_the_layout_nor_the_page(night: Night, page: Page) -> None:
    [failed] = spoil(night.client, LONG)
    done = start(night.client, "action", "echo", {"value": LONG})
    until(lambda: status(night.client, done) == "completed")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    views = {
        f"/flows/{failed}": page.get_by_role("region", name="Every attempt"),
        f"/flows/{done}": page.get_by_role("region", name="Result"),
        "/dead?step=spoil": page.locator(".group-example"),
        "/flows?definition=spoil": page.locator("tbody tr").first,
        "/definitions": page.locator("article:has-text('spoil')"),
    }
    for path, shown in views.items():
        show(page, path)
        expect(shown).to_contain_text("xxxx" if "/flows/" in path or "dead" in path else "spoil")
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
        assert page.evaluate("document.documentElement.scrollHeight") < 30_000, path
    show(page, f"/flows/{done}")
    page.get_by_text("Show the events").click()
    expect(page.locator(".events")).to_contain_text("xxxx")
    assert page.evaluate("document.documentElement.scrollHeight") < 8000
