"""Run the server until it is told to stop, its requests have ended, and its worker has released its flows."""

import asyncio
import functools
import sys
import threading
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from redrive.assembly import open as open_app
from redrive.cli.bad_input import BadInput
from redrive.cli.exit_codes import FAILED
from redrive.cli.options.http import http_settings
from redrive.cli.processes.event_loop import RELEASE_TIME, stop_on_signals
from redrive.cli.processes.loop_watchdog import watch_loop
from redrive.cli.processes.registered_definitions import count_definitions
from redrive.errors import StoreError
from redrive.formatting.text import format_count
from redrive.server.access.closed_store import without_mark
from redrive.server.access.loopback import is_loopback_address
from redrive.server.api import Api
from redrive.server.http_server import HttpServer, bind, url_of, wait_until_started
from redrive.server.transport.tls import TlsError, TlsFiles

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.interface import Store


def read_tls_files(certificate: str, key: str) -> TlsFiles:
    try:
        return TlsFiles(certificate, key)
    except TlsError as error:
        raise BadInput(f"--tls-cert, --tls-key: {error}") from None


async def serve(
    store: "Store",
    host: str,
    port: int,
    allow: tuple[str, ...],
    callback_base: str,
    with_worker: bool,
    tls: TlsFiles | None,
    policies: dict[str, Any],
) -> int:
    """policies: settings of the worker, as redrive.open() takes them."""

    def announce(url: str, access: str) -> None:
        worker = "with" if with_worker else "without"
        _say(f"redrive serves {url}: {count_definitions()}; {access}; {worker} a worker; store {store.address}")

    return await _serve(store, host, port, allow, callback_base, with_worker, tls, policies, announce)


async def serve_dashboard(
    store: "Store", host: str, port: int, tls: TlsFiles | None, *, operate: bool, opens_browser: bool
) -> int:
    """Serve the page and the API without a worker; nothing can be changed unless `operate`."""

    def announce(url: str, access: str) -> None:
        may = "flows can be changed" if operate else "read-only; --operate allows changes"
        _say(f"redrive dashboard: {url}/ ({may}; {access}; store {store.address})")
        if opens_browser:
            # In a thread: some browsers block whoever starts them.
            threading.Thread(target=webbrowser.open, args=(f"{url}/",), daemon=True).start()

    return await _serve(store, host, port, (), "", False, tls, {}, announce, read_only=not operate)


async def _serve(
    store: "Store",
    host: str,
    port: int,
    allow: tuple[str, ...],
    callback_base: str,
    with_worker: bool,
    tls: TlsFiles | None,
    policies: dict[str, Any],
    announce: Callable[[str, str], None],
    *,
    read_only: bool = False,
) -> int:
    """announce: is called with the URL, and with who may use it, once requests are accepted."""
    on_loopback = is_loopback_address(host)
    try:
        bound = bind("127.0.0.1" if host.lower() == "localhost" else host, port)
    except OSError as error:
        raise BadInput(
            f"cannot listen on {host}:{port}: {error.strerror or error}; use another --host or --port"
        ) from None
    with bound:
        url = url_of(bound, "https" if tls else "http")
        http = http_settings(allow, callback_base or (url if on_loopback else ""))
        async with open_app(store, worker=False, http=http, **policies) as app:
            rows = await store.list_keys()
            keys = len(without_mark(rows))
            if not on_loopback and not keys:
                raise BadInput(
                    f"--host {host} accepts requests from other machines, but there is no API key; create one first: "
                    "redrive keys add --role admin --name NAME"
                )
            api = Api(app, on_loopback=on_loopback, read_only=read_only)
            server = HttpServer(api, tls.context if tls else None)
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            working = asyncio.create_task(app.work()) if with_worker else None
            ready = functools.partial(announce, url, _access(len(rows), keys))
            return await _until_stopped(app, server, serving, working, ready)


async def _until_stopped(
    app: "App",
    server: HttpServer,
    serving: "asyncio.Task[None]",
    working: "asyncio.Task[None] | None",
    ready: Callable[[], None],
) -> int:
    def stop() -> None:
        server.stop()
        app.stop()

    tasks = [serving] if working is None else [serving, working]
    restore_signals = stop_on_signals(stop)
    stop_watchdog = watch_loop() if working is None else lambda: None
    try:
        if await wait_until_started(server, serving):
            ready()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stop()
        # A worker that still waits for an unavailable store has nothing to release.
        _, late = await asyncio.wait(tasks, timeout=app.settings.grace + RELEASE_TIME)
        for task in late:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
    except StoreError as error:
        typer.echo(f"redrive: the worker cannot continue: {error}", err=True)
        return FAILED
    finally:
        stop_watchdog()
        restore_signals()
    return 0


def _access(rows: int, keys: int) -> str:
    if keys:
        return format_count(keys, "API key")
    return "all API keys revoked, for nobody" if rows else "no API keys, for this machine only"


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()
