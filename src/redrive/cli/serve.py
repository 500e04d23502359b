"""`redrive serve`: the HTTP server, with a worker in the same process."""

import logging
import time
from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions import load
from redrive.cli.graph_files import EnvOption, GraphsOption, check_actions, load_graphs
from redrive.cli.script_files import check_registered_scripts
from redrive.cli.store_use import StoreOption, one_line_errors, usable
from redrive.cli.worker import LEVELS, LINE


def serve_command(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE]...", help="What defines workflows and actions: names, or .py files."),
    ] = None,
    graphs: GraphsOption = None,
    env: EnvOption = "",
    host: Annotated[str, typer.Option(help="The address to listen at; others than loopback need an API key.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8717,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Only serve; other processes do the work.")] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="NETWORK",
            help='What steps may call though it is not public: 10.1.0.0/16, a host name, or "private" for all.',
        ),
    ] = None,
    callback_base: Annotated[
        str,
        typer.Option(metavar="URL", help="Where the outside reaches this server: asynchronous steps call back there."),
    ] = "",
    log_level: Annotated[str, typer.Option(help=f"One of {', '.join(LEVELS)}.")] = "info",
    store: StoreOption = "",
) -> int:
    """Serve the HTTP API, and work on flows in the same process. It needs the extra: pip install 'redrive[server]'.

    Without API keys it answers only this machine. SIGTERM and SIGINT stop it: requests may end, event streams do at
    once, and the worker hands over. Log lines go to stderr.

    \b
    redrive serve --graphs graphs/
    redrive serve shop.flows --graphs order.yaml --env production --store postgresql://app@db/app
    redrive keys add --role operate --name ci
    redrive serve --host 0.0.0.0 --callback-base https://redrive.example.com
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.event_loop import leave, run_in_loop

    if log_level not in LEVELS:
        raise BadInput(f"--log-level: {log_level!r} is not allowed; use one of {', '.join(LEVELS)}")
    try:
        from redrive.cli.server_process import serve
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("litestar", "uvicorn"):
            raise
        raise BadInput(f"serve needs the extra 'server' ({error}): pip install 'redrive[server]'") from error
    if modules:
        load(modules)
    load_graphs(graphs or [], env)
    if not no_worker:
        check_actions()
        check_registered_scripts()
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=log_level.upper(), format=LINE, datefmt="%Y-%m-%dT%H:%M:%S")
    with one_line_errors():
        kept = usable(store, creates=True, memory=True)
        return leave(run_in_loop(serve(kept, host, port, tuple(allow or ()), callback_base, not no_worker)))
