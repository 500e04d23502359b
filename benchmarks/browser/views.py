"""What a reader's browser shows, and when: measured in a real Chromium, by the probes in its page."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from tests.dashboard.browsers import ARGUMENTS, chromium

from benchmarks.browser.full_server import FullServer
from redrive.determinism.clock import SYSTEM_CLOCK

PROBES, FLOOD = (Path(__file__).with_name(name) for name in ("probes.js", "flood.js"))
WIDE = {"width": 1280, "height": 800}
RATE = 60.0
"""Updates a second, in the store and on the page."""
WATCHED = 10.0
"""Seconds for which frames are counted."""
STAY = 2.0
"""Seconds on each view while the heap is watched."""
TABS = {
    "All": ("status", None),
    "Needs you": ("status", "failed"),
    "Retrying": ("retrying", "true"),
    "Waiting": ("status", "waiting"),
    "Running": ("status", "running"),
    "Paused": ("status", "paused"),
    "Completed": ("status", "completed"),
    "Cancelled": ("status", "cancelled"),
}
FIELDS = {
    "definition": "workflow:Billing",
    "dependency": "bank",
    "error": "httpx.ReadTimeout",
    "queue": "mail",
    "key": "order-17",
    "waits_for": "circuit",
    "since": "1d",
}
SEARCHES = ("order 99000", "nobody has this")


class Smoothness(NamedTuple):
    """How a page went on while it was updated."""

    frames: float
    """A second."""
    gap: float
    """The longest time between two frames, in milliseconds."""
    task: float
    """The longest task of the main thread, in milliseconds; 0 if none took 50."""


class Heap(NamedTuple):
    """What a page held after a forced garbage collection."""

    seconds: float
    megabytes: float
    nodes: int


@contextmanager
def started_browser() -> Iterator[Browser]:
    path = chromium()
    assert path is not None, "there is no Chromium (apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Views:
    """The views of one server; each look is in a browser that has not been there before, unless said otherwise."""

    def __init__(self, browser: Browser, server: FullServer, looks: int) -> None:
        self._browser = browser
        self._server = server
        self._looks = looks

    @contextmanager
    def _page(self, path: str, flood: bool = False) -> Iterator[Page]:
        context = self._browser.new_context(viewport=WIDE)  # type: ignore[arg-type]  # as in the tests
        try:
            for script in (PROBES, FLOOD) if flood else (PROBES,):
                context.add_init_script(script.read_text(encoding="utf-8"))
            page = context.new_page()
            page.goto(self._server.url + path, wait_until="commit")
            yield page
        finally:
            context.close()

    def opened(self, path: str, view: str) -> float:
        """Return how many milliseconds it takes from the request for the page until the view is shown."""

        def look() -> float:
            with self._page(path) as page:
                return _asked(page, "shown", view)

        return self._median(look)

    def from_now_to_flows(self) -> float:
        """Return how many milliseconds the list of flows takes after a click in the first view."""

        def look() -> float:
            with self._page("/") as page:
                _asked(page, "shown", "now")
                return _asked(page, "go", "/flows", "flows")

        return self._median(look)

    def filters(self) -> dict[str, float]:
        """Return how many milliseconds the list takes to show what each filter asks for."""
        taken: dict[str, list[float]] = {}
        with self._page("/flows") as page:
            _asked(page, "shown", "flows")
            for _ in range(self._looks):
                for title, (name, value) in TABS.items():
                    if title != "All":
                        taken.setdefault(title, []).append(_asked(page, "tab", title, name, value))
                taken.setdefault("All", []).append(_asked(page, "tab", "All", "status", None))
                for name, value in FIELDS.items():
                    taken.setdefault(name, []).append(_asked(page, "field", name, value))
                    _asked(page, "go", "/flows", "flows")
                for text in SEARCHES:
                    taken.setdefault(f"text {text!r}", []).append(_asked(page, "search", text))
                    _asked(page, "go", "/flows", "flows")
        return {name: median(times) for name, times in taken.items()}

    def change_of_a_flow(self) -> float:
        """Return how many milliseconds pass from a request to pause or resume a flow until its page says so."""
        flow_id = self._server.start("workflow", "Held")
        taken = []
        with self._page(f"/flows/{flow_id}") as page:
            page.evaluate("probes.status('waiting')")
            for _ in range(self._looks):
                for what, status in (("pause", "paused"), ("resume", "waiting")):
                    page.evaluate("(wanted) => { window.found = probes.status(wanted); }", status)
                    began = 1000 * SYSTEM_CLOCK.wall()
                    self._server.act(flow_id, what)
                    shown: float = page.evaluate("found")
                    taken.append(shown - began)
        return median(taken)

    def new_flow_in_the_list(self) -> float:
        """Return how many milliseconds pass from a request to start a flow until the list shows it."""
        taken = []
        with self._page("/flows") as page:
            _asked(page, "shown", "flows")
            for _ in range(self._looks):
                began = 1000 * SYSTEM_CLOCK.wall()
                flow_id = self._server.start("workflow", "Held")
                taken.append(_asked(page, "row", flow_id) - began)
        return median(taken)

    def updated(self, path: str, view: str, flood: bool) -> Smoothness:
        """Watch a view that is updated; flood: by sixty snapshots a second, which no server sends."""
        with self._page(path, flood) as page:
            _asked(page, "shown", view)
            return Smoothness(**page.evaluate("(seconds) => probes.watch(seconds)", WATCHED))

    def heap(self, minutes: float, flow_id: str) -> Iterator[Heap]:
        """Go from view to view for so long, each under a flood of updates; say what is left after each round."""
        with self._page("/flows", flood=True) as page:
            _asked(page, "shown", "flows")
            session = page.context.new_cdp_session(page)
            began = time.perf_counter()
            while time.perf_counter() - began < 60 * minutes:
                for path, view in (("/", "now"), ("/flows", "flows"), (f"/flows/{flow_id}", "flow")):
                    _asked(page, "go", path, view)
                    page.wait_for_timeout(1000 * STAY)
                _asked(page, "go", "/flows", "flows")
                # What the view before held is let go only when its last answers have come.
                page.wait_for_timeout(1000 * STAY)
                yield _collected(session, time.perf_counter() - began)

    def _median(self, look: Callable[[], float]) -> float:
        return median(look() for _ in range(self._looks))


def _asked(page: Page, probe: str, *arguments: Any) -> float:
    answer: float = page.evaluate(f"(given) => probes.{probe}(...given)", list(arguments))
    return answer


def _collected(session: CDPSession, seconds: float) -> Heap:
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    return Heap(seconds, used / 2**20, session.send("Memory.getDOMCounters")["nodes"])
