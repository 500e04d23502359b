"""`redrive keys`: who may use the HTTP server."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.flows import as_utc
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.cli.store_use import StoreOption, ask
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.records import KeyRow

ROLES = ("read", "operate", "admin")
LONGEST_NAME = 100


def add_command(
    name: Annotated[str, typer.Option(metavar="NAME", help="Whose it is: it stands beside what is done with it.")],
    role: Annotated[
        str,
        typer.Option(help="read: look; operate: also start, cancel, redrive; admin: also steps and limits."),
    ],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make an API key and print it. It is shown this once: the store keeps a digest only.

    From the first key on, the server asks everyone for one.

    \b
    redrive keys add --role operate --name ci
    """
    from redrive.server.keys import new_key

    if role not in ROLES:
        raise BadInput(f"--role: {role!r} is none; use one of {', '.join(ROLES)}")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"--name: use a text of 1 to {LONGEST_NAME} characters")
    row, key = new_key(name, role, SYSTEM_CLOCK.wall())  # type: ignore[arg-type]  # one of the roles, as was seen

    async def add(app: "App") -> None:
        await app.store.add_key(row)

    ask(store, add, creates=True)
    if as_json:
        print_json({"id": row.id, "name": name, "role": role, "key": key})
    else:
        typer.echo(key)
        typer.echo(f"this is key {row.id} ({role}); it is not shown again", err=True)


def list_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List API keys, oldest first, without the keys themselves.

    \b
    redrive keys
    """
    found = ask(store, _keys)
    if as_json:
        print_json(
            {
                "keys": [
                    {"id": key.id, "name": key.name, "role": key.role, "created_at": as_utc(key.created_at)}
                    for key in found
                ]
            }
        )
    elif not found:
        typer.echo("no API keys: the server answers only the machine it runs on")
    else:
        rows = [(key.id, key.name, key.role, as_utc(key.created_at) or "") for key in found]
        print_table(("key", "name", "role", "made"), rows, whole="key")


def revoke_command(
    key: Annotated[str, typer.Argument(metavar="ID", help="Its id, as `redrive keys` lists it.")],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key: within seconds nobody gets in with it any more.

    \b
    redrive keys revoke 5f0c9a1b2c3d
    """

    async def drop(app: "App") -> bool:
        return await app.store.drop_key(key)

    if not ask(store, drop):
        raise BadInput(f"no API key has the id {key!r}; list them with: redrive keys")
    if as_json:
        print_json({"revoked": key})
    else:
        typer.echo(f"revoked key {key}")


async def _keys(app: "App") -> "list[KeyRow]":
    return await app.store.list_keys()
