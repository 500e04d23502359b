"""Actions for processes of their own. They are loaded there, so this file imports little."""

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import redrive
from redrive.flows.action import action
from redrive.runners.attempt import current_attempt

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
FOR_EVER = 1000.0


@dataclass
class Order:
    id: str
    placed: datetime


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


@action(process=True)
def echo(order: Order) -> Order:
    return order


@action(process=True)
async def echo_later(order: Order) -> Order:
    await asyncio.sleep(0)
    return order


@action(process=True)
def spread(first: int, /, *others: int, last: int = 0, **named: int) -> list[int]:
    return [first, *others, last, *named.values()]


@action(process=True)
def who() -> int:
    return os.getpid()


@action(process=True)
def meet(folder: Path, others: int) -> int:
    """Return once so many are at work at the same time."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < others:
        time.sleep(0.005)
    return os.getpid()


@action(process=True)
def fail(how: str) -> None:
    if how == "own":
        raise Refused(7)
    if how == "lookup":
        raise KeyError("x")
    if how == "wrapped":
        try:
            raise Refused(8)
        except Refused as error:
            raise ValueError("outer") from error
    if how == "permanent":
        raise redrive.Permanent("no such user")
    if how == "later":
        raise redrive.RetryAfter("30s")
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "stop":
        raise StopIteration
    if how == "http":
        import httpx

        request = httpx.Request("GET", "http://shop.test")
        httpx.Response(503, headers={"Retry-After": "17"}, request=request).raise_for_status()


@action(process=True)
def die(how: str) -> None:
    if how.isdigit():
        os._exit(int(how))
    os.kill(os.getpid(), getattr(signal, how))


def mode_of(fd: int) -> int:
    try:
        return os.fstat(fd).st_mode
    except OSError:
        return 0


def left_behind(note: Path) -> None:
    """Start a program that lives on and keeps this process's pipes open."""
    held = [fd for fd in range(3, 20) if stat.S_ISFIFO(mode_of(fd)) or stat.S_ISSOCK(mode_of(fd))]
    left = subprocess.Popen(SLEEP, pass_fds=held, start_new_session=True)  # noqa: S603 - our own script
    note.write_text(str(left.pid))


@action(process=True)
def leave_a_program(note: Path) -> int:
    left_behind(note)
    return os.getpid()


@action(process=True)
def leave_a_program_and_die(note: Path) -> None:
    left_behind(note)
    os._exit(4)


@action(process=True)
def not_what_it_says() -> int:
    return "text"  # type: ignore[return-value]


@action(process=True)
def hang(marks: Path, how: str) -> None:
    """Say that it began, and never end."""
    if how == "in a program":
        subprocess.Popen(SLEEP, stdout=(marks / "held").open("w"))  # noqa: S603 - our own script
    (marks / "began").touch()
    if how == "in C code":
        re.match(r"(a+)+$", "a" * 60 + "b")
    time.sleep(FOR_EVER)


@action(process=True)
def facts() -> dict[str, Any]:
    attempt = current_attempt()
    return {
        "flow_id": attempt.flow_id,
        "item": attempt.item,
        "step": attempt.step,
        "number": attempt.number,
        "receipt_token": attempt.receipt_token,
        "delivery_token": attempt.delivery_token,
        "timeout": attempt.timeout,
        "deadline": str(attempt.deadline),
        "last_details": attempt.last_details,
        "attempts": attempt.policy.attempts,
    }


@action(process=True)
def nested_calls() -> int:
    """How often a guarded call inside makes its attempt."""
    calls = 0

    @redrive.retry(attempts=5, retry_on=(ConnectionError,), backoff=0, jitter="none", floor=0)
    def unreachable() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    with suppress(ConnectionError):
        unreachable()
    return calls


@action(process=True)
def beat(times: int) -> None:
    for cursor in range(times):
        current_attempt().heartbeat({"cursor": cursor})


@action(process=True)
def beat_after_the_end() -> None:
    attempt = current_attempt()

    def go_on() -> None:
        for _ in range(200):
            attempt.heartbeat("stray")
            time.sleep(0.001)

    threading.Thread(target=go_on).start()


@action(process=True)
def chatter() -> str:
    print("from Python")  # noqa: T201 - it is what is tried
    os.write(1, b"from fd 1\n")
    subprocess.run([sys.executable, "-S", "-c", "print('from a program')"], check=True)
    print("unfinished line", end="")  # noqa: T201 - it is what is tried
    return sys.stdin.read()


@action(process=True)
def close_stdout() -> int:
    sys.stdout.close()
    return 1


@action(process=True)
def write_into_the_protocol() -> None:
    for fd in range(3, 20):
        with suppress(OSError):
            os.write(fd, b"x" * 100)
    time.sleep(FOR_EVER)


@action(process=True)
def outlive(number: int) -> str:
    os.kill(os.getpid(), number)
    return "still here"
