"""The browser of the tests: a system Chromium, driven by Playwright."""

import os
import shutil

import pytest

HOW = "the dashboard is not tested in a browser: there is no Chromium (apt-get install chromium)"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NEEDED = "REDRIVE_NEEDS_BROWSER"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """The path of the system's Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def required_chromium() -> str:
    """The path of the system's Chromium; without one the test is skipped, or fails where a browser must be there."""
    path = chromium()
    if path is None and os.environ.get(NEEDED):
        pytest.fail(f"{HOW}, and {NEEDED} is set")
    if path is None:
        pytest.skip(HOW)
    return path
