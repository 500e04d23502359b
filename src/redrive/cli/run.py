"""`redrive run`: start a flow, work on it in this process, and print its result."""

from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions import find
from redrive.cli.flow_input import InputOption, read_input
from redrive.cli.graph_files import EnvOption, check_actions
from redrive.cli.http_options import AllowOption, http_settings
from redrive.cli.script_files import check_script_actions
from redrive.cli.store_use import StoreOption, one_line_errors, usable

KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="The same key and input: the same flow; another input: refused."),
]

FunctionOption = Annotated[
    str, typer.Option("--function", metavar="NAME", help="Of a script: the function to run, in place of main.")
]


def run_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKFLOW|GRAPH.yaml|SCRIPT.rd", help="MODULE: a dotted name, or a path to a .py file."
        ),
    ],
    text: InputOption = "{}",
    imports: Annotated[
        list[str] | None, typer.Option("--import", metavar="MODULE", help="A module with actions that it calls.")
    ] = None,
    function: FunctionOption = "",
    key: KeyOption = None,
    queue: Annotated[str, typer.Option(help="The queue of the flow, and of the worker in this process.")] = "default",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Wait no longer for the result; the flow is kept.")
    ] = "",
    env: EnvOption = "",
    allow: AllowOption = None,
    store: StoreOption = "",
) -> int:
    """Start a flow with a worker in this process, show its progress, and print its result as JSON.

    An @action, a Graph or a Pipeline of the module may be named instead of a workflow. Exit code 0: completed, 1:
    failed, cancelled or parked (stderr explains it), 2: bad input, 124: --timeout came first, 130: interrupted. A flow
    that is parked, late or interrupted is kept.

    \b
    redrive run shop.flows:Billing --input '{"user": "u1"}'
    redrive run flows.py:Billing --input '{"user": "u1"}' --key order-17 --timeout 5m
    redrive run order.yaml --input '{"order": "o-17"}' --allow 127.0.0.0/8
    redrive run order.rd --import shop.actions --input '{"order": "o-17"}'
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.event_loop import leave, run_in_loop
    from redrive.cli.run_in_foreground import FlowInTheForeground

    definition = find(target, imports or None, environment=env).of_function(function)
    check_actions("--import MODULE")
    check_script_actions(definition.what, "--import MODULE")
    http = http_settings(allow, "")
    _check_queue(queue)
    with one_line_errors():
        given = read_input(definition, text)
        seconds = read_seconds("--timeout", timeout) if timeout else None
        kept = usable(store, creates=True, memory=True)
        run = FlowInTheForeground([target, *(imports or ())], store, seconds, http)
        return leave(run_in_loop(run.run(kept, definition, given, key, queue)))


def _check_queue(queue: str) -> None:
    from redrive.stores.queue_names import check_queue

    try:
        check_queue(queue)
    except ValueError as error:
        raise BadInput(f"--{error}") from None


def read_seconds(option: str, text: str) -> float:
    from redrive.errors import DurationError
    from redrive.failures.duration import read_duration

    try:
        return read_duration(text)
    except DurationError as error:
        raise BadInput(f"{option}: {error}") from None
