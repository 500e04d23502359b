"""`redrive audit` lists the audit log; `audited` records in it what commands do."""

import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.options.shared import StoreOption, operator
from redrive.cli.output import JsonOption, format_utc, print_json, print_table
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def audit_command(
    action: Annotated[str, typer.Option(metavar="ACTION", help="Only this action, such as flow.cancel.")] = "",
    target: Annotated[
        str, typer.Option(metavar="TARGET", help="Only what was done to this flow (and its steps), key or step.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many entries.")] = 50,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the audit log, newest first: who did what to keys, steps, queues and flows, when and from where.

    \b
    redrive audit
    redrive audit --action key.add
    redrive audit --target 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2
    """
    from redrive.stores.audit import AuditQuery

    query = AuditQuery(action=action or None, target=target or None, limit=limit)
    found = with_app(store, lambda app: app.store.list_audit_entries(query))
    if as_json:
        fields = ("actor", "origin", "action", "target", "detail")
        print_json(
            {
                "entries": [
                    {"id": one.id, "at": format_utc(one.at), **{name: getattr(one, name) for name in fields}}
                    for one in found
                ]
            }
        )
    elif not found:
        typer.echo("The audit log has no such entries.")
    else:
        rows = [(format_utc(one.at) or "", one.actor, one.origin, one.action, one.target, one.detail) for one in found]
        print_table(("at", "who", "from", "action", "target", "detail"), rows)


def audited(
    app: "App", action: str, target: str | Sequence[str], *, by: str = "", detail: str = ""
) -> AbstractAsyncContextManager[None]:
    """Record what a command does, then let the block do it; by: the name that was given."""
    from redrive.client import audit_log

    user = operator("")
    claimed = "" if by == user else by
    origin = f"command line on {socket.gethostname()}"
    return audit_log.audited(app, action, target, actor=f"user {user}", by=claimed, origin=origin, detail=detail)
