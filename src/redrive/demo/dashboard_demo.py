"""`redrive demo --dashboard`: a shop whose services have outages, to look at in the dashboard."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from redrive.assembly import open as open_app
from redrive.client.app import App
from redrive.demo.customers import MAILS_AT_ONCE, keep_shop, starts
from redrive.demo.outages import Outage, changes_between
from redrive.demo.terminal import say, scene
from redrive.demo.troubled_services import TroubledServices
from redrive.demo.worker_process import WorkerProcess
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.formatting.times import format_duration

MODULE = "redrive.demo.shop_flows"
WORKER_OPTIONS = ("--threads", "16", "--lease", "5s", "--keep-finished", "1h")
WORKERS = 2
FLOWS_PER_SECOND = 2.0
TICK = 0.5
# Seconds between two deaths of a worker.
DEATHS = 210.0


class Fleet:
    """The workers of the demo. Now and then one is killed, and another takes its place."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._workers: list[WorkerProcess] = []

    def __enter__(self) -> "Fleet":
        for _ in range(WORKERS):
            self._workers.append(self._start())
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.end()

    def replace_one(self) -> int:
        """Kill the oldest worker, start another, and return the process id of the one that was killed."""
        worker = self._workers.pop(0)
        worker.end(signal.SIGKILL)
        self._workers.append(self._start())
        return worker.pid

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self._log, MODULE, *WORKER_OPTIONS)


async def run_dashboard_demo(serve: Callable[[], Awaitable[int]]) -> int:
    """Run the demo until it is told to stop; `serve` serves the page of the store of REDRIVE_STORE until then."""
    began = SYSTEM_CLOCK.monotonic()

    def elapsed() -> float:
        return SYSTEM_CLOCK.monotonic() - began

    with (
        TroubledServices(elapsed) as services,
        tempfile.TemporaryDirectory(prefix="redrive-demo-") as folder,
        _environment(f"sqlite:///{folder}/shop.db", services.url),
    ):
        scene(1, "A shop: about two flows a second, two workers, four services whose outages come and go")
        async with open_app(worker=False) as app:
            await app.limit_queue("mail", MAILS_AT_ONCE)
            with Fleet(Path(folder) / "workers.log") as fleet:
                scene(2, "Open the page; Ctrl-C ends the demo and removes everything")
                trading = asyncio.create_task(_trade(app, fleet, elapsed))
                try:
                    return await serve()
                finally:
                    trading.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await trading


@contextlib.contextmanager
def _environment(store: str, url: str) -> Iterator[None]:
    settings = {"REDRIVE_STORE": store, "SHOP_URL": url}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def _trade(app: App, fleet: Fleet, elapsed: Callable[[], float]) -> None:
    """Start flows, tell of outages, and kill a worker now and then, for ever."""
    upcoming, due, before = starts(), 0.0, 0.0
    while True:
        now = elapsed()
        for outage, begins in changes_between(before, now):
            say(_told(now, outage, begins))
        if (done := await keep_shop(app, before, now)) is not None:
            say(f"{_at(now)}  [cyan]{done}[/]")
        if now // DEATHS > before // DEATHS:
            dead = await asyncio.to_thread(fleet.replace_one)
            say(f"{_at(now)}  [red]worker {dead} was killed[/] with SIGKILL; its flows go on elsewhere")
        due += (now - before) * FLOWS_PER_SECOND
        while due >= 1:
            due -= 1
            begun = next(upcoming)
            await app.start(begun.call(), **begun.settings)
        before = now
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + TICK)


def _told(now: float, outage: Outage, begins: bool) -> str:
    if begins:
        return f"{_at(now)}  [red]{outage.service}[/] {outage.words}, for {format_duration(outage.seconds)}"
    return f"{_at(now)}  [green]{outage.service}[/] works again"


def _at(now: float) -> str:
    return f"[dim]{int(now) // 60:>2}:{int(now) % 60:02}[/]"
