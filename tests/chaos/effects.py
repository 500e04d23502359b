"""What user code did, noted outside of every store: one line for each effect in an append-only file.

The order of the lines is the order of the effects, whatever the clocks of the processes say.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from redrive import current_attempt

FILE = "CHAOS_EFFECTS"
"""The environment variable with the path of the file."""


class Effect(NamedTuple):
    word: str
    """start, end, or what a handler did: reporting, and reported once that was acknowledged."""
    flow: str
    item: int
    attempt: int
    delivery: str
    receipt: str
    at: float
    """By the machine's clock, which storms do not set."""
    process: int
    step: str
    stood: float = 0.0
    """Seconds since the worker asked, in the same turn, whether it may call: the process was stopped in between."""


class _Checked(threading.local):
    at: float | None = None
    """When this thread last asked whether it may call, as long as nothing else has run since."""


_checked = _Checked()


def checked() -> None:
    """The worker has asked, in this thread, whether it may call."""
    _checked.at = time.monotonic()
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop().call_soon(setattr, _checked, "at", None)


def note(word: str, step: str) -> None:
    """Note what the current attempt does."""
    attempt = current_attempt()
    _write(word, attempt.flow_id, attempt.item, attempt.number, attempt.delivery_token, attempt.receipt_token, step)


def note_request(word: str, headers: Mapping[str, str]) -> None:
    """Note what a handler of HTTP steps does with a request."""
    receipt = headers["redrive-receipt-token"]
    _write(
        word,
        headers["redrive-flow"],
        int(receipt.rpartition(".")[2]),
        int(headers["redrive-attempt"]),
        headers["redrive-delivery-token"],
        receipt,
        headers["redrive-step"],
    )


def read(path: Path) -> list[Effect]:
    effects = []
    for line in path.read_text(encoding="utf-8").splitlines():
        word, flow, item, attempt, delivery, receipt, at, process, step, stood = line.split(" ")
        effects.append(
            Effect(word, flow, int(item), int(attempt), delivery, receipt, float(at), int(process), step, float(stood))
        )
    return effects


def _write(word: str, flow: str, item: int, attempt: int, delivery: str, receipt: str, step: str) -> None:
    now = time.clock_gettime(time.CLOCK_REALTIME)
    stood = 0.0 if _checked.at is None else time.monotonic() - _checked.at
    line = f"{word} {flow} {item} {attempt} {delivery} {receipt} {now:.6f} {os.getpid()} {step} {stood:.3f}\n"
    # Written at once and whole: a process may be killed at any point.
    with Path(os.environ[FILE]).open("ab", buffering=0) as file:
        file.write(line.encode())
