"""A browser and a server in the middle of an incident, shared by the tests of a process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.dashboard.browsers import ARGUMENTS, required_chromium
from tests.dashboard.incident_flows import Incident, begin_incident
from tests.dashboard.server_process import ServerProcess

INCIDENT = Path(__file__).with_name("incident.py")
PATIENCE = 10_000
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


class Night(NamedTuple):
    """A server with everything in it that can go wrong."""

    server: ServerProcess
    flows: Incident

    @property
    def url(self) -> str:
        return self.server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after each file: Playwright runs an event loop in this thread, beside which no other can be run."""
    path = required_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """Shared: a test that changes something does so to flows of its own."""
    required_chromium()
    folder = tmp_path_factory.mktemp("night")
    with ServerProcess(f"sqlite:///{folder}/night.db", folder, INCIDENT) as server:
        yield Night(server, begin_incident(server.client))


@pytest.fixture
def empty(browser: Browser, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of its own, in which nothing has run yet."""
    with ServerProcess(f"sqlite:///{tmp_path}/empty.db", tmp_path, INCIDENT) as server:
        yield server


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page at a URL. A script error, or a refusal by the content security policy, fails the test at its end."""
    pages: list[Page] = []
    problems: list[str] = []

    def open_one(url: str, *, narrow: bool = False, **settings: Any) -> Page:
        context = browser.new_context(viewport=NARROW if narrow else WIDE, **settings)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: problems.append(message.text) if "Content Security Policy" in message.text else None,
        )
        pages.append(page)
        page.goto(url)
        return page

    yield open_one
    for page in pages:
        page.context.close()
    assert not problems
