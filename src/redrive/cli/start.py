"""`redrive start`: start a flow for other processes to work on."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.definitions import find
from redrive.cli.flow_input import InputOption, read_input
from redrive.cli.graph_files import EnvOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.run import FunctionOption, KeyOption, read_seconds
from redrive.cli.store_use import StoreOption, ask, one_line_errors

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
        list[str] | None, typer.Option("--import", metavar="MODULE", help="A module that registers it.")
    ] = None,
    function: FunctionOption = "",
    key: KeyOption = None,
    queue: Annotated[str, typer.Option(help="Which workers take it.")] = "default",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    delay: Annotated[str, typer.Option(metavar="DURATION", help="Begin later: 30s, 2h, 1d.")] = "",
    env: EnvOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start a flow and print its id. Workers (`redrive worker MODULE`) carry it out.

    \b
    redrive start shop.flows:Billing --input '{"user": "u1"}' --key order-17
    redrive start Billing --import shop.flows --input '{"user": "u1"}' --delay 2h --priority 5
    redrive start order.yaml --input '{"order": "o-17"}' --env production
    """
    definition = find(target, imports or (), env).of_function(function)
    with one_line_errors():
        given = read_input(definition, text)
    seconds = read_seconds("--delay", delay) if delay else None

    async def start(app: "App") -> str:
        handle = await definition.start(app, given, key=key, queue=queue, priority=priority, delay=seconds)
        return handle.id

    flow_id = ask(store, start, creates=True)
    if as_json:
        print_json({"id": flow_id})
    else:
        typer.echo(flow_id)
