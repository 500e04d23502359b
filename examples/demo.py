"""An order that survives a flaky service and the death of its worker, on SQLite: `make demo`."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redrive
from examples.flaky_shop import FlakyShop
from examples.flow_view import FlowView
from examples.orders import Order
from examples.terminal import console, scene, stop_waiting, tell
from redrive.cli import main as redrive_command

ROOT = Path(__file__).parents[1]
POLL_SECONDS = 0.05
# How long the running attempt is shown before its worker is killed.
SECONDS_BEFORE_KILL = 0.5


class WorkerProcess:
    """Runs `redrive worker examples.orders` in a process of its own."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "redrive.cli", "worker", "examples.orders"]
        with log.open("ab") as stderr:
            began = time.perf_counter()
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr)  # noqa: S603 - ours
        ready = self._process.stdout.readline() if self._process.stdout else b""
        if not ready:
            raise RuntimeError(f"the worker did not start:\n{log.read_text()}")
        took = time.perf_counter() - began
        tell(f"$ redrive worker examples.orders   [dim](process {self.pid}, ready in {took:.1f} s)[/]")

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


@contextmanager
def environment_of(folder: str, shop: FlakyShop) -> Iterator[Path]:
    """Set the environment variables by which this process, the workers and the CLI find the store and the shop."""
    settings = {"REDRIVE_STORE": f"sqlite:///{folder}/orders.db", "SHOP_URL": shop.url}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield Path(folder) / "workers.log"
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def follow(view: FlowView, until: Callable[[], bool] = lambda: False) -> None:
    """Show the flow's log until `until()` is true, or the flow has ended."""
    while await view.look() and not until():  # noqa: ASYNC110 - another process writes the log
        await asyncio.sleep(POLL_SECONDS)  # noqa: TID251 - a demo takes real time


async def order(shop: FlakyShop, log: Path) -> str:
    async with redrive.open(worker=False) as app:
        scene(1, "An order: reserve, charge, pack and notify, add a gift, ship. The shop's API is flaky")
        worker = WorkerProcess(log)
        try:
            handle = await app.start(Order.call("order-17", cents=4200), key="order-17")
            view = FlowView(app, handle.id)
            await follow(view, until=shop.took_the_money.is_set)
            killed_at = time.perf_counter() + SECONDS_BEFORE_KILL
            await follow(view, until=lambda: time.perf_counter() > killed_at)
            stop_waiting()
            scene(2, "The shop has taken the money but not answered yet. Now the worker is killed")
            worker.end(signal.SIGKILL)
            tell(f"[bold red]SIGKILL to process {worker.pid}[/]; only the file orders.db is left")
            recorded = {path for path in shop.calls if path != "/charge"}
            scene(3, "Another worker continues with the next attempt; recorded steps do not run again")
            worker = WorkerProcess(log)
            view.keep_showing()
            await follow(view)
        finally:
            stop_waiting()
            worker.end()
        scene(4, "What the shop saw")
        for path, calls in shop.calls.items():
            keys = len(shop.keys[path])
            again = ": recorded before the kill, and not run again" if path in recorded else ""
            tell(f"{path:<9} {calls} call{'s' * (calls > 1)}, {keys} idempotency key{'s' * (keys > 1)}{again}")
        taken = ", ".join(f"{cents / 100:.2f}" for cents in shop.charged.values())
        tell(f"[bold]money taken: {taken}, once[/]: each charge had the same key, the receipt token of its work item")
        return handle.id


def main() -> None:
    with FlakyShop() as shop, tempfile.TemporaryDirectory() as folder, environment_of(folder, shop) as log:
        flow_id = asyncio.run(order(shop, log))
        scene(5, "What happened, when and why")
        tell(f"$ redrive explain {flow_id}")
        console.print()
        redrive_command(["explain", flow_id])
    console.print("\n[bold]Try next[/]: python -m examples.guarded_calls, examples/orders.py, docs/durable-work.md")


if __name__ == "__main__":
    main()
