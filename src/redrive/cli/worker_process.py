"""One worker process: from its start until it has handed over."""

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import typer

from redrive.assembly import open as open_app
from redrive.cli.event_loop import on_signals
from redrive.cli.exit_codes import FAILED
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows.registry import registered
from redrive.stores.errors import StoreError

if TYPE_CHECKING:
    from redrive.engine.app import App
    from redrive.stores.interface import Store

_LOOK_EVERY = 0.02


async def work(store: "Store", settings: dict[str, Any], supervised: bool) -> int:
    """Be a worker until a signal says to stop, or, when `supervised`, until the supervisor is gone."""
    async with open_app(store, worker=False, **settings) as app:
        working = asyncio.create_task(app.work())
        undo = on_signals(app.stop)
        if supervised:
            _stop_with_supervisor(app)
        try:
            if await _joined(app, working):
                typer.echo(_ready(store.address, settings["queues"]))
                sys.stdout.flush()
            await asyncio.wait([working])
            working.result()
        except StoreError as error:
            typer.echo(f"redrive: the worker cannot go on: {error}", err=True)
            return FAILED
        finally:
            undo()
    return 0


def _stop_with_supervisor(app: "App") -> None:
    """When the supervisor is gone, however it went, the pipe to it breaks."""
    loop = asyncio.get_running_loop()

    def broken() -> None:
        loop.remove_reader(0)
        app.stop()

    loop.add_reader(0, broken)


async def _joined(app: "App", working: "asyncio.Task[None]") -> bool:
    """Wait until the store knows this worker; False when it ended before."""
    while not working.done():
        if any(worker.name == _name() for worker in await app.store.list_workers()):
            return True
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + _LOOK_EVERY)
    return False


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _ready(address: str, queues: tuple[str, ...] | None) -> str:
    workflows, actions = registered()
    return (
        f"worker {_name()} ready: {_count(workflows, 'workflow')}, {_count(actions, 'action')}, "
        f"queues {', '.join(queues) if queues else 'all'}, store {address}"
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
