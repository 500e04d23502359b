"""The server as a process: from its start until it has ended its requests and its worker has handed over."""

import asyncio
import sys
from typing import TYPE_CHECKING

import typer

from redrive.assembly import open as open_app
from redrive.cli.bad_input import BadInput
from redrive.cli.counts import count_of, known_in_words
from redrive.cli.event_loop import FOR_THE_HAND_OVER, on_signals
from redrive.cli.exit_codes import FAILED
from redrive.cli.loop_watch import watch_loop
from redrive.errors import StoreError
from redrive.runners.http.settings import HttpSettings
from redrive.server.api import Api
from redrive.server.loopback import is_loopback_address
from redrive.server.running import Server, bind, started, url_of

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.interface import Store


async def serve(
    store: "Store", host: str, port: int, allow: tuple[str, ...], callback_base: str, with_worker: bool
) -> int:
    on_loopback = is_loopback_address(host)
    try:
        bound = bind("127.0.0.1" if host.lower() == "localhost" else host, port)
    except OSError as error:
        raise BadInput(
            f"cannot listen at {host}:{port}: {error.strerror or error}; use another --host or --port"
        ) from None
    with bound:
        url = url_of(bound)
        try:
            http = HttpSettings(allow=allow, callback_base=callback_base or (url if on_loopback else None))
        except ValueError as error:
            raise BadInput(f"--{str(error).replace('callback_base', 'callback-base')}") from None
        async with open_app(store, worker=False, http=http) as app:
            keys = len(await store.list_keys())
            if not on_loopback and not keys:
                raise BadInput(
                    f"--host {host} lets other machines in, and there is no API key; make one first: "
                    "redrive keys add --role admin --name NAME"
                )
            server = Server(Api(app, on_loopback=on_loopback))
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            working = asyncio.create_task(app.work()) if with_worker else None
            return await _until_stopped(app, server, serving, working, _ready(url, store.address, keys, with_worker))


async def _until_stopped(
    app: "App",
    server: Server,
    serving: "asyncio.Task[None]",
    working: "asyncio.Task[None] | None",
    ready: str,
) -> int:
    def stop() -> None:
        server.stop()
        app.stop()

    tasks = [serving] if working is None else [serving, working]
    undo = on_signals(stop)
    watch = watch_loop()
    try:
        if await started(server, serving):
            typer.echo(ready)
            sys.stdout.flush()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stop()
        # A worker that still asks a store that is away to let it join has nothing to hand over.
        _, late = await asyncio.wait(tasks, timeout=app.settings.grace + FOR_THE_HAND_OVER)
        for task in late:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
    except StoreError as error:
        typer.echo(f"redrive: the worker cannot go on: {error}", err=True)
        return FAILED
    finally:
        watch()
        undo()
    return 0


def _ready(url: str, address: str, keys: int, with_worker: bool) -> str:
    known = known_in_words()
    who = count_of(keys, "API key") if keys else "no API keys, for this machine only"
    return f"redrive serves {url}: {known}; {who}; {'with' if with_worker else 'without'} a worker; store {address}"
