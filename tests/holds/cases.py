"""What is sent to the measured server. Each case is one request, or a flow until it has ended."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from redrive.stores.records import FINISHED

JSON = {"content-type": "application/json"}
LARGE = 8 * 2**20 - 1000
PATIENCE = 300.0


class Answer(NamedTuple):
    status: int
    seconds: float
    text: str


class Measured:
    """A client of one measured server."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert process.stdout is not None
        self.client = httpx.Client(base_url=process.stdout.readline().strip(), timeout=PATIENCE)

    def longest(self) -> Any:
        """The longest hold since this was asked last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def post(self, path: str, body: bytes) -> Answer:
        return self._answer(lambda: self.client.post(path, content=body, headers=JSON))

    def get(self, path: str) -> Answer:
        return self._answer(lambda: self.client.get(path))

    def _answer(self, ask: Callable[[], httpx.Response]) -> Answer:
        since = time.perf_counter()
        answer = ask()
        return Answer(answer.status_code, time.perf_counter() - since, answer.text)

    def start(self, body: bytes) -> str:
        answer = self.post("/v1/flows", body)
        assert answer.status == 201, answer.text[:500]
        return str(json.loads(answer.text)["id"])

    def status(self, flow_id: str) -> str:
        found = self.client.get("/v1/flows", params={"limit": 1000}).json()["flows"]
        return next(str(one["status"]) for one in found if one["id"] == flow_id)

    def run(self, body: bytes) -> str:
        """Start a flow and wait until it has ended."""
        flow_id = self.start(body)
        limit = time.monotonic() + PATIENCE
        while self.status(flow_id) not in FINISHED:
            assert time.monotonic() < limit
            time.sleep(0.05)
        return flow_id


@contextmanager
def measured(address: str) -> Iterator[Measured]:
    command = [sys.executable, "-m", "tests.holds.measured_server", address]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Measured(process)
    finally:
        process.communicate(timeout=60)


def taking(given: bytes) -> bytes:
    """The start of an action with this argument."""
    return b'{"action":"hold_take","inputs":{"given":' + given + b"}}"


def numbers(count: int) -> bytes:
    return json.dumps(list(range(count)), separators=(",", ":")).encode()


def filled(piece: bytes) -> bytes:
    """A list of as many pieces as fit into the largest body."""
    return b"[" + b",".join([piece] * (LARGE // (len(piece) + 1))) + b"]"


def wide(count: int) -> bytes:
    return json.dumps({f"k{n}": n for n in range(count)}, separators=(",", ":")).encode()


STARTS: dict[str, Callable[[], bytes]] = {
    "start: 8 MB of []": lambda: taking(filled(b"[]")),
    "start: 8 MB of {}": lambda: taking(filled(b"{}")),
    "start: 8 MB of numbers": lambda: taking(filled(b"1")),
    "start: 8 MB of small texts": lambda: taking(filled(b'"a"')),
    "start: one text of 7.5 MB": lambda: taking(b'"' + b"x" * 7_500_000 + b'"'),
    "start: one text of 7.5 MB, not ASCII": lambda: taking(('"' + "é" * 3_750_000 + '"').encode()),
    "start: escapes, 7.5 MB": lambda: taking(b'"' + b"\\n" * 3_750_000 + b'"'),
    "start: a dict of 500,000 keys": lambda: taking(wide(500_000)),
    "start: 100,000 objects": lambda: taking(b"[" + b",".join([b'{"a":1,"b":"x"}'] * 100_000) + b"]"),
    "start: 8 MB of [, unclosed": lambda: taking(b"[" * LARGE),
    "start: nested 400 deep, 10,000 times": lambda: taking(b"[" + b",".join([b"[" * 400 + b"]" * 400] * 10_000) + b"]"),
    "start: 100,000 unknown inputs": lambda: b'{"action":"hold_take","inputs":' + wide(100_000) + b"}",
    "start: 100,000 unknown inputs of a graph": lambda: b'{"graph":"hold_each","inputs":' + wide(100_000) + b"}",
    "start: 100,000 unknown inputs of a script": lambda: b'{"script":"hold_spread","inputs":' + wide(100_000) + b"}",
    "start: 100,000 unknown inputs of goals": lambda: b'{"goals":["nothing"],"inputs":' + wide(100_000) + b"}",
    "start: 100,000 unknown fields": lambda: wide(100_000),
    "start: 100,000 for_each of the wrong type": lambda: (
        b'{"graph":"hold_each","inputs":{"ns":' + wide(100_000) + b"}}"
    ),
}


def _step(**more: Any) -> bytes:
    return json.dumps({"name": "held", "endpoint": "http://127.0.0.1:9/x", **more}).encode()


STEPS: dict[str, Callable[[], bytes]] = {
    "step: 100,000 unknown keys": lambda: _step(**{f"k{n}": n for n in range(100_000)}),
    "step: 100,000 bad inputs": lambda: _step(inputs={f"k{n}": {"type": "odd"} for n in range(100_000)}),
    "step: 100,000 good inputs": lambda: _step(inputs={f"k{n}": "string" for n in range(100_000)}),
    "step: 100,000 outputs": lambda: _step(outputs={f"k{n}": "odd" for n in range(100_000)}),
    "step: 100,000 dependencies": lambda: _step(depends_on=[f"k{n}" for n in range(100_000)]),
    "step: a constant of 8 MB": lambda: _step(inputs={"k": {"value": "x" * 7_500_000}}),
    "step: a constant of 1,000,000 numbers": lambda: _step(inputs={"k": {"value": list(range(1_000_000))}}),
    "step: 100,000 keys in work_config": lambda: _step(work_config={f"k{n}": n for n in range(100_000)}),
    "step: 100,000 keys in an input": lambda: _step(inputs={"a": {f"k{n}": n for n in range(100_000)}}),
    "step: 100,000 statuses": lambda: _step(statuses={f"{n}": "transient" for n in range(100_000)}),
    "step: a condition of 1 MB": lambda: _step(inputs={"a": "integer"}, when="a" + " + a" * 250_000 + " > 1"),
    "step: retry of 100,000 rules": lambda: _step(retry={"rules": [{"on": "timeout"}] * 100_000}),
}
