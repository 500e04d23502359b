"""One browser, and for each kind of store one server in the middle of an incident: shared by all tests of a process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.dashboard.browsers import ARGUMENTS, required_chromium
from tests.dashboard.incident_flows import Incident, begin_incident
from tests.dashboard.server_process import ServerProcess
from tests.dashboard.tab import NARROW, PATIENCE, WIDE, Tab, watch
from tests.postgres_server import shared_server

INCIDENT = Path(__file__).with_name("incident.py")
STORES = ("sqlite", "postgres")
ON_ONE_STORE = pytest.mark.parametrize("on_store", ["sqlite"], indirect=True)
"""For what the page does by itself, whatever the store: how it looks, and what it computes."""


class Night(NamedTuple):
    """A server with everything in it that can go wrong."""

    server: ServerProcess
    flows: Incident

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def client(self) -> httpx.Client:
        return self.server.client


Servers = Callable[[str], ServerProcess]


def store_url(kind: str, folder: Path) -> str:
    return shared_server().fresh_database() if kind == "postgres" else f"sqlite:///{folder}/{kind}.db"


# Ended with the last test of this package: Playwright runs an event loop in this thread, beside which the tests of
# other packages could run none.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = required_chromium()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(params=STORES)
def on_store(request: pytest.FixtureRequest) -> str:
    """The kind of store. A parameter of the test alone: both servers live until the last test has run."""
    return str(request.param)


@pytest.fixture(scope="package")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Night]]:
    begun: dict[str, Night] = {}
    with ExitStack() as servers:

        def night_on(kind: str) -> Night:
            if kind not in begun:
                required_chromium()
                folder = tmp_path_factory.mktemp(f"night-{kind}")
                server = servers.enter_context(ServerProcess(store_url(kind, folder), folder, INCIDENT))
                begun[kind] = Night(server, begin_incident(server.client))
            return begun[kind]

        yield night_on


@pytest.fixture
def night(nights: Callable[[str], Night], on_store: str) -> Night:
    """Shared: a test that changes something does so to flows of its own, and leaves no dead letter behind."""
    return nights(on_store)


@pytest.fixture(scope="package")
def tabs(browser: Browser) -> Callable[..., Tab]:
    known: dict[tuple[str, bool], Tab] = {}

    def tab_for(url: str, *, bypass_csp: bool = False) -> Tab:
        if (url, bypass_csp) not in known:
            known[url, bypass_csp] = Tab(browser, url, bypass_csp=bypass_csp)
        return known[url, bypass_csp]

    return tab_for


@pytest.fixture
def page(night: Night, tabs: Callable[..., Tab]) -> Iterator[Page]:
    """The tab of the night. A script error, or a refusal by the content security policy, fails the test at its end."""
    yield from _used(tabs(night.url))


@pytest.fixture
def axe_page(night: Night, tabs: Callable[..., Tab]) -> Iterator[Page]:
    """As `page`, but without a content security policy: axe writes inline styles."""
    yield from _used(tabs(night.url, bypass_csp=True))


def _used(tab: Tab) -> Iterator[Page]:
    yield tab.page
    problems = [*tab.problems]
    tab.tidy()
    assert not problems


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page at a URL, with cookies of its own."""
    pages: list[Page] = []
    problems: list[str] = []

    def open_one(url: str, *, narrow: bool = False, **settings: Any) -> Page:
        context = browser.new_context(viewport=NARROW if narrow else WIDE, **settings)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        watch(page, problems)
        pages.append(page)
        page.goto(url)
        return page

    yield open_one
    for page in pages:
        page.context.close()
    assert not problems
