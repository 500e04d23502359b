"""A shop whose orders run through worker processes that get killed. Every execution is noted in a file.

Nothing here remembers anything: how often an action fails is told by its arguments and its attempt.
"""

import asyncio
import os
import signal
import time
from pathlib import Path

from redrive import RetryPolicy, Workflow, action, current_attempt, workflow

QUICKLY = RetryPolicy(attempts=20, backoff_seconds=0.001)


def note(word: str) -> None:
    """One line for what an attempt does, written at once and whole."""
    attempt = current_attempt()
    line = (
        f"{word} {attempt.flow_id} {attempt.item} {attempt.number} {attempt.delivery_token} {attempt.receipt_token}\n"
    )
    with Path(os.environ["SHOP_NOTES"]).open("ab", buffering=0) as notes:
        notes.write(line.encode())


@action(name="shop.reserve")
async def reserve(item: str) -> str:
    note("start")
    await asyncio.sleep(0.001)
    note("end")
    return f"reserved {item}"


@action(name="shop.pay")
async def pay(cents: int, failures: int) -> int:
    note("start")
    if current_attempt().number <= failures:
        raise ConnectionError("the bank is away")
    note("end")
    return cents


@action(name="shop.refuse")
async def refuse(item: str) -> None:
    note("start")
    raise ValueError(f"no {item}")


@action(name="shop.pack")
def pack(item: str) -> str:
    note("start")
    note("end")
    return f"packed {item}"


@action(name="shop.hang")
async def hang(seconds: float) -> str:
    note("start")
    await asyncio.sleep(seconds)
    note("end")
    return "done"


@action(name="shop.block", retry=QUICKLY)
async def block(seconds: float, attempts: int) -> int:
    """Holds the event loop in its first attempts."""
    note("start")
    if current_attempt().number <= attempts:
        time.sleep(seconds)  # noqa: ASYNC251 - that is what it is for
    note("end")
    return current_attempt().number


@action(name="shop.freeze", retry=QUICKLY)
async def freeze() -> int:
    """Stops its process in the first attempt, until somebody continues it."""
    note("start")
    if current_attempt().number == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    note("end")
    return current_attempt().number


@action(name="shop.nap", retry=QUICKLY)
async def nap(seconds: float) -> int:
    note("start")
    await asyncio.sleep(seconds)
    note("end")
    return current_attempt().number


@action(name="shop.nap_in_thread", retry=QUICKLY)
def nap_in_thread(seconds: float) -> int:
    note("start")
    time.sleep(seconds)
    note("end")
    return current_attempt().number


@action(name="shop.die")
async def die() -> None:
    note("start")
    os._exit(9)


@workflow(name="shop.Order")
class Order(Workflow):
    """Sequential, parallel, retried, and failing-then-handled work."""

    async def run(self, number: int, failures: int = 1) -> list[str]:
        done = [await self.run_action(reserve(f"item-{number}"), retry=QUICKLY)]
        paid, packed = await asyncio.gather(
            self.run_action(pay(number, failures), retry=QUICKLY), self.run_action(pack(f"box-{number}"), retry=QUICKLY)
        )
        done += [f"paid {paid}", packed]
        try:
            await refuse(f"gift-{number}")
        except ValueError as error:
            done.append(f"no gift: {error}")
        return done


def expected(number: int) -> list[str]:
    return [
        f"reserved item-{number}",
        f"paid {number}",
        f"packed box-{number}",
        f"no gift: no gift-{number}",
    ]


@workflow(name="shop.Small")
class Small(Workflow):
    """The least that is still a workflow with a retry."""

    async def run(self, number: int) -> int:
        first = await self.run_action(pay(number, number % 2), retry=QUICKLY)
        return await self.run_action(pay(first + 1, 0), retry=QUICKLY)


@workflow(name="shop.Long")
class Long(Workflow):
    async def run(self, seconds: float) -> str:
        return await self.run_action(hang(seconds), retry=RetryPolicy(attempts=5, backoff_seconds=0.01))


@workflow(name="shop.Later")
class Later(Workflow):
    """Waits for its second attempt."""

    async def run(self, backoff: float) -> int:
        return await self.run_action(pay(5, 1), retry=RetryPolicy(attempts=3, backoff_seconds=backoff))


@workflow(name="shop.Naps")
class Naps(Workflow):
    async def run(self, seconds: float) -> int:
        return await nap(seconds) + await nap(seconds)


@workflow(name="shop.Blocking")
class Blocking(Workflow):
    """Its own code holds the event loop, at once or after a step."""

    async def run(self, seconds: float, after_step: bool) -> int:
        number = await nap(0.01) if after_step else 0
        time.sleep(seconds)  # noqa: ASYNC251 - that is what it is for
        return number


@workflow
class Deadly(Workflow):
    """Its own code takes its worker down, as a crash of an extension or the lack of memory would."""

    async def run(self) -> None:
        os._exit(9)
