"""`redrive flows unpin`: let workers of another version, or of any, go on with a flow."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.commands.audit import audited
from redrive.cli.options.shared import ByOption, FlowArgument, StoreOption, WhyOption, operator, required_reason
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import flow_id_of, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def unpin_command(
    flow: FlowArgument,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="Pin it to this version instead.")] = "",
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Unpin a flow from the version that began it, so that workers of any version, or of another one, go on with it.

    \b
    redrive flows unpin 0197f2a4 --why 'the new code fits: redrive replay said so'
    redrive flows unpin 0197f2a4 --to 2026-11-19 --why 'its workers are gone'
    """
    reason, name = required_reason(why), operator(by)

    async def unpin(app: "App") -> str:
        flow_id = await flow_id_of(app, flow)
        async with audited(app, "flow.unpin", flow_id, by=name, detail=reason):
            await app.handle(flow_id).move_to_version(to or None, by=name, why=reason)
        return flow_id

    flow_id = with_app(store, unpin)
    if as_json:
        print_json({"id": flow_id, "version": to or None, "by": name, "why": reason})
    else:
        typer.echo(f"Flow {flow_id} goes on with workers of {f'version {to}' if to else 'any version'}")
