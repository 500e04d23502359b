"""The app that all views of a process share, and starting flows with the transaction that is open."""

from typing import Any, TypeVar, Unpack, overload

from django.db import connections, transaction

from redrive.assembly import open_sync
from redrive.client.flow_settings import FlowSettings
from redrive.client.sync_app import SyncApp
from redrive.client.sync_handle import SyncHandle
from redrive.errors import WrongDatabaseError
from redrive.flows.action import ActionCall
from redrive.flows.flow_call import FlowCall
from redrive.flows.retry_policy import Retry, Timeout
from redrive.integrations.django.attempt_connections import keep_connections_fresh
from redrive.integrations.django.project_settings import project_settings, store_address, worker_settings

T = TypeVar("T")

_apps: dict[str, SyncApp] = {}
"""By the store's address; tests have another one."""


def redrive_app() -> SyncApp:
    """The app of this process, opened when it is first used, also after a fork. Workers run its flows.

    With `memory://`, as in tests, it runs them itself: no other process could.
    """
    address = store_address()
    app = _apps.get(address)
    if app is None:
        runs_flows = address.startswith("memory:")
        if runs_flows:
            keep_connections_fresh()
        settings = worker_settings() if runs_flows else {}
        # Another thread may be here too: the first one's app is everyone's.
        app = _apps.setdefault(address, open_sync(address, worker=runs_flows, **settings))
    return app.open()


@overload
def start(
    call: ActionCall[T],
    *,
    using: str | None = None,
    retry: Retry | None = None,
    timeout: Timeout | None = None,
    **settings: Unpack[FlowSettings],
) -> SyncHandle[T] | None: ...
@overload
def start(call: FlowCall[T], *, using: str | None = None, **settings: Unpack[FlowSettings]) -> SyncHandle[T] | None: ...


def start(call: Any, *, using: str | None = None, **settings: Any) -> SyncHandle[Any] | None:
    """Start a flow that exists if, and only if, the transaction that is open commits; at once where none is open.

    In the store's own database the flow is written in the transaction. Where the store is elsewhere, the flow is
    started after the commit (`transaction.on_commit`), and None is returned: a process that dies in between does not
    start it.
    using: the database whose transaction it is; by default that of `REDRIVE["DATABASE"]`.
    """
    app, alias = redrive_app(), using or project_settings().DATABASE
    connection = connections[alias]
    if not connection.in_atomic_block:
        return app.start(call, **settings)
    try:
        return app.start(call, connection=connection, **settings)
    except WrongDatabaseError:
        transaction.on_commit(lambda: app.start(call, **settings), using=alias)
        return None
