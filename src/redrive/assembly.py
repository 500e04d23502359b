"""Open stores and apps by URL. The only module that picks a store driver."""

import os
from typing import Any

from redrive.client.app import App
from redrive.client.sync_app import SyncApp
from redrive.errors import StoreUnusableError
from redrive.failures.redaction import redact
from redrive.stores.interface import Store
from redrive.worker.settings import WorkerSettings

DEFAULT_ADDRESS = "sqlite:///redrive.db"
ALLOWED = "write sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user@host/database, or memory://"


def store_at(address: str | None = None) -> Store:
    """Return the store at a URL; by default that of REDRIVE_STORE, or redrive.db in the current folder."""
    if address is None:
        address = os.environ.get("REDRIVE_STORE") or DEFAULT_ADDRESS
    scheme, separator, rest = address.partition("://")
    if not separator:
        raise StoreUnusableError(f"{redact(address, 200) or repr(address)} is not the URL of a store; {ALLOWED}")
    if scheme == "sqlite":
        from redrive.stores.sqlite.store import SqliteStore

        path = rest.removeprefix("/")
        if not path or not rest.startswith("/"):
            raise StoreUnusableError(f"{redact(address, 200)} does not name a file; {ALLOWED}")
        return SqliteStore(path)
    if scheme in ("postgresql", "postgres"):
        from redrive.stores.postgres.store import PostgresStore

        return PostgresStore(address)
    if scheme == "memory":
        from redrive.stores.memory.store import MemoryStore

        return MemoryStore()
    raise StoreUnusableError(f"{redact(scheme, 40)}:// is not a kind of store; {ALLOWED}")


def open(address: str | Store | None = None, *, worker: bool = True, **settings: Any) -> App:  # noqa: A001 - it is called redrive.open
    """Open a store: `async with redrive.open("sqlite:///app.db") as app: ...`.

    address: sqlite:///file.db, postgresql://..., or memory:// (lost when closed); by default that of REDRIVE_STORE, or
    redrive.db in the current folder.
    worker: whether to run flows in this process; False if other processes do.
    settings: settings of the worker: concurrency, threads, processes, queues, lease, grace, keep_finished,
    default_policy (of work that names none), queue_policies, definition_policies, ...
    Durations are seconds, a timedelta, or text such as "30s".
    """
    checked = _checked_settings("open", settings)
    return App(_store(address), worker, checked)


def open_sync(address: str | Store | None = None, *, worker: bool = True, **settings: Any) -> SyncApp:
    """Open a store in a program without an event loop: `with redrive.open_sync("sqlite:///app.db") as app: ...`.

    The arguments are those of `redrive.open`. Without `with`: `app = redrive.open_sync(...).open()`, and `app.close()`.
    """
    checked = _checked_settings("open_sync", settings)
    # A wrong address is reported here, not at the opening.
    first = [_store(address)]

    def make_app() -> App:
        # Opened again, in a forked process or after it was closed, the app gets a store of its own.
        return App(first.pop() if first else _store(address), worker, checked)

    return SyncApp(make_app)


def _store(address: str | Store | None) -> Store:
    return store_at(address) if address is None or isinstance(address, str) else address


def _checked_settings(function: str, settings: dict[str, Any]) -> WorkerSettings:
    try:
        return WorkerSettings(**settings)
    except TypeError as error:
        known = ", ".join(("worker", *WorkerSettings.__struct_fields__))
        raise TypeError(f"{function}: {error}; settings are {known}") from None
