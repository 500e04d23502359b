"""`redrive flows resume`: let a paused or parked flow go on."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.flows.requests import send_request
from redrive.cli.options import (
    LARGEST_PAGE,
    ByOption,
    DefinitionOption,
    QueueOption,
    StoreOption,
    WhyOption,
    operator,
    required_reason,
)
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import full_definition_name, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def resume_command(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id.")] = "",
    parked: Annotated[
        bool, typer.Option("--parked", help="All parked flows, or those that --definition and --queue select.")
    ] = False,
    definition: DefinitionOption = "",
    queue: QueueOption = "",
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Resume a paused flow, or a parked one whose code has been fixed; with --parked, all parked flows.

    \b
    redrive flows resume 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the code is fixed'
    redrive flows resume --parked --definition Billing --why 'the deploy is over'
    """
    if flow and (parked or definition or queue):
        raise BadInput("name a flow, or select parked flows with --parked, not both")
    if flow:
        send_request("resume", flow, why, by, store, as_json)
    elif parked:
        _resume_parked(definition, queue, why, by, store, as_json)
    else:
        raise BadInput("no flow is given; name one, or add --parked for all parked flows")


def _resume_parked(definition: str, queue: str, why: str, by: str, store: str, as_json: bool) -> None:
    reason, name = required_reason(why), operator(by)

    async def resume(app: "App") -> list[str]:
        from redrive.errors import FlowFinishedError, FlowNotFoundError
        from redrive.stores.records import FlowQuery

        resumed: list[str] = []
        full_name, before = await full_definition_name(app, definition), None
        while page := await app.flows(
            FlowQuery(status=("parked",), definition=full_name, queue=queue or None, before=before, limit=LARGEST_PAGE)
        ):
            for flow in page:
                # It may have been cancelled or pruned meanwhile.
                with contextlib.suppress(FlowFinishedError, FlowNotFoundError):
                    await app.handle(flow.id).resume(by=name, why=reason)
                    resumed.append(flow.id)
            before = page[-1].id
            if len(page) == LARGEST_PAGE:
                typer.echo(f"resumed {len(resumed)} so far", err=True)
        return resumed

    resumed = with_app(store, resume)
    if as_json:
        print_json({"ids": resumed, "requested": "resume", "by": name, "why": reason})
    elif resumed:
        from redrive.formatting.text import format_count

        flows = format_count(len(resumed), "parked flow")
        typer.echo(f"Asked {flows} to resume; those that still do not fit park again: redrive flows --status parked")
    else:
        typer.echo("No parked flows match.")
