"""`redrive start`: start a flow for workers to run."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.definitions.files import EnvOption
from redrive.cli.definitions.named import find
from redrive.cli.options.inputs import InputOption, read_input
from redrive.cli.options.shared import FunctionOption, KeyOption, StoreOption, read_seconds
from redrive.cli.options.tags import GivenTagOption, read_tags
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import refusals_as_bad_input, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def start_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKFLOW|NAME|GRAPH.yaml|SCRIPT.rd", help="What to start; a NAME needs --import MODULE."
        ),
    ],
    text: InputOption = "{}",
    imports: Annotated[
        list[str] | None, typer.Option("--import", metavar="MODULE", help="A module that registers NAME; repeatable.")
    ] = None,
    function: FunctionOption = "",
    key: KeyOption = None,
    queue: Annotated[str, typer.Option(help="The queue; workers can be limited to queues.")] = "default",
    priority: Annotated[int, typer.Option(help="Flows with a higher priority are claimed first.")] = 0,
    tag: GivenTagOption = None,
    concurrency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Such as a tenant: its flows take turns with others and share its limits."),
    ] = None,
    unique_for: Annotated[
        str, typer.Option(metavar="DURATION", help="With --key: for how long the key names the same flow.")
    ] = "",
    debounce: Annotated[
        str, typer.Option(metavar="DURATION", help="With --key: begin once it was not started again for this time.")
    ] = "",
    delay: Annotated[str, typer.Option(metavar="DURATION", help="Begin after this time: 30s, 2h, 1d.")] = "",
    env: EnvOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start a flow and print its id. A worker (`redrive worker MODULE`) runs it.

    \b
    redrive start shop.flows:Billing --input '{"user": "u1"}' --key order-17
    redrive start Billing --import shop.flows --input '{"user": "u1"}' --delay 2h --priority 5
    redrive start order.yaml --input '{"order": "o-17"}' --env production
    """
    definition = find(target, imports or (), env).with_function(function)
    with refusals_as_bad_input():
        arguments = read_input(definition, text)
    settings = {
        "key": key,
        "queue": queue,
        "priority": priority,
        "concurrency_key": concurrency_key,
        "unique_for": read_seconds("--unique-for", unique_for) if unique_for else None,
        "debounce": read_seconds("--debounce", debounce) if debounce else None,
        "delay": read_seconds("--delay", delay) if delay else None,
        "tags": read_tags(tag) or None,
    }

    async def start(app: "App") -> str:
        handle = await definition.start(app, arguments, **settings)
        return handle.id

    flow_id = with_app(store, start, creates=True)
    if as_json:
        print_json({"id": flow_id})
    else:
        typer.echo(flow_id)
