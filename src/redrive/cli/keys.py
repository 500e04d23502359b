"""`redrive keys`: list, add and revoke the API keys of the HTTP server."""

from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options import StoreOption
from redrive.cli.output import JsonOption, format_utc, print_json, print_table
from redrive.cli.store_access import with_app
from redrive.determinism.clock import SYSTEM_CLOCK

ROLES = ("read", "operate", "admin")
LONGEST_NAME = 100


def list_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List API keys, oldest first: their ids, names and roles, not their secrets.

    \b
    redrive keys
    """
    found = with_app(store, lambda app: app.store.list_keys())
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


def add_command(
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Who uses the key; the name is kept with everything done with it.")
    ],
    role: Annotated[
        str,
        typer.Option(help="read: look; operate: also start, cancel, redrive; admin: also steps and limits."),
    ],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Create an API key and print it. It is shown only this once: the store keeps a digest.

    From the first key on, the server requires one for every request.

    \b
    redrive keys add --role operate --name ci
    """
    from redrive.server.api_keys import new_key

    if role not in ROLES:
        raise BadInput(f"--role: {role!r} is not a role; use one of {', '.join(ROLES)}")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"--name must be 1 to {LONGEST_NAME} printable characters")
    row, key = new_key(name, role, SYSTEM_CLOCK.wall())  # type: ignore[arg-type]  # one of ROLES, checked above
    with_app(store, lambda app: app.store.add_key(row), creates=True)
    if as_json:
        print_json({"id": row.id, "name": name, "role": role, "key": key})
    else:
        typer.echo(key)
        typer.echo(f"This is key {row.id} ({role}); it is not shown again.", err=True)


def revoke_command(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `redrive keys` lists it.")],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key: within seconds the server refuses it.

    \b
    redrive keys revoke 5f0c9a1b2c3d
    """
    if not with_app(store, lambda app: app.store.drop_key(key)):
        raise BadInput(f"no API key has the id {key!r}; list them: redrive keys")
    if as_json:
        print_json({"revoked": key})
    else:
        typer.echo(f"Revoked key {key}.")
