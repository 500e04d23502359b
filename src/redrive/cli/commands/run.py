"""`redrive run`: start a flow, run it in this process, and print its result."""

from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions.files import EnvOption, check_actions, check_script_actions
from redrive.cli.definitions.named import find
from redrive.cli.options.http import AllowOption, http_settings
from redrive.cli.options.inputs import InputOption, read_input
from redrive.cli.options.policies import DefaultPolicyOption, DefinitionPolicyOption, PolicyOptions, QueuePolicyOption
from redrive.cli.options.shared import FunctionOption, KeyOption, StoreOption, read_seconds
from redrive.cli.store_access import find_store, refusals_as_bad_input


def run_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKFLOW|GRAPH.yaml|SCRIPT.rd", help="MODULE: a dotted name, or a path to a .py file."
        ),
    ],
    text: InputOption = "{}",
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="A module with actions; repeatable."),
    ] = None,
    function: FunctionOption = "",
    key: KeyOption = None,
    queue: Annotated[str, typer.Option(help="The queue of the flow, and of the worker in this process.")] = "default",
    timeout: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Stop waiting after this time; the flow goes on later."),
    ] = "",
    default_policy: DefaultPolicyOption = "",
    queue_policies: QueuePolicyOption = None,
    definition_policies: DefinitionPolicyOption = None,
    env: EnvOption = "",
    allow: AllowOption = None,
    store: StoreOption = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the flow's id and status beside the result, however it ended.")
    ] = False,
) -> int:
    """Start a flow with a worker in this process, show its progress, and print its result as JSON.

    Instead of a workflow, name an @action, a Graph or a Pipeline of the module. Exit code 0: completed, 1: failed,
    cancelled or parked (stderr explains why), 2: bad input, 124: --timeout expired, 130: interrupted. A parked,
    timed-out or interrupted flow stays in the store; a worker can continue it.

    \b
    redrive run shop.flows:Billing --input '{"user": "u1"}'
    redrive run flows.py:Billing --input '{"user": "u1"}' --key order-17 --timeout 5m
    redrive run order.yaml --input '{"order": "o-17"}' --allow 127.0.0.0/8
    redrive run order.rd --import shop.actions --input '{"order": "o-17"}'
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.processes.event_loop import exit_code, run_in_loop
    from redrive.cli.processes.foreground_flow import ForegroundFlow

    policies = PolicyOptions(default_policy, queue_policies, definition_policies)
    definition = find(target, imports or None, environment=env).with_function(function)
    check_actions("--import MODULE")
    check_script_actions(definition.what, "--import MODULE")
    policies.check_definitions()
    http = http_settings(allow, "")
    _check_queue(queue)
    policies.warn_of_unread([queue])
    with refusals_as_bad_input():
        arguments = read_input(definition, text)
        seconds = read_seconds("--timeout", timeout) if timeout else None
        opened = find_store(store, creates=True, allow_memory=True)
        run = ForegroundFlow([target, *(imports or ())], store, seconds, http, policies, as_json)
        return exit_code(run_in_loop(run.run(opened, definition, arguments, key, queue)))


def _check_queue(queue: str) -> None:
    from redrive.stores.queue_names import check_queue

    try:
        check_queue(queue)
    except ValueError as error:
        raise BadInput(f"--{error}") from None
