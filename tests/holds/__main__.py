"""Print the longest hold of each case: `python -m tests.holds [-k PART] [--store ADDRESS] [--count N]`."""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.holds.cases import STARTS, STEPS, Measured, measured, numbers, taking


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", default="", help="only cases whose name contains this")
    parser.add_argument("--store", default="")
    parser.add_argument("--count", type=int, default=100_000, help="items of a flow")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, measured(asked.store or f"sqlite:///{folder}/app.db") as server:
        for name, case in cases(server, asked.count).items():
            if asked.k in name:
                server.longest()
                since = time.perf_counter()
                said = case()
                show(name, server.longest(), time.perf_counter() - since, said)


def show(name: str, hold: Any, seconds: float, said: Any) -> None:
    said = f"{said.status} {said.text[:90]!r}" if hasattr(said, "status") else str(said)[:60]
    print(
        f"{name:45} {hold['seconds'] * 1000:8.0f} ms (computed {hold['computed'] * 1000:.0f}, "
        f"gc {hold['collected'] * 1000:.0f}) of {seconds:6.2f} s  {hold['who']}  {said}"
    )
    if hold["seconds"] > 0.05:
        print(f"{'':10}{hold['stack']}", flush=True)


def _post_made(server: Measured, path: str, make: Callable[[], bytes]) -> Any:
    return server.post(path, make())


def cases(server: Measured, count: int) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for path, bodies in (("/v1/flows", STARTS), ("/v1/steps", STEPS)):
        for name, make in bodies.items():
            found[name] = partial(_post_made, server, path, make)
    found["list: the catalogue"] = lambda: server.get("/v1/steps")
    for kind, amount in (("text", 8_000_000), ("numbers", 1_000_000)):
        start = b'{"action":"hold_give","inputs":{"kind":"%s","count":%d}}' % (kind.encode(), amount)
        found[f"result: {kind} of 8 MB"] = partial(server.run, start)
    found["argument: text of 8 MB, run"] = lambda: server.run(taking(b'"' + b"x" * 7_500_000 + b'"'))
    ns = b'{"ns":' + numbers(count) + b"}"
    last: dict[str, str] = {}

    def running(body: bytes) -> Callable[[], Any]:
        def run() -> str:
            last[""] = server.run(body)
            return last[""]

        return run

    def look(what: str) -> Callable[[], Any]:
        return lambda: server.get(f"/v1/flows/{last['']}{what}")

    flows = {
        "for_each": b'{"graph":"hold_each","inputs":' + ns + b"}",
        "spread": b'{"script":"hold_spread","inputs":' + ns + b"}",
        "a long loop": b'{"workflow":"HoldLong","inputs":{"count":%d}}' % (count // 10),
    }
    for name, body in flows.items():
        found[f"{name}: run"] = running(body)
        found[f"{name}: show"] = look("")
        found[f"{name}: explain"] = look("/explain")
        found[f"{name}: events"] = look("/events?limit=1000")
    found["for_each: one fails"] = lambda: server.run(b'{"graph":"hold_fail_each","inputs":' + ns + b"}")

    def cancelled(force: bool) -> Any:
        flow_id = server.start(b'{"graph":"hold_nap_each","inputs":' + ns + b"}")
        while server.status(flow_id) == "ready" or not server.client.get("/v1/workers").json():
            time.sleep(0.1)
        time.sleep(5)
        before = server.longest()["seconds"]
        body = b'{"why":"enough","force":%s}' % (b"true" if force else b"false")
        server.post(f"/v1/flows/{flow_id}/cancel", body)
        while server.status(flow_id) != "cancelled":
            time.sleep(0.05)
        return f"(before: {before * 1000:.0f} ms)"

    found["for_each: cancel"] = lambda: cancelled(False)
    found["for_each: force"] = lambda: cancelled(True)
    return found


if __name__ == "__main__":
    main()
