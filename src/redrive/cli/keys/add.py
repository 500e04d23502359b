"""`redrive keys add`: create an API key."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options import StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App

ROLES = ("read", "operate", "admin")
LONGEST_NAME = 100


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

    async def add(app: "App") -> None:
        await app.store.add_key(row)

    with_app(store, add, creates=True)
    if as_json:
        print_json({"id": row.id, "name": name, "role": role, "key": key})
    else:
        typer.echo(key)
        typer.echo(f"This is key {row.id} ({role}); it is not shown again.", err=True)
