"""A server whose dead letters, dependencies and queues the tests of a module may change."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page
from tests.dashboard.conftest import INCIDENT, PATIENCE, WIDE
from tests.dashboard.incident_flows import count, start, until
from tests.dashboard.server_process import ServerProcess
from tests.postgres_server import shared_server

MAILS, CUSTOMERS, ORDERS = 4, 3, 6
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>\u202egnp.exe " \' `${1}` &amp;'
"""Text that would run, or would turn around what follows it, if it were not shown as text."""


@pytest.fixture(scope="module")
def on_store(request: pytest.FixtureRequest) -> str:
    """The kind of store; a module that is to run on both parametrizes it."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="module")
def shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory, on_store: str) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("shop")
    store = shared_server().fresh_database() if on_store == "postgres" else f"sqlite:///{folder}/shop.db"
    with ServerProcess(store, folder, INCIDENT) as server:
        begin_trouble(server)
        yield server


def begin_trouble(server: ServerProcess) -> None:
    """Start flows that die, and some whose dependency is down, and return when they have."""
    for to in ("anna", "bert", "cleo"):
        start(server.client, "action", "send_mail", {"to": to})
    start(server.client, "action", "send_mail", {"to": HOSTILE})
    for number in range(CUSTOMERS):
        start(server.client, "workflow", "Onboarding", {"customer": f"c-{number}"})
    for number in range(ORDERS):
        start(server.client, "workflow", "Order", {"order": f"o-{number}"}, key=f"order-{number}")
    until(lambda: count(server.client, status="failed") == MAILS + CUSTOMERS)


def example_id(server: ServerProcess, **filters: str) -> str:
    found: str = server.client.get("/v1/dead-letters", params=filters).json()["dead_letters"][0]["flow_id"]
    return found


@pytest.fixture(scope="module")
def empty_shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in which nothing has run yet."""
    folder = tmp_path_factory.mktemp("empty")
    with ServerProcess(f"sqlite:///{folder}/empty.db", folder, INCIDENT) as server:
        yield server


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One tab for all tests of a module: its scripts are loaded once."""
    context = browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"])  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


@pytest.fixture
def checked_tab(tab: Page) -> Iterator[Page]:
    """The tab; a script error, or a refusal by the content security policy, fails the test at its end."""
    problems: list[str] = []

    def note_error(error: object) -> None:
        problems.append(str(error))

    def note_console(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            problems.append(message.text)

    tab.on("pageerror", note_error)
    tab.on("console", note_console)
    yield tab
    tab.remove_listener("pageerror", note_error)
    tab.remove_listener("console", note_console)
    tab.goto("about:blank")
    assert not problems
