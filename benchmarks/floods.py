"""One client while another floods the server: `python -m benchmarks.floods [--json] [--quick]`.

`redrive serve` runs on SQLite, in a process of its own. A client with a key of its own opens a new connection for each
request, first while nothing else happens and then during each flood, which comes from the same address.
"""

import contextlib
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.figures import Budget, Case, Figure, Outcome, arguments, progress, show, step
from benchmarks.flood_attacks import ATTACKS, BODIES_AT_ONCE, BODY_SIZE, HALF_SENT, HOST, LONGEST, STREAMS, Target

IDLE = "idle"
PAUSE = 0.01
"""Seconds between two requests of the client."""
RAMP = 1.0
"""Seconds between a flood's report that it is under way and the measurement."""
MOST_TIMES_IDLE = 10.0
WHAT = {
    "slowloris": f"{HALF_SENT:,} half-sent requests",
    "bodies": f"bodies of {BODY_SIZE / 1e6:.1f} MB, {BODIES_AT_ONCE} at once",
    "streams": f"{STREAMS} event streams",
}
CASES = (
    Case(name="p50_ms", unit="ms", what="a request of another client on a new connection: half are faster"),
    Case(name="p99_ms", unit="ms", what="99 of 100 are faster"),
    Case(name="health_p99_ms", unit="ms", what="99 of 100 health checks are faster"),
    Case(name="failed", unit="", what="requests of the other client that had no answer, or not 200", compared=False),
)


class Client:
    """Asks for a flow and for the server's health, each time on a new connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._headers = {"Authorization": f"Bearer {target.key}"}
        self.failed = 0

    def seconds(self, path: str) -> float:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(HOST, self._target.port, timeout=10)
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            answer.read()
            self.failed += answer.status != 200
        except (OSError, http.client.HTTPException):
            self.failed += 1
        finally:
            connection.close()
        return time.perf_counter() - began

    def measure(self, system: str, count: int) -> list[Figure]:
        self.failed = 0
        asked: dict[str, list[float]] = {f"/v1/flows/{self._target.flow_id}": [], "/healthz": []}
        for _ in range(count):
            for path, times in asked.items():
                times.append(self.seconds(path) * 1000)
                time.sleep(PAUSE)  # noqa: TID251 - as a client pauses, in real time
        flows, health = asked.values()
        values = (statistics.median(flows), _percentile_99(flows), _percentile_99(health), float(self.failed))
        return [
            Figure(system=system, case=case.name, value=value, unit=case.unit)
            for case, value in zip(CASES, values, strict=True)
        ]


def _percentile_99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


@contextlib.contextmanager
def served(folder: str) -> Iterator[tuple[Target, Target]]:
    """A server: what the client and what the flood needs to reach it."""
    store = ["--store", f"sqlite:///{folder}/floods.db"]
    redrive = [sys.executable, "-m", "redrive.cli"]
    keys = [
        subprocess.run(
            [*redrive, "keys", "add", "--role", "operate", "--name", name, *store],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for name in ("client", "flood")
    ]
    actions = Path(folder) / "naps.py"
    actions.write_text("from redrive import action\n\n@action(name='nap')\nasync def nap() -> None: ...\n")
    command = [*redrive, "serve", str(actions), "--no-worker", "--port", "0", "--log-level", "error", *store]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.search(rf"http://{re.escape(HOST)}:(\d+)", ready)
        assert found, f"the server said: {ready!r}"
        flow_id = _start(int(found[1]), keys[0])
        client, flood = (Target(int(found[1]), key, flow_id) for key in keys)
        yield client, flood
    finally:
        process.terminate()
        process.wait(30)


def _start(port: int, key: str) -> str:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/flows", b'{"action": "nap", "delay": 3600}', headers)
    answer = connection.getresponse().read()
    connection.close()
    flow_id: str = msgspec.json.decode(answer)["id"]
    return flow_id


@contextlib.contextmanager
def flooded(name: str, target: Target) -> Iterator[None]:
    arguments_ = [name, str(target.port), target.key, target.flow_id, str(LONGEST)]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.flood_attacks", *arguments_], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(RAMP)  # noqa: TID251 - the flood rises in real time
        yield
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    given = arguments(__doc__ or "")
    count = 100 if given.quick else 400
    figures: list[Figure] = []
    with progress(len(ATTACKS) + 1) as bar, tempfile.TemporaryDirectory() as folder, served(folder) as (target, flood):
        client = Client(target)
        client.measure(IDLE, 20)
        step(bar, IDLE)
        figures += client.measure(IDLE, count)
        for name in ATTACKS:
            step(bar, name)
            with flooded(name, flood):
                figures += client.measure(name, count)
    show(
        Outcome(
            title="One client while another floods the server",
            cases=CASES,
            figures=figures,
            reference_systems=(IDLE,),
            budgets=[_budget(name, figures) for name in ATTACKS],
        ),
        given.json,
    )


def _budget(name: str, figures: list[Figure]) -> Budget:
    values = {(one.system, one.case): one.value for one in figures}
    times = values[name, "p99_ms"] / values[IDLE, "p99_ms"]
    failed = values[name, "failed"]
    return Budget(
        what=f"{WHAT[name]}: p99 below {MOST_TIMES_IDLE:.0f}x of idle, and no request fails",
        measured=f"{times:.1f}x, {failed:.0f} failed",
        met=times < MOST_TIMES_IDLE and not failed,
    )


if __name__ == "__main__":
    main()
