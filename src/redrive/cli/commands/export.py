"""`redrive export`: flows with their logs, as JSON lines."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import FLOW_HELP, DefinitionOption, StoreOption
from redrive.cli.store_access import full_definition_name, with_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redrive.client.app import App
    from redrive.stores.records import FlowRecord

RecentOption = Annotated[
    int | None,
    typer.Option("--recent", metavar="N", min=1, help="The newest N flows; those that have ended come last."),
]


def export_command(
    flows: Annotated[list[str] | None, typer.Argument(metavar="FLOW...", help=FLOW_HELP)] = None,
    recent: RecentOption = None,
    definition: DefinitionOption = "",
    store: StoreOption = "",
) -> None:
    """Print flows with their logs, a line of JSON each: for `redrive replay`, and for tests.

    The lines have the inputs and results of the flows, as they are stored. Delivery tokens are left out.

    \b
    redrive export 0197f2a4 order-17 > flows.jsonl
    redrive export --recent 500 --definition Billing > flows.jsonl
    """
    from redrive.client.recorded_flows import export_flow, write_recorded

    if bool(flows) == (recent is not None):
        raise BadInput("name the flows to export, or take the newest with --recent N")
    if flows and definition:
        raise BadInput("--definition selects among the flows of --recent; leave it out where flows are named")

    async def export(app: "App") -> None:
        async for record in _selected(app, flows or (), recent or 0, definition):
            typer.echo(write_recorded(await export_flow(app.store, record)), nl=False)

    with_app(store, export)


async def _selected(
    app: "App", flows: "list[str] | tuple[()]", recent: int, definition: str
) -> "AsyncIterator[FlowRecord]":
    from redrive.client.flow_lookup import find_flow
    from redrive.client.recorded_flows import recent_flows

    for one in flows:
        yield await find_flow(app, one)
    if recent:
        async for record in recent_flows(app.store, recent, await full_definition_name(app, definition)):
            yield record
