"""One worker process: from its start until it has handed over."""

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
from redrive.cli.counts import known_in_words
from redrive.cli.event_loop import FOR_THE_HAND_OVER, leave_at_once, on_signals
from redrive.cli.exit_codes import FAILED
from redrive.cli.loop_watch import watch_loop
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.interface import Store

_LOOK_EVERY = 0.02


async def work(store: "Store", settings: dict[str, Any], supervised: bool) -> int:
    """Be a worker until a signal says to stop, or, when `supervised`, until the supervisor is gone."""
    async with open_app(store, worker=False, **settings) as app:
        working = asyncio.create_task(app.work())
        undo = on_signals(app.stop, supervised)
        if supervised:
            _stop_with_supervisor(app.stop, settings["grace"])
        watch = watch_loop()
        try:
            if await _joined(app, working):
                typer.echo(_ready(store.address, settings["queues"]))
                sys.stdout.flush()
            await asyncio.wait([working])
            if not working.cancelled():
                working.result()
        except StoreError as error:
            typer.echo(f"redrive: the worker cannot go on: {error}", err=True)
            return FAILED
        finally:
            watch()
            undo()
    return 0


def _stop_with_supervisor(stop: Callable[[], None], grace: float) -> None:
    """When the supervisor is gone, however it went, the pipe to it breaks. A thread sees it: a loop may be held up."""
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:
        while os.read(0, 4096):
            continue
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + grace + FOR_THE_HAND_OVER)
        leave_at_once(FAILED)

    threading.Thread(target=wait_for_the_end, name="redrive-supervisor-watch", daemon=True).start()


async def _joined(app: "App", working: "asyncio.Task[None]") -> bool:
    """Wait until the store knows this worker; False when it ended before."""
    while not working.done():
        # While the store is away the worker itself is patient.
        with contextlib.suppress(StoreUnavailableError):
            if await _is_known(app):
                return True
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + _LOOK_EVERY)
    return False


async def _is_known(app: "App") -> bool:
    return any(worker.name == _name() for worker in await app.store.list_workers())


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _ready(address: str, queues: tuple[str, ...] | None) -> str:
    which = ", ".join(queues) if queues else "all"
    return f"worker {_name()} ready: {known_in_words()}, queues {which}, store {address}"
