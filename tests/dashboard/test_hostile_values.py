"""Whatever others put into names, keys, inputs, errors and reasons is shown as text, and does nothing."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.dashboard.conftest import OpenPage
from tests.dashboard.incident_flows import until
from tests.dashboard.server_process import ServerProcess

pytestmark = pytest.mark.promise("V4")
SCRIPT = '<script>window.hit=1</script><img src=x onerror="window.hit=1">\'"&lt;${7*7}{{7*7}}'
RIGHT_TO_LEFT = "\u202etxt.exe\u202c \u05d0\u05d1\u05d2"
LONG = "x" * 1_000_000
HIT = "window.hit"

MODULE = f"""
import redrive

@redrive.action(name={SCRIPT!r}, dependency={SCRIPT!r}, retry=redrive.RetryPolicy(attempts=4, backoff_seconds=3600))
async def attack(name: str) -> str:
    raise ConnectionError(name)

@redrive.action(name="echo")
async def echo(value: str) -> str:
    return value

@redrive.action(name="refuse")
async def refuse(value: str) -> str:
    raise redrive.Permanent(value)
"""


@pytest.fixture(scope="module")
def hostile(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("hostile")
    module = folder / "hostile_definitions.py"
    module.write_text(MODULE, encoding="utf-8")
    with ServerProcess(f"sqlite:///{folder}/hostile.db", folder, module) as server:
        yield server


def run(server: ServerProcess, action: str, given: dict[str, str], status: str, **more: str) -> str:
    answer = server.client.post("/v1/flows", json={"action": action, "inputs": given, **more})
    assert answer.status_code == 201, answer.text
    flow: str = answer.json()["id"]
    until(lambda: server.client.get(f"/v1/flows/{flow}").json()["status"] == status)
    return flow


def is_harmless(page: Page) -> None:
    assert page.evaluate(HIT) is None
    assert page.locator("main script, main img[src='x']").count() == 0


def test_scripts_in_every_field_are_text(hostile: ServerProcess, open_page: OpenPage) -> None:
    flow = run(hostile, SCRIPT, {"name": SCRIPT}, "waiting", key=SCRIPT, queue=SCRIPT)
    hostile.client.post(f"/v1/flows/{flow}/pause", json={"why": SCRIPT, "by": SCRIPT})
    until(lambda: hostile.client.get(f"/v1/flows/{flow}").json()["status"] == "paused")
    page = open_page(f"{hostile.url}/flows/{flow}")
    expect(page.locator("h1")).to_contain_text(SCRIPT)
    expect(page.get_by_role("region", name="Every attempt")).to_contain_text(SCRIPT)
    expect(page.locator(".headline")).to_contain_text("<script>")
    page.get_by_text("Show the events").click()
    expect(page.locator(".events")).to_contain_text("window.hit=1")
    is_harmless(page)
    page.goto(f"{hostile.url}/flows?queue={json.dumps(SCRIPT)[1:-1]}")
    is_harmless(page)
    page.goto(f"{hostile.url}/flows")
    expect(page.locator("tbody tr", has_text=SCRIPT).first).to_be_visible()
    is_harmless(page)
    page.goto(hostile.url)
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("main")).to_contain_text("<script>")
    is_harmless(page)


def test_scripts_in_urls_are_text(hostile: ServerProcess, open_page: OpenPage) -> None:
    script = "<script>window.hit=1</script>"
    page = open_page(f"{hostile.url}/flows?text={script}&definition=<img src=x onerror=window.hit=1>")
    expect(page.get_by_role("searchbox")).to_have_value(script)
    is_harmless(page)
    page.goto(f"{hostile.url}/flows/<script>window.hit=1<%2Fscript>")
    expect(page.locator("main")).to_be_visible()
    is_harmless(page)


def test_text_that_runs_from_right_to_left_turns_nothing_else(hostile: ServerProcess, open_page: OpenPage) -> None:
    flow = run(hostile, "refuse", {"value": RIGHT_TO_LEFT}, "failed", key="\u05d0-1")
    page = open_page(f"{hostile.url}/flows/{flow}")
    expect(page.get_by_role("region", name="Every attempt")).to_contain_text("\u05d0\u05d1\u05d2")
    alone = page.evaluate(
        "[...document.querySelectorAll('main *')].filter((one) => /[\\u05d0\\u202e]/.test("
        "[...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(''))"
        " && !one.closest('bdi, pre, code, svg')).map((one) => one.outerHTML.slice(0, 200))"
    )
    assert alone == []


def test_a_megabyte_of_text_neither_breaks_the_layout_nor_the_page(hostile: ServerProcess, open_page: OpenPage) -> None:
    failed = run(hostile, "refuse", {"value": LONG}, "failed")
    done = run(hostile, "echo", {"value": LONG}, "completed")
    page = open_page(f"{hostile.url}/flows/{failed}", narrow=True)
    expect(page.get_by_role("region", name="Every attempt")).to_contain_text("xxxx")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.goto(f"{hostile.url}/flows/{done}")
    expect(page.get_by_role("region", name="Result")).to_contain_text("xxxx")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.documentElement.scrollHeight") < 8000
    page.get_by_text("Show the events").click()
    expect(page.locator(".events")).to_contain_text("xxxx")
