"""`redrive keys revoke`: revoke an API key."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options import StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def revoke_command(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `redrive keys` lists it.")],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key: within seconds the server refuses it.

    \b
    redrive keys revoke 5f0c9a1b2c3d
    """

    async def drop(app: "App") -> bool:
        return await app.store.drop_key(key)

    if not with_app(store, drop):
        raise BadInput(f"no API key has the id {key!r}; list them: redrive keys")
    if as_json:
        print_json({"revoked": key})
    else:
        typer.echo(f"Revoked key {key}.")
