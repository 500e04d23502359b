"""A real `redrive serve` on a full store, and the changes that it is asked for meanwhile."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.dashboard.server_process import ServerProcess

import redrive
from benchmarks.browser.definitions import stubborn
from benchmarks.dashboard import fill
from redrive.assembly import store_at
from redrive.determinism.clock import SYSTEM_CLOCK

DEFINITIONS = Path(__file__).with_name("definitions.py")
PATIENCE = 300.0


async def fill_store(address: str, flows: int, attempts: int) -> str:
    """Fill it, and return the id of a flow whose one step has been attempted so often."""
    store = store_at(address)
    await store.open()
    try:
        await fill(store, flows, float(int(SYSTEM_CLOCK.wall())))
    finally:
        await store.close()
    async with redrive.open(address) as app:
        handle = await app.start(stubborn(attempts))
        async with asyncio.timeout(PATIENCE):
            while (await app.find(handle.id)).status != "waiting":
                await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + 0.2)
    return handle.id


class FullServer:
    """The server, as whoever changes its flows sees it."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = server.url
        self._client = server.client

    def start(self, kind: str, name: str, **inputs: int) -> str:
        """Start a flow, and return its id."""
        body = {kind: f"benchmarks.browser.{name}", "inputs": inputs}
        flow_id: str = self._sent("/v1/flows", body).json()["id"]
        return flow_id

    def act(self, flow_id: str, what: str) -> None:
        self._sent(f"/v1/flows/{flow_id}/{what}", {"why": "to see how soon it is shown"})

    def _sent(self, path: str, body: object) -> httpx.Response:
        return self._client.post(path, json=body).raise_for_status()

    @contextmanager
    def busy(self, rate: float) -> Iterator[list[float]]:
        """Start so many flows a second meanwhile, from a thread; each second's number of them is appended."""
        stopped, rates = threading.Event(), list[float]()

        def start_flows() -> None:
            began, number = time.perf_counter(), 0
            with httpx.Client(base_url=self.url, timeout=PATIENCE) as client:
                while not stopped.is_set():
                    body = {"action": "benchmarks.browser.quick", "inputs": {"number": number}}
                    client.post("/v1/flows", json=body).raise_for_status()
                    number += 1
                    stopped.wait(max(0.0, began + number / rate - time.perf_counter()))
            rates.append(number / (time.perf_counter() - began))

        thread = threading.Thread(target=start_flows)
        thread.start()
        try:
            yield rates
        finally:
            stopped.set()
            thread.join(PATIENCE)


@contextmanager
def serving(address: str, folder: Path) -> Iterator[FullServer]:
    with ServerProcess(address, folder, DEFINITIONS, "--log-level", "warning") as server:
        yield FullServer(server)
