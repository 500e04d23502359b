"""A server of its own: before anything has run, when it crashes, and when API keys say who may do what."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.dashboard.conftest import INCIDENT, ON_ONE_STORE, OpenPage, store_url
from tests.dashboard.incident_flows import begin_together, control, spoil, start, status, until
from tests.dashboard.server_process import ServerProcess
from tests.dashboard.tab import settle, show
from tests.dashboard.test_everyone import violations

from redrive.server.access.api_keys import Role

SECRET = "row 99"
ROLES: tuple[Role, ...] = ("read", "operate", "admin")
EMPTY = {
    "/": "redrive start greet",
    "/flows": "No flows yet",
    "/dead": "Nothing has failed for good",
    "/dependencies": "No dependency is in use",
    "/queues": "No flow was started yet",
    "/batches": "redrive batch start",
    "/schedules": "redrive schedules add",
}


@pytest.fixture(scope="module")
def servers(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ServerProcess]]:
    begun: dict[str, ServerProcess] = {}
    with ExitStack() as ends:

        def server_on(kind: str) -> ServerProcess:
            if kind not in begun:
                folder = tmp_path_factory.mktemp(f"fresh-{kind}")
                begun[kind] = ends.enter_context(ServerProcess(store_url(kind, folder), folder, INCIDENT))
            return begun[kind]

        yield server_on


@pytest.fixture
def fresh(servers: Callable[[str], ServerProcess], on_store: str) -> ServerProcess:
    """The tests of this file follow each other: the last one adds API keys."""
    return servers(on_store)


@pytest.mark.promise("V1")
def test_an_empty_store_is_fine_and_says_how_to_begin(fresh: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(fresh.url)
    expect(page.locator("h1")).to_have_text("Everything is fine")
    for path, says in EMPTY.items():
        show(page, path)
        expect(page.locator("main")).to_contain_text(says)
    show(page, "/definitions")
    expect(page.locator(".idle")).to_contain_text("Migration")


@pytest.mark.promise("V3")
def test_views_survive_the_crash_of_their_server(fresh: ServerProcess, open_page: OpenPage) -> None:
    flow = start(fresh.client, "workflow", "Reminder", {"hours": 5})
    page = open_page(f"{fresh.url}/flows/{flow}")
    connection = page.locator("[data-connection]")
    expect(page.locator(".headline .status")).to_have_text("waiting")
    expect(connection).to_have_text("Live")
    fresh.kill()
    expect(connection).to_have_text("Reconnecting")
    expect(page.locator(".headline .status")).to_have_text("waiting")
    fresh.start()
    control(fresh.client, f"/v1/flows/{flow}/pause", "while nobody looked")
    expect(connection).to_have_text("Live", timeout=30_000)
    expect(page.locator(".headline .status")).to_have_text("paused", timeout=30_000)


def sign_in(page: Page, url: str, key: str) -> None:
    page.context.clear_cookies()
    page.goto(url)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    settle(page)


def actions(page: Page) -> Locator:
    offered = re.compile("Redrive|Discard|Hold open|Close now|Pause|Limit|Cancel|Complete|Resolve|Try again")
    return page.locator("main").get_by_role("button", name=offered)


@pytest.mark.promise("V2", "X10")
def test_roles_decide_what_is_shown_and_offered(fresh: ServerProcess, open_page: OpenPage) -> None:
    client = fresh.client
    done = start(client, "action", "echo", {"value": SECRET})
    call = start(client, "action", "import_row", {"number": 1})
    spoil(client, SECRET)
    parcel = start(client, "graph", "parcel", {"order": "o-1", "lines": ["pen"]})
    until(lambda: status(client, done) == "completed" == status(client, call))
    until(lambda: client.get("/v1/dependencies").json()["dependencies"])
    shown = {
        f"/flows/{parcel}": ".headline .status",
        "/flows": "tbody tr",
        "/dead": ".group",
        "/dependencies": ".dependency",
        "/queues": ".worker",
        "/batches": "tbody tr",
        "/schedules": "tbody tr",
    }
    begin_together(client)
    keys = {role: fresh.key(role) for role in ROLES}
    page = open_page(f"{fresh.url}/flows/{done}", bypass_csp=True)
    page.get_by_label("API key").fill("rdk_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []
    offered: dict[str, list[bool]] = {}
    for role, key in keys.items():
        sign_in(page, f"{fresh.url}/flows/{done}", key)
        result = page.get_by_role("region", name="Result")
        expect(result).to_contain_text("Your key may not see payloads" if role == "read" else SECRET)
        assert key not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
        offered[role] = []
        for path, there in shown.items():
            show(page, path)
            expect(page.locator(there).first).to_be_visible()
            settle(page)
            offered[role].append((actions(page).count() or page.get_by_role("checkbox").count()) > 0)
            if role == "read":
                assert SECRET not in page.content(), path
    assert offered == {
        "read": [False, False, False, False, False, False, False],
        "operate": [True, True, True, True, False, True, True],
        "admin": [True, True, True, True, True, True, True],
    }
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert SECRET not in page.content()


@ON_ONE_STORE
@pytest.mark.promise("V2")
def test_a_dashboard_that_only_looks_offers_nothing(tmp_path: Path, open_page: OpenPage, on_store: str) -> None:
    store = store_url(on_store, tmp_path)
    with ServerProcess(store, tmp_path, INCIDENT) as server:
        flow = start(server.client, "workflow", "Reminder", {"hours": 5})
        spoil(server.client, "dead")
        begin_together(server.client)
    with ServerProcess(store, tmp_path, command="dashboard") as looking:
        page = open_page(f"{looking.url}/flows/{flow}")
        for path, shown in {
            f"/flows/{flow}": ".headline .status",
            "/flows": "tbody tr",
            "/dead": ".group",
            "/queues": "tbody tr",
            "/batches": "tbody tr",
            "/schedules": "tbody tr",
        }.items():
            show(page, path)
            expect(page.locator(shown).first).to_be_visible()
            assert (actions(page).count(), page.get_by_role("checkbox").count()) == (0, 0), path
        expect(page.locator(".about")).to_contain_text("Read-only")
