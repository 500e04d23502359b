"""The people and programs around a storm: clients that start flows, operators, and an observer of limits."""

import asyncio
import contextlib
import json
import random
import urllib.error
import urllib.request
from dataclasses import dataclass, field

from tests.chaos.definitions import NARROW, Kind, call_of, kind_of

from redrive.client.app import App
from redrive.errors import CommitUnknownError, FlowFinishedError, FlowNotFoundError, InvalidStateError, StoreError

LIMIT = 3
"""Flows of the narrow queue that may run at once."""
LOOK_EVERY = 0.2
TRY_AGAIN_AFTER = 0.1


@dataclass
class Told:
    """What clients and operators did."""

    kinds: dict[int, Kind] = field(default_factory=dict)
    started: dict[int, list[str]] = field(default_factory=dict)
    unknown_starts: int = 0
    refused_starts: int = 0
    cancelled: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    over_limit: list[str] = field(default_factory=list)


class Clients:
    """Start flows from two apps, a few also over HTTP, at a steady pace."""

    def __init__(
        self, apps: tuple[App, App], told: Told, dice: random.Random, lease: float, server_url: str | None
    ) -> None:
        """server_url: the server that starts some flows; None without HTTP steps."""
        self._apps = apps
        self._told = told
        self._dice = dice
        self._lease = lease
        self._server_url = server_url

    async def start_all(self, flows: int, within: float, blockers: int) -> None:
        """Start so many flows, spread over `within` seconds, and wait until all starts have their answer."""
        blocking = set(self._dice.sample(range(flows), min(blockers, flows)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(flows):
                kind = "blocker" if number in blocking else kind_of(number, self._server_url is not None)
                self._told.kinds[number] = kind
                self._told.started[number] = []
                how = self._dice.random()
                if how < 0.5:
                    for app in self._apps:
                        group.create_task(self._start_keyed(app, number, kind))
                elif how < 0.6 and self._server_url is not None and kind == "order":
                    group.create_task(self._start_over_http(number))
                else:
                    group.create_task(self._start(self._apps[number % 2], number, kind))
                if (ahead := number * within / flows - (loop.time() - began)) > 0.01:
                    await asyncio.sleep(ahead)

    async def _start_keyed(self, app: App, number: int, kind: Kind) -> None:
        """A start with a key can be repeated until it is answered."""
        while True:
            try:
                handle = await app.start(
                    call_of(kind, number, self._lease), key=f"key-{number}", queue=queue_of(kind), delay=None
                )
            except StoreError:
                await asyncio.sleep(TRY_AGAIN_AFTER)
            else:
                self._told.started[number].append(handle.id)
                return

    async def _start(self, app: App, number: int, kind: Kind) -> None:
        """A start without a key is repeated only if it has certainly added nothing."""
        while True:
            try:
                handle = await app.start(call_of(kind, number, self._lease), queue=queue_of(kind))
            except CommitUnknownError:
                self._told.unknown_starts += 1
                return
            except StoreError:
                self._told.refused_starts += 1
                await asyncio.sleep(TRY_AGAIN_AFTER)
            else:
                self._told.started[number].append(handle.id)
                return

    async def _start_over_http(self, number: int) -> None:
        body = json.dumps({"workflow": "ChaosOrder", "inputs": {"number": number}}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"key-{number}"}
        while True:
            request = urllib.request.Request(f"{self._server_url}/v1/flows", body, headers)  # noqa: S310 - our own server
            try:
                answer = await asyncio.to_thread(_send, request)
            except urllib.error.HTTPError as refused:
                if refused.code < 500 and refused.code != 429:
                    raise
            except OSError:
                pass
            else:
                self._told.started[number].append(answer["id"])
                return
            await asyncio.sleep(TRY_AGAIN_AFTER)


def _send(request: urllib.request.Request) -> dict[str, str]:
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
        sent: dict[str, str] = json.load(answer)
        return sent


def queue_of(kind: Kind) -> str:
    return NARROW if kind == "narrow" else "default"


async def operate(app: App, told: Told, dice: random.Random) -> None:
    """Cancel, pause and resume flows at random until cancelled."""
    while True:
        await asyncio.sleep(dice.uniform(0.01, 0.1))
        known = [ids[0] for ids in told.started.values() if ids]
        if not known:
            continue
        flow = dice.choice(known[-500:])
        handle = app.handle(flow)
        with contextlib.suppress(StoreError, FlowFinishedError, FlowNotFoundError, InvalidStateError):
            if dice.random() < 0.3:
                # Noted first: it may take effect though its answer is lost.
                told.cancelled.add(flow)
                await handle.cancel(by="storm", why="at random")
            else:
                told.paused.add(flow)
                await handle.pause(by="storm", why="at random")
                await asyncio.sleep(dice.uniform(0.0, 0.3))
                await handle.resume(by="storm", why="at random")


async def resume_all(app: App, told: Told) -> None:
    """Resume what is still paused: a resume may have failed in the storm."""
    for flow in told.paused:
        while True:
            try:
                await app.handle(flow).resume(by="storm", why="the storm is over")
            except (FlowFinishedError, FlowNotFoundError, InvalidStateError):
                break
            except StoreError:
                await asyncio.sleep(TRY_AGAIN_AFTER)
            else:
                break


async def observe_limits(app: App, told: Told) -> None:
    """Look at how many flows of the narrow queue run, until cancelled."""
    while True:
        with contextlib.suppress(StoreError):
            for queue in await app.queues():
                if queue.name == NARROW and queue.running > LIMIT:
                    told.over_limit.append(f"{queue.running} flows of {NARROW} ran at once, limit {LIMIT}")
        await asyncio.sleep(LOOK_EVERY)
