"""`redrive keys`: list, add, rotate and revoke the API keys of the HTTP server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.options.shared import StoreOption, read_seconds
from redrive.cli.output import JsonOption, format_utc, print_json, print_table
from redrive.cli.store_access import with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.registry_rows import KeyRow

ROLES = ("read", "read:payload", "operate", "admin")
LONGEST_NAME = 100
LONGEST_LIFE = 100 * 365 * 86_400.0

ExpiresOption = Annotated[
    str, typer.Option("--expires", metavar="DURATION", help="How long the key is accepted, such as 30d or 12h.")
]


def list_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List API keys, oldest first: names, roles, limits, expiry and last use, not their secrets.

    \b
    redrive keys
    """
    from redrive.server.access.closed_store import without_mark

    stored = with_app(store, lambda app: app.store.list_keys())
    found = without_mark(stored)
    if as_json:
        print_json({"keys": [_as_data(key) for key in found]})
    elif stored and not found:
        typer.echo("No API keys are left, so the server refuses all requests. Add one, or run: redrive keys open")
    elif not found:
        typer.echo("No API keys: the server accepts requests from its own machine only.")
    else:
        now = SYSTEM_CLOCK.wall()
        rows = [
            (
                key.id,
                key.name,
                key.role,
                _limits(key),
                format_utc(key.created_at) or "",
                ("expired " if key.expires_at is not None and key.expires_at <= now else "")
                + (format_utc(key.expires_at) or "never"),
                format_utc(key.used_at) or "never",
            )
            for key in found
        ]
        print_table(("key", "name", "role", "limited to", "created", "expires", "last used"), rows, whole="key")


def _as_data(key: "KeyRow") -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "queues": list(key.queues),
        "definitions": list(key.definitions),
        "created_at": format_utc(key.created_at),
        "expires_at": format_utc(key.expires_at),
        "used_at": format_utc(key.used_at),
    }


def add_command(
    name: Annotated[str, typer.Option(metavar="NAME", help="Who uses the key; recorded with everything done with it.")],
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="read: look, without payloads; read:payload: also see payloads; operate: also start, cancel, redrive; "
            "admin: also steps, limits and the audit log.",
        ),
    ],
    expires: ExpiresOption = "",
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="NAME", help="Only flows of this queue; repeatable.")
    ] = None,
    definition: Annotated[
        list[str] | None,
        typer.Option(
            "--definition", metavar="NAME", help="Only flows of this definition: order, or graph:order; repeatable."
        ),
    ] = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Create an API key and print it. It is shown only this once: the store keeps a digest.

    From the first key on, the server requires one for every request.

    \b
    redrive keys add --role operate --name ci
    redrive keys add --role read --name board --expires 30d
    redrive keys add --role operate --name mailer --queue mail --definition newsletter
    """
    from redrive.server.access.api_keys import new_key

    if role not in ROLES:
        raise BadInput(f"--role: {role!r} is not a role; use one of {', '.join(ROLES)}")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"--name must be 1 to {LONGEST_NAME} printable characters")
    _check_limits(role, queue or (), definition or ())
    now = SYSTEM_CLOCK.wall()
    row, key = new_key(
        name,
        role,  # type: ignore[arg-type]  # one of ROLES, checked above
        now,
        queues=tuple(dict.fromkeys(queue or ())),
        definitions=tuple(dict.fromkeys(definition or ())),
        expires_at=now + _lifetime(expires) if expires else None,
    )

    async def add(app: "App") -> None:
        async with audited(app, "key.add", row.id, detail=f"{name}, role {role}, expires {_expiry(row)}"):
            await app.store.add_key(row)

    with_app(store, add, creates=True)
    _print_key(row, key, as_json)


def rotate_command(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `redrive keys` lists it.")],
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long the old key is still accepted.")
    ] = "1h",
    expires: ExpiresOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Replace a key: create a new one with the same name, role and limits, and let the old one expire after --grace.

    Hand out the new key within that time, and nobody is locked out. Without --expires, the new key gets the lifetime
    of the old one: give --expires for a key that was rotated before, since that has shortened its life.

    \b
    redrive keys rotate 5f0c9a1b2c3d
    redrive keys rotate 5f0c9a1b2c3d --grace 2d --expires 90d
    """
    from redrive.server.access.api_keys import new_key
    from redrive.server.access.closed_store import without_mark

    overlap, now = read_seconds("--grace", grace), SYSTEM_CLOCK.wall()
    lifetime = _lifetime(expires) if expires else None

    async def rotate(app: "App") -> "tuple[KeyRow, KeyRow, str]":
        old = next((one for one in without_mark(await app.store.list_keys()) if one.id == key), None)
        if old is None:
            raise _unknown(key)
        meant = None if old.expires_at is None else old.expires_at - old.created_at
        lives = meant if lifetime is None else lifetime
        row, secret = new_key(
            old.name,
            old.role,  # type: ignore[arg-type]  # as it was stored
            now,
            queues=old.queues,
            definitions=old.definitions,
            expires_at=None if lives is None else now + lives,
        )
        async with audited(app, "key.rotate", key, detail=f"{old.name}: replaced by {row.id} after {grace}"):
            # The new key first: if the second write fails, both are valid, and none is missing.
            await app.store.add_key(row)
            await app.store.expire_key(key, now + overlap)
        return old, row, secret

    old, row, secret = with_app(store, rotate)
    _print_key(row, secret, as_json)
    if not as_json:
        if old.expires_at is not None and old.expires_at <= now:
            typer.echo(f"Key {key} is not accepted any more: it expired at {_expiry(old)}.", err=True)
        else:
            until = now + overlap if old.expires_at is None else min(old.expires_at, now + overlap)
            typer.echo(f"Key {key} is accepted until {format_utc(until)}.", err=True)


def revoke_command(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `redrive keys` lists it.")],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key: within seconds the server refuses it. After the last one, the server refuses all requests.

    \b
    redrive keys revoke 5f0c9a1b2c3d
    """
    from redrive.server.access.closed_store import keep_closed, without_mark

    async def revoke(app: "App") -> bool:
        ids = [one.id for one in without_mark(await app.store.list_keys())]
        if key not in ids:
            raise _unknown(key)
        async with audited(app, "key.revoke", key):
            await keep_closed(app.store)
            await app.store.drop_key(key)
        return ids == [key]

    was_last = with_app(store, revoke)
    if as_json:
        print_json({"revoked": key})
    else:
        typer.echo(f"Revoked key {key}.")
        if was_last:
            closed = "It was the last key: the server refuses requests. Add one, or: redrive keys open"
            typer.echo(closed, err=True)


def open_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Let a server on loopback serve this machine without keys again, after the last key was revoked.

    \b
    redrive keys open
    """
    from redrive.server.access.closed_store import reopen, without_mark

    async def open_(app: "App") -> bool:
        if without_mark(await app.store.list_keys()):
            raise BadInput("there still are API keys; revoke them all first (list them: redrive keys)")
        async with audited(app, "key.open", "keys"):
            return await reopen(app.store)

    opened = with_app(store, open_)
    if as_json:
        print_json({"opened": opened})
    else:
        typer.echo("A server on loopback serves this machine without keys." + ("" if opened else " It already did."))


def secret_command(as_json: JsonOption = False) -> None:
    """Print a new secret for signing requests to handlers. It is kept nowhere.

    \b
    redrive keys secret
    """
    import base64

    from redrive.determinism.ids import random_token
    from redrive.runners.http.signing import PREFIX

    secret = PREFIX + base64.b64encode(bytes.fromhex(random_token() + random_token())).decode()
    if as_json:
        print_json({"secret": secret})
    else:
        typer.echo(secret)


def _print_key(row: "KeyRow", key: str, as_json: bool) -> None:
    if as_json:
        print_json({**_as_data(row), "key": key})
    else:
        typer.echo(key)
        limits = f", limited to {_limits(row)}" if row.queues or row.definitions else ""
        until = "" if row.expires_at is None else f", accepted until {_expiry(row)}"
        typer.echo(f"This is key {row.id} ({row.role}{limits}{until}); it is not shown again.", err=True)


def _limits(row: "KeyRow") -> str:
    return ", ".join((*(f"queue {one}" for one in row.queues), *row.definitions))


def _expiry(row: "KeyRow") -> str:
    return format_utc(row.expires_at) or "never"


def _lifetime(text: str) -> float:
    seconds = read_seconds("--expires", text)
    if not 0 < seconds <= LONGEST_LIFE:
        raise BadInput(
            f"--expires: {text!r} is not allowed; use more than 0 seconds and at most 100 years, such as 30d"
        )
    return seconds


def _check_limits(role: str, queues: Sequence[str], definitions: Sequence[str]) -> None:
    from redrive.flows.registry import KINDS
    from redrive.stores.queue_names import QUEUE_NAME, is_queue

    for queue in queues:
        if not is_queue(queue):
            raise BadInput(f"--queue: {queue!r} is not a queue; {QUEUE_NAME}")
    for definition in definitions:
        if not 1 <= len(definition) <= 200 or not definition.isprintable():
            raise BadInput(f"--definition: {definition[:40]!r} is not a definition; use 1 to 200 printable characters")
        kind, colon, name = definition.partition(":")
        if colon and (f"{kind}:" not in KINDS or not name):
            allowed = ", ".join(f"{one}NAME" for one in KINDS)
            raise BadInput(f"--definition: {definition!r} is not a definition; use NAME, or {allowed}")
    if role == "admin" and (queues or definitions):
        raise BadInput("a key with the role admin cannot be limited; use the role operate, or no --queue, --definition")


def _unknown(key: str) -> BadInput:
    return BadInput(f"no API key has the id {key!r}; list them: redrive keys")
