"""`redrive signal`: tell a running flow something."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.options.shared import ByOption, FlowArgument, StoreOption, operator
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import flow_id_of, store_option, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE...", help="The arguments; values that are JSON are read as JSON."),
]


def signal_command(
    flow: FlowArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the signal.")],
    arguments: ArgumentsArgument = None,
    signal_id: Annotated[
        str, typer.Option("--id", metavar="ID", help="The flow receives a signal of the same id once.")
    ] = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Send a signal to a flow, which waits for it or has a handler for it.

    \b
    redrive signal 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 approved by=ann amount=12.5
    """
    given, sender = read_arguments(arguments or []), operator(by)

    async def send(app: "App") -> str:
        flow_id = await flow_id_of(app, flow)
        async with audited(app, "flow.signal", flow_id, by=sender, detail=name):
            try:
                await app.signal(flow_id, name, given, signal_id=signal_id or None, by=sender)
            except (TypeError, ValueError) as error:
                raise BadInput(str(error)) from None
        return flow_id

    flow_id = with_app(store, send)
    if as_json:
        print_json({"id": flow_id, "signal": name, "by": sender})
    else:
        typer.echo(f"Sent signal {name} to flow {flow_id}; see: redrive explain {flow_id}{store_option(store)}")


def read_arguments(texts: list[str]) -> dict[str, Any]:
    """Read key=value; a value that is not JSON is text."""
    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadInput(f"{text!r} is not an argument; write KEY=VALUE, such as by=ann")
        if key in given:
            raise BadInput(f"the argument {key!r} is given twice")
        try:
            given[key] = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            given[key] = value
    return given
