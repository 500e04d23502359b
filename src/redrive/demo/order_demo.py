"""Run the demo: an order, a flaky shop, and a worker that is killed midway."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from redrive.assembly import open as open_app
from redrive.demo.flaky_shop import FlakyShop
from redrive.demo.flow_view import FlowView
from redrive.demo.orders import Order
from redrive.demo.terminal import console, say, scene, stop_showing
from redrive.demo.worker_process import WorkerProcess
from redrive.determinism.clock import SYSTEM_CLOCK

MODULE = "redrive.demo.orders"
POLL_SECONDS = 0.05
# How long the running attempt is shown before its worker is killed.
SECONDS_BEFORE_KILL = 0.5


@contextmanager
def _environment(folder: str, shop: FlakyShop) -> Iterator[Path]:
    """Set the environment variables by which this process and its workers find the store and the shop."""
    settings = {"REDRIVE_STORE": f"sqlite:///{folder}/orders.db", "SHOP_URL": shop.url}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield Path(folder) / "workers.log"
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def _follow(view: FlowView, until: Callable[[], bool] = lambda: False) -> None:
    """Show the flow's log until `until()` is true, or the flow has ended."""
    while await view.look() and not until():
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + POLL_SECONDS)


async def _order(shop: FlakyShop, log: Path) -> str:
    """Run one order through the loss of its worker, and return the flow's id."""
    async with open_app(worker=False) as app:
        scene(1, "An order: reserve, charge, pack and notify, add a gift, ship. The shop's API is flaky")
        worker = WorkerProcess(log, MODULE)
        try:
            handle = await app.start(Order.call("order-17", cents=4200), key="order-17")
            view = FlowView(app, handle.id)
            await _follow(view, until=shop.took_the_money.is_set)
            kill_at = SYSTEM_CLOCK.monotonic() + SECONDS_BEFORE_KILL
            await _follow(view, until=lambda: SYSTEM_CLOCK.monotonic() > kill_at)
            stop_showing()
            scene(2, "The shop has taken the money but not answered yet. Now the worker is killed")
            worker.end(signal.SIGKILL)
            say(f"[bold red]SIGKILL to process {worker.pid}[/]; only the file orders.db is left")
            recorded = {path for path in shop.calls if path != "/charge"}
            scene(3, "Another worker continues with the next attempt; recorded steps do not run again")
            worker = WorkerProcess(log, MODULE)
            view.keep_showing()
            await _follow(view)
        finally:
            stop_showing()
            worker.end()
        scene(4, "What the shop saw")
        for path, calls in shop.calls.items():
            keys = len(shop.keys[path])
            again = ": recorded before the kill, and not run again" if path in recorded else ""
            say(f"{path:<9} {calls} call{'s' * (calls > 1)}, {keys} idempotency key{'s' * (keys > 1)}{again}")
        taken = ", ".join(f"{cents / 100:.2f}" for cents in shop.charged.values())
        say(f"[bold]money taken: {taken}, once[/]: every attempt to charge sent the same idempotency key")
        return handle.id


def run_demo(explain: Callable[[str], None], program: str = "redrive") -> None:
    """Run the demo to its end; `explain` prints the explanation of the flow with the given id.

    program: how the reader calls redrive. The store stays, so that the dashboard can show it.
    """
    folder = tempfile.mkdtemp(prefix="redrive-demo-")
    with FlakyShop() as shop, _environment(folder, shop) as log:
        flow_id = asyncio.run(_order(shop, log))
        scene(5, "What happened, when and why")
        say(f"$ redrive explain {flow_id}")
        console.print()
        explain(flow_id)
    scene(6, "Look at it in the dashboard: its attempts and waits on one time line")
    say(f"$ {program} dashboard --store sqlite:///{folder}/orders.db")
    say(f"$ {program} demo --dashboard   [dim]# a busier shop, with outages that come and go, until Ctrl-C[/]")
