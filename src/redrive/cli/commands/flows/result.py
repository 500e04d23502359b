"""`redrive flows result`: print the result of a flow."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.exit_codes import FAILED, TIMED_OUT
from redrive.cli.options.shared import FlowArgument, StoreOption, read_seconds
from redrive.cli.output import JsonOption
from redrive.cli.store_access import flow_id_of, store_option, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def result_command(
    flow: FlowArgument,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait this long for the flow to end.")] = "0s",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> int:
    """Print the result of a flow, always as JSON. Exit code 1: it failed, 124: it has not ended yet.

    \b
    redrive flows result 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --timeout 30s
    """
    seconds = read_seconds("--timeout", timeout)

    async def show(app: "App") -> int:
        from redrive.flows.events import FlowCompleted
        from redrive.formatting.text import terminal_json
        from redrive.stores.records import FINISHED

        flow_id = await flow_id_of(app, flow)
        # How it ended is read from its log, whatever this raises.
        with contextlib.suppress(Exception):
            await app.handle(flow_id).result(seconds)
        record = await app.find(flow_id)
        lines = await app.log(flow_id) if record.status in FINISHED else []
        ending = lines[-1].event if lines else None
        if isinstance(ending, FlowCompleted):
            typer.echo(terminal_json(bytes(ending.result).decode()))
            return 0
        headline = (await app.explain(flow_id)).headline
        hint = f"see redrive explain {flow_id}{store_option(store)}"
        typer.echo(f"redrive: no result: {headline}; {hint}", err=True)
        return FAILED if record.status in FINISHED else TIMED_OUT

    return with_app(store, show)
