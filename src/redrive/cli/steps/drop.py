"""`redrive steps drop`: remove steps from the catalogue."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options import StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def drop_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of steps.")],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove steps from the catalogue. Running flows keep the steps they began with.

    \b
    redrive steps drop reserve
    """

    async def drop(app: "App") -> list[str]:
        known = [step.name for step in await app.steps()]
        if unknown := [name for name in names if name not in known]:
            raise BadInput(f"no step in the catalogue is named {unknown[0]!r}; list them: redrive steps")
        return [name for name in dict.fromkeys(names) if await app.drop_step(name)]

    dropped = with_app(store, drop)
    if as_json:
        print_json({"dropped": dropped})
    else:
        for name in dropped:
            typer.echo(f"dropped {name}")
