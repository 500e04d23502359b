"""`redrive keys list`: list API keys."""

from typing import TYPE_CHECKING

import typer

from redrive.cli.options import StoreOption
from redrive.cli.output import JsonOption, format_utc, print_json, print_table
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.records import KeyRow


def list_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List API keys, oldest first: their ids, names and roles, not their secrets.

    \b
    redrive keys
    """

    async def find(app: "App") -> "list[KeyRow]":
        return await app.store.list_keys()

    found = with_app(store, find)
    if as_json:
        print_json(
            {
                "keys": [
                    {"id": key.id, "name": key.name, "role": key.role, "created_at": format_utc(key.created_at)}
                    for key in found
                ]
            }
        )
    elif not found:
        typer.echo("No API keys: the server accepts requests from its own machine only.")
    else:
        rows = [(key.id, key.name, key.role, format_utc(key.created_at) or "") for key in found]
        print_table(("key", "name", "role", "created"), rows, whole="key")
