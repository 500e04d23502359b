"""`redrive worker`: run flows until told to stop."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions.files import EnvOption, check_actions, check_registered_scripts
from redrive.cli.definitions.named import load
from redrive.cli.exit_codes import STORE_TOO_NEW
from redrive.cli.options.http import AllowOption, CallbackOption, http_settings
from redrive.cli.options.policies import DefaultPolicyOption, DefinitionPolicyOption, PolicyOptions, QueuePolicyOption
from redrive.cli.options.shared import (
    LARGEST_PORT,
    HealthOption,
    LogLevelOption,
    StoreOption,
    check_log_level,
    read_health,
    read_seconds,
)
from redrive.cli.stderr_logging import log_to_stderr
from redrive.cli.store_access import find_store, refusals_as_bad_input, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def worker_command(
    modules: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE...",
            help="Modules with workflows and actions: dotted names, or .py files; also graph and script files.",
        ),
    ],
    queues: Annotated[
        list[str] | None, typer.Option("--queue", metavar="NAME", help="Claim only flows of this queue; repeatable.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=1000, help="How many worker processes to run and restart.")] = 1,
    concurrency: Annotated[int, typer.Option(help="Coroutine actions that may run at once, in each process.")] = 1000,
    threads: Annotated[int, typer.Option(help="Plain functions that may run at once, in each process.")] = 32,
    lease: Annotated[
        str,
        typer.Option(metavar="DURATION", help="A worker that does not renew its lease for this long loses its flows."),
    ] = "10s",
    grace: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time for running attempts to finish at shutdown."),
    ] = "10s",
    keep_finished: Annotated[
        str, typer.Option(metavar="DURATION", help="Prune finished flows after this time; default: keep them.")
    ] = "",
    version: Annotated[
        str,
        typer.Option("--version", metavar="NAME", help="The version of the code; it takes flows pinned to it, too."),
    ] = "",
    pin: Annotated[
        bool, typer.Option("--pin", help="Pin all flows that begin here to --version, as @workflow(pinned=True) does.")
    ] = False,
    default_policy: DefaultPolicyOption = "",
    queue_policies: QueuePolicyOption = None,
    definition_policies: DefinitionPolicyOption = None,
    env: EnvOption = "",
    allow: AllowOption = None,
    callback_base: CallbackOption = "",
    health: HealthOption = "",
    log_level: LogLevelOption = "info",
    store: StoreOption = "",
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Run a worker: claim flows, run their attempts, and record what happens.

    SIGTERM and SIGINT stop it: it claims nothing more, running attempts get the grace period, and its flows are
    released. Ctrl-C again, or SIGTERM a second later, stops it at once; other workers then take over when its lease
    has expired. Log lines go to stderr.

    \b
    redrive worker shop.flows
    redrive worker shop.flows mails.py --queue mail --threads 8
    redrive worker order.yaml --allow 127.0.0.0/8
    redrive worker shop.flows --queue-policy 'mail=[SMTPException -> retry: 20, backoff: 1m]'
    redrive worker shop.flows --health 9090
    redrive worker shop.flows --processes 4 --store postgresql://app@db/app --keep-finished 30d
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.processes.event_loop import exit_code, run_in_loop
    from redrive.cli.processes.worker_process import work
    from redrive.errors import StoreTooNewError

    policies = PolicyOptions(default_policy, queue_policies, definition_policies)
    settings: dict[str, Any] = {
        "queues": tuple(queues) if queues else None,
        "concurrency": concurrency,
        "threads": threads,
        "lease": read_seconds("--lease", lease),
        "grace": read_seconds("--grace", grace),
        "keep_finished": read_seconds("--keep-finished", keep_finished) if keep_finished else None,
        "version": version,
        "pin": pin,
        **policies.settings,
        "http": http_settings(allow, callback_base, warns=not supervised),
    }
    address = read_health(health)
    check_log_level(log_level)
    _check(settings)
    load(modules, env)
    check_actions()
    check_registered_scripts()
    policies.check_definitions()
    if not supervised:
        policies.warn_of_unread(queues)
    if processes > 1:
        with_app(store, _do_nothing, creates=True)
        from redrive.cli.processes.supervisor import supervise

        options = {
            "--concurrency": str(concurrency),
            "--threads": str(threads),
            "--lease": lease,
            "--grace": grace,
            "--keep-finished": keep_finished,
            "--version": version,
            "--env": env,
            "--callback-base": callback_base,
            "--log-level": log_level,
            "--store": store,
        }
        words = [word for option, value in options.items() if value for word in (option, value)]
        words += ["--pin"] if pin else []
        words += [word for queue in queues or () for word in ("--queue", queue)]
        words += policies.words
        words += [word for network in allow or () for word in ("--allow", network)]
        command = [sys.executable, "-m", "redrive.cli", "worker", "--supervised"]

        def command_of(index: int) -> list[str]:
            return [*command, *_health_of(address, index), *words, "--", *modules]

        _check_ports(address, processes)
        return run_in_loop(supervise(command_of, processes, settings["grace"]))
    log_to_stderr(log_level)
    try:
        with refusals_as_bad_input():
            return exit_code(run_in_loop(work(find_store(store, creates=True), settings, supervised, address)))
    except BadInput as error:
        if not supervised or not isinstance(error.__cause__, StoreTooNewError):
            raise
        typer.echo(f"redrive: {error}", err=True)
        return STORE_TOO_NEW


def _health_of(address: tuple[str, int] | None, index: int) -> list[str]:
    """Return the option for one of several processes: each has a port of its own."""
    if address is None:
        return []
    host, port = address
    return ["--health", f"{f'[{host}]' if ':' in host else host}:{port and port + index}"]


def _check_ports(address: tuple[str, int] | None, processes: int) -> None:
    if address is not None and address[1] + processes - 1 > LARGEST_PORT:
        raise BadInput(
            f"--health: {processes} processes need a port each, from {address[1]} on, "
            f"but the highest is {LARGEST_PORT}; use a lower port"
        )


def _check(settings: dict[str, Any]) -> None:
    from redrive.worker.settings import WorkerSettings

    try:
        WorkerSettings(**settings)
    except ValueError as error:
        field, _, problem = str(error).partition(":")
        option = "queue" if field == "queues" else field.replace("_", "-")
        raise BadInput(f"--{option}:{problem}") from None


async def _do_nothing(app: "App") -> None:
    """Only open the store, so that a store that cannot be used is reported before processes are started."""
