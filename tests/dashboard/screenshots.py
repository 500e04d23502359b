"""Takes the pictures of the dashboard that the documentation shows: `python -m tests.dashboard.screenshots`.

It runs `redrive demo --dashboard` until its payments have been down for a while, which takes two and a half minutes.
"""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from tests.dashboard.browsers import ARGUMENTS, chromium
from tests.wheel_install import ROOT

IMAGES = ROOT / "docs" / "images"
MOMENT = 135.0
"""Seconds after the beginning of the demo: payments are down, and the carrier fails half of the time."""
POLICY = "[RateLimitError -> retry: 6, backoff: 20s, jitter: equal] [retry: 7, backoff: 2s, jitter: full]"
SIZE = {"width": 1280, "height": 800}


def main() -> None:
    path = chromium()
    if path is None:
        sys.exit("there is no Chromium: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    command = [sys.executable, "-u", "-m", "redrive", "demo", "--dashboard", "--port", "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    try:
        url = url_of(demo)
        time.sleep(MOMENT)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
            take_all(browser, url)
            browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait()


def url_of(demo: "subprocess.Popen[str]") -> str:
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.match(r"redrive serves (http://\S+):", line):
            return found[1]
    sys.exit("the demo did not start")


def take_all(browser: Browser, url: str) -> None:
    for theme in ("light", "dark"):
        page = browser.new_page(viewport=SIZE, color_scheme=theme)  # type: ignore[arg-type]
        views = {
            "now": "/",
            "flow": f"/flows/{waiting_flow(url)}",
            "dead": "/dead",
            "dependencies": "/dependencies",
            "policy": f"/policies?{urlencode({'text': POLICY})}",
        }
        for name, path in views.items():
            take(page, url + path, IMAGES / f"dashboard-{name}{'-dark' if theme == 'dark' else ''}.png")
        page.close()


def waiting_flow(url: str) -> str:
    """An order that waits for payments, and has tried already."""
    asked = urlencode({"definition": "workflow:Checkout", "dependency": "payments", "limit": 200})
    flows = httpx.get(f"{url}/v1/flows?{asked}", trust_env=False).json()["flows"]
    tried = [one for one in flows if (one["waits"] or {}).get("error_type")]
    flow_id: str = (tried or flows)[-1]["id"]
    return flow_id


def take(page: Page, url: str, file: Path) -> None:
    page.goto(url)
    page.locator("h1").wait_for()
    page.locator(".loading").wait_for(state="detached")
    if "/policies" in url:
        page.locator("canvas").wait_for()
    # The plots are drawn a moment later.
    page.wait_for_timeout(700)
    page.screenshot(path=file)
    sys.stdout.write(f"{file.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
