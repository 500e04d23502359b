"""Run one worker until it is told to stop and has released its flows."""

import asyncio
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from redrive.assembly import open as open_app
from redrive.cli.exit_codes import FAILED
from redrive.cli.processes.event_loop import RELEASE_TIME, exit_now, stop_on_signals
from redrive.cli.processes.health_server import HealthAddress, health_server
from redrive.cli.processes.registered_definitions import count_definitions
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.interface import Store

_POLL_EVERY = 0.02


async def work(
    store: "Store", settings: dict[str, Any], supervised: bool, health: tuple[str, int] | None = None
) -> int:
    """Run a worker until a signal stops it or, if `supervised`, until the supervisor is gone.

    health: the address at which to answer probes.
    """
    async with contextlib.AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(store, worker=False, **settings))
        where = "" if health is None else await stack.enter_async_context(health_server(app, HealthAddress(*health)))
        working = asyncio.create_task(app.work())
        restore_signals = stop_on_signals(app.stop, supervised)
        if supervised:
            _stop_with_supervisor(app.stop, settings["grace"])
        try:
            if await _joined(app, working):
                typer.echo(_ready_line(store.address, settings["queues"], where))
                sys.stdout.flush()
            await asyncio.wait([working])
            if not working.cancelled():
                working.result()
        except StoreError as error:
            typer.echo(f"redrive: the worker cannot continue: {error}", err=True)
            return FAILED
        finally:
            restore_signals()
    return 0


def _stop_with_supervisor(stop: Callable[[], None], grace: float) -> None:
    """Stop when the pipe to the supervisor closes. A thread watches it, since the loop may be blocked."""
    loop = asyncio.get_running_loop()

    def wait_for_end_of_pipe() -> None:
        while os.read(0, 4096):
            continue
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + grace + RELEASE_TIME)
        exit_now(FAILED)

    threading.Thread(target=wait_for_end_of_pipe, name="redrive-supervisor-watch", daemon=True).start()


async def _joined(app: "App", working: "asyncio.Task[None]") -> bool:
    """Wait until the worker is registered in the store; False if it ended before."""
    while not working.done():
        # The worker itself waits for a store that is unavailable.
        with contextlib.suppress(StoreUnavailableError):
            if await _is_registered(app):
                return True
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + _POLL_EVERY)
    return False


async def _is_registered(app: "App") -> bool:
    return any(worker.name == _name() for worker in await app.store.list_workers())


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _ready_line(address: str, queues: tuple[str, ...] | None, health: str) -> str:
    which = ", ".join(queues) if queues else "all"
    served = f", health {health}" if health else ""
    return f"worker {_name()} ready: {count_definitions()}, queues {which}, store {address}{served}"
