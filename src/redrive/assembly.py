"""Open stores and apps by URL. The only module that picks a store driver."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from redrive.client.app import App
from redrive.client.sync_app import SyncApp
from redrive.errors import StoreUnusableError
from redrive.failures.redaction import redact
from redrive.stores.interface import Store
from redrive.worker.settings import WorkerSettings

if TYPE_CHECKING:
    from redrive.codecs import Codec

DEFAULT_ADDRESS = "sqlite:///redrive.db"
ALLOWED = "write sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user@host/database, or memory://"


def store_at(address: str | None = None, codec: "Codec | None" = None) -> Store:
    """Return the store at a URL; by default that of REDRIVE_STORE, or redrive.db in the current folder.

    codec: encodes its payloads; by default with the keys of REDRIVE_CODEC_KEYS or REDRIVE_CODEC_KEYS_FILE, if any.
    """
    return encoded(_driver_at(address), codec or _codec_of_environment())


def encoded(store: Store, codec: "Codec | None") -> Store:
    """Return a store that encodes its payloads with the codec; the store itself where there is none."""
    if codec is None:
        return store
    from redrive.stores.encoded.store import EncodedStore

    return cast("Store", EncodedStore(store, codec))


def reader_of_archives(path: str) -> Callable[[str], str] | None:
    """Return the function that decodes lines of an archive with the keys of the environment; None without keys."""
    if (codec := _codec_of_environment()) is None:
        return None
    from redrive.stores.encoded.payloads import Payloads

    payloads = Payloads(codec, path)
    return lambda line: payloads.decode(line, "archive")


def _codec_of_environment() -> "Codec | None":
    if not any(os.environ.get(name) for name in ("REDRIVE_CODEC_KEYS", "REDRIVE_CODEC_KEYS_FILE")):
        return None
    from redrive.codecs import codec_from_environment

    try:
        return codec_from_environment()
    except ValueError as error:
        raise StoreUnusableError(str(error)) from None


def _driver_at(address: str | None) -> Store:
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


def open(  # noqa: A001 - it is called redrive.open
    address: str | Store | None = None, *, worker: bool = True, codec: "Codec | None" = None, **settings: Any
) -> App:
    """Open a store: `async with redrive.open("sqlite:///app.db") as app: ...`.

    address: sqlite:///file.db, postgresql://..., or memory:// (lost when closed); by default that of REDRIVE_STORE, or
    redrive.db in the current folder.
    worker: whether to run flows in this process; False if other processes do.
    codec: encodes payloads before the store gets them, such as `redrive.codecs.AesGcm(keys)`; by default with the keys
    of REDRIVE_CODEC_KEYS, if that is set.
    settings: settings of the worker: concurrency, threads, processes, queues, lease, grace, keep_finished,
    default_policy (of work that names none), queue_policies, definition_policies, ...
    Durations are seconds, a timedelta, or text such as "30s".
    """
    checked = _checked_settings("open", settings)
    return App(_store(address, codec), worker, checked)


def open_sync(
    address: str | Store | None = None, *, worker: bool = True, codec: "Codec | None" = None, **settings: Any
) -> SyncApp:
    """Open a store in a program without an event loop: `with redrive.open_sync("sqlite:///app.db") as app: ...`.

    The arguments are those of `redrive.open`. Without `with`: `app = redrive.open_sync(...).open()`, and `app.close()`.
    """
    checked = _checked_settings("open_sync", settings)
    # A wrong address is reported here, not at the opening.
    first = [_store(address, codec)]

    def make_app() -> App:
        # Opened again, in a forked process or after it was closed, the app gets a store of its own.
        return App(first.pop() if first else _store(address, codec), worker, checked)

    return SyncApp(make_app)


def _store(address: str | Store | None, codec: "Codec | None") -> Store:
    return store_at(address, codec) if address is None or isinstance(address, str) else encoded(address, codec)


def _checked_settings(function: str, settings: dict[str, Any]) -> WorkerSettings:
    try:
        return WorkerSettings(**settings)
    except TypeError as error:
        known = ", ".join(("worker", "codec", *WorkerSettings.__struct_fields__))
        raise TypeError(f"{function}: {error}; settings are {known}") from None
