"""`redrive worker`: work on flows until told to stop."""

import logging
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions import load
from redrive.cli.exit_codes import TOO_OLD
from redrive.cli.graph_files import EnvOption, check_actions
from redrive.cli.http_options import AllowOption, CallbackOption, http_settings
from redrive.cli.run import read_seconds
from redrive.cli.script_files import check_registered_scripts
from redrive.cli.store_use import StoreOption, ask, one_line_errors, usable

if TYPE_CHECKING:
    from redrive.client.app import App

LEVELS = ("debug", "info", "warning", "error")
LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"


def worker_command(
    modules: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE...", help="What defines workflows and actions: names, or .py files; files with graphs too."
        ),
    ],
    queues: Annotated[
        list[str] | None, typer.Option("--queue", metavar="NAME", help="Take its flows only; may be repeated.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=1000, help="Worker processes, kept alive by this one.")] = 1,
    concurrency: Annotated[int, typer.Option(help="Coroutine actions that run at once, in each process.")] = 1000,
    threads: Annotated[int, typer.Option(help="Plain functions that run at once, in each process.")] = 32,
    lease: Annotated[
        str, typer.Option(metavar="DURATION", help="Silence after which another worker takes over.")
    ] = "10s",
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="Time for running attempts when told to stop.")
    ] = "10s",
    keep_finished: Annotated[
        str, typer.Option(metavar="DURATION", help="Remove finished flows after so long; by default they stay.")
    ] = "",
    env: EnvOption = "",
    allow: AllowOption = None,
    callback_base: CallbackOption = "",
    log_level: Annotated[str, typer.Option(help=f"One of {', '.join(LEVELS)}.")] = "info",
    store: StoreOption = "",
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Be a worker: claim flows, carry out their attempts, write down what happens.

    SIGTERM and SIGINT stop it: it claims nothing more, running attempts get the grace period, and the rest is handed
    over. Ctrl-C again, or SIGTERM a second later, stops it at once; then others take over when its lease has run out.
    Log lines go to stderr.

    \b
    redrive worker shop.flows
    redrive worker shop.flows mails.py --queue mail --threads 8
    redrive worker order.yaml --allow 127.0.0.0/8
    redrive worker shop.flows --processes 4 --store postgresql://app@db/app --keep-finished 30d
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.event_loop import leave, run_in_loop
    from redrive.cli.worker_process import work
    from redrive.errors import StoreTooNewError

    settings: dict[str, Any] = {
        "queues": tuple(queues) if queues else None,
        "concurrency": concurrency,
        "threads": threads,
        "lease": read_seconds("--lease", lease),
        "grace": read_seconds("--grace", grace),
        "keep_finished": read_seconds("--keep-finished", keep_finished) if keep_finished else None,
        "http": http_settings(allow, callback_base),
    }
    _check(settings, log_level)
    load(modules, env)
    check_actions()
    check_registered_scripts()
    if processes > 1:
        ask(store, _reach, creates=True)
        from redrive.cli.worker_processes import supervise

        options = {
            "--concurrency": str(concurrency),
            "--threads": str(threads),
            "--lease": lease,
            "--grace": grace,
            "--keep-finished": keep_finished,
            "--env": env,
            "--callback-base": callback_base,
            "--log-level": log_level,
            "--store": store,
        }
        words = [word for option, value in options.items() if value for word in (option, value)]
        words += [word for queue in queues or () for word in ("--queue", queue)]
        words += [word for network in allow or () for word in ("--allow", network)]
        command = [sys.executable, "-m", "redrive.cli", "worker", "--supervised", *words, "--", *modules]
        return run_in_loop(supervise(command, processes, settings["grace"]))
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=log_level.upper(), format=LINE, datefmt="%Y-%m-%dT%H:%M:%S")
    try:
        with one_line_errors():
            return leave(run_in_loop(work(usable(store, creates=True), settings, supervised)))
    except BadInput as error:
        if not supervised or not isinstance(error.__cause__, StoreTooNewError):
            raise
        typer.echo(f"redrive: {error}", err=True)
        return TOO_OLD


def _check(settings: dict[str, Any], log_level: str) -> None:
    from redrive.worker.settings import WorkerSettings

    if log_level not in LEVELS:
        raise BadInput(f"--log-level: {log_level!r} is not allowed; use one of {', '.join(LEVELS)}")
    try:
        WorkerSettings(**settings)
    except ValueError as error:
        field, _, problem = str(error).partition(":")
        option = "queue" if field == "queues" else field.replace("_", "-")
        raise BadInput(f"--{option}:{problem}") from None


async def _reach(app: "App") -> None:
    """Opening the store was all there is to do."""
