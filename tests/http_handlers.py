"""Handlers of HTTP steps that fail as told: the path says how.

    /ok  /500  /404 …          any status
    /503?after=2               with Retry-After
    /reset /close /hang /garbage /cut /cut-chunked /drip
    /failed  /failed?status=500     {"success": false, "error": …}
    /problem?status=422        problem+json
    /not-json /empty /huge /bomb /redirect /accept

`?times=2` fails the first two attempts of each work item only, and `?outputs={"a":1}` says what a success gives; it is
{"echo": inputs} otherwise. `?until=NAME` fails until GET /release?name=NAME, `?hold=NAME` answers only after it, and
`?ms=50` takes its time. /told does what the work says, by an input such as {"how": "503", "times": 2}.

GET /counts tells how often each path was called, GET /seen what came and when (of one flow: ?flow=ID), and GET /peaks
how many calls there were at once of each path, or of all with the same ?group=NAME.

`with handlers() as server:` serves from this process, `with handlers_process() as url:` from one of its own, which is
what `python -m tests.http_handlers` is.
"""

import gzip
import json
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Seen

ROOT = Path(__file__).parents[1]
FLOW = "redrive-flow"
LONGEST_HOLD = 20.0
HUGE = 9 * 1024 * 1024
BOMB = 32 * 1024 * 1024
FAULTS = {
    "reset": Reply(fault="reset"),
    "close": Reply(fault="close"),
    "hang": Reply(fault="hang"),
    "garbage": Reply(fault="garbage"),
    "cut": Reply(fault="cut_body", body={"outputs": "half of it is missing"}),
    "cut-chunked": Reply(fault="cut_body", body={"outputs": "half of it is missing"}, chunked=True),
    "drip": Reply(fault="drip_body", body={"outputs": "half of it comes"}, chunked=True),
    "not-json": Reply(body=b"<html>It works!</html>", headers={"Content-Type": "text/html"}),
    "empty": Reply(body=b""),
    "redirect": Reply(status=307, headers={"Location": "/ok"}),
    "accept": Reply(status=202, body={"accepted": True}),
}


class _Script:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.per_item: Counter[tuple[str, str]] = Counter()
        self.inside: Counter[str] = Counter()
        self.peaks: Counter[str] = Counter()
        self.seen: list[tuple[float, Seen]] = []
        self.released: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def reply(self, seen: Seen) -> Reply:
        url = urlsplit(seen.path)
        how = url.path.strip("/")
        told = {name: values[0] for name, values in parse_qs(url.query).items()}
        with self.lock:
            if seen.method == "GET":
                return self._told(how, told)
            if how == "told":
                told |= _said_by_work(seen)
                how = told["how"]
            reply = self._reply(how, told, seen)
            group = told.get("group", how)
            self.inside[group] += 1
            self.peaks[group] = max(self.peaks[group], self.inside[group])
            held = self.released[told["hold"]] if "hold" in told else None
        if held is not None:
            held.wait(LONGEST_HOLD)
        time.sleep(float(told.get("ms", "0")) / 1000)
        with self.lock:
            self.inside[group] -= 1
        return reply

    def _told(self, what: str, told: dict[str, str]) -> Reply:
        if what == "release":
            self.released[told["name"]].set()
            return Reply()
        if what == "seen":
            flow = told.get("flow")
            return Reply(body=[_as_data(at, one) for at, one in self.seen if flow in (None, one.headers.get(FLOW))])
        return Reply(body=self.peaks if what == "peaks" else self.calls)

    def _reply(self, how: str, told: dict[str, str], seen: Seen) -> Reply:
        self.calls[how] += 1
        item = (how, seen.headers.get("redrive-receipt-token", ""))
        self.per_item[item] += 1
        self.seen.append((time.time(), seen))
        is_back = "until" in told and self.released[told["until"]].is_set()
        if how == "ok" or is_back or self.per_item[item] > int(told.get("times", sys.maxsize)):
            return Reply(body=json.loads(told["outputs"]) if "outputs" in told else {"echo": json.loads(seen.body)})
        return _failing(how, told)


def _said_by_work(seen: Seen) -> dict[str, str]:
    says = next(value for value in json.loads(seen.body).values() if isinstance(value, dict))
    return {name: str(value) for name, value in says.items()}


def _failing(how: str, told: dict[str, str]) -> Reply:
    if how.isdigit():
        return Reply(status=int(how), headers={"Retry-After": told["after"]} if "after" in told else {})
    status = int(told.get("status", "200"))
    if how == "failed":
        return Reply(status=status, body={"success": False, "error": "the card was declined"})
    if how == "problem":
        body = {"title": "No stock", "detail": "the north warehouse is empty", "status": status}
        return Reply(status=status, body=body, headers={"Content-Type": "application/problem+json"})
    if how == "huge":
        return Reply(body=b'"' + b"x" * HUGE + b'"', chunked=True)
    if how == "bomb":
        return Reply(body=gzip.compress(b" " * BOMB), headers={"Content-Encoding": "gzip"})
    return FAULTS[how]


def _as_data(at: float, seen: Seen) -> dict[str, Any]:
    return {"at": at, "path": seen.path, "headers": seen.headers, "body": json.loads(seen.body or b"null")}


def handlers() -> FlakyServer:
    return FlakyServer(then=_Script().reply)


@contextmanager
def handlers_process() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.http_handlers"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


if __name__ == "__main__":
    with handlers() as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
