"""`redrive archive`: keep finished flows in files."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import DefinitionOption, StoreOption, read_seconds
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import full_definition_name, with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.archive import Archived


def archive_command(
    target: Annotated[
        str, typer.Argument(metavar="FILE", help="The file, or a folder in which it is named for the day.")
    ],
    before: Annotated[
        str, typer.Option(metavar="DURATION", help="Archive flows that finished longer ago than this.")
    ] = "30d",
    definition: DefinitionOption = "",
    then_prune: Annotated[
        bool,
        typer.Option("--then-prune", help="Remove them from the store afterwards; open dead letters stay."),
    ] = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add finished flows to a file of compressed JSON lines: record, log and dead letter of each.

    The file is replaced at once when it is complete, and flows that it has already are not added again. With a codec,
    its lines are encoded as the store is; else they have inputs and results in clear.

    \b
    redrive archive archive/ --before 30d --then-prune
    redrive archive orders.jsonl.gz --before 7d --definition Order
    redrive explain order-17 --archive archive/
    """
    import msgspec

    age = read_seconds("--before", before)

    async def archive(app: "App") -> "Archived":
        try:
            name = await full_definition_name(app, definition)
            return await app.archive(target, before=age, definition=name, then_prune=then_prune)
        except (OSError, ValueError) as error:
            raise BadInput(str(error)) from None

    done = with_app(store, archive)
    if as_json:
        print_json(msgspec.to_builtins(done))
    else:
        pruned = f"; {done.pruned} removed from the store" if then_prune else ""
        typer.echo(f"{done.flows} flows archived in {done.file}, which had {done.kept} others{pruned}")
