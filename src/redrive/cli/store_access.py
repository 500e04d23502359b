"""How commands open their store."""

import os
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from redrive.cli.bad_input import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.client.app import App
    from redrive.stores.interface import Store

T = TypeVar("T")

STORE_VARIABLE = "REDRIVE_STORE"
DEFAULT_STORE = "sqlite:///redrive.db"


def with_app(store: str, task: "Callable[[App], Coroutine[Any, Any, T]]", *, creates: bool = False) -> T:
    """Open the store without a worker and run the task. creates: create the store if it does not exist."""
    import asyncio  # loaded here, so that `redrive --help` is quick

    from redrive.assembly import open as open_app
    from redrive.cli.stderr_logging import warnings_on_stderr

    with refusals_as_bad_input(), warnings_on_stderr():
        opened = find_store(store, creates=creates)

        async def run() -> T:
            async with open_app(opened, worker=False) as app:
                return await task(app)

        return asyncio.run(run())


def find_store(store: str, *, creates: bool, allow_memory: bool = False) -> "Store":
    """Return the store at the URL; BadInput for one that does not exist, or that would end with the command."""
    from redrive.assembly import store_at

    address = store or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    if address.startswith("memory:") and not allow_memory:
        raise BadInput(f"--store {address}: a store in memory ends with this command; use sqlite:///file.db")
    found = store_at(address)
    path = address.removeprefix("sqlite:///")
    if not creates and path != address and not os.path.exists(path):
        raise BadInput(f"{found.address}: there is no such file; name the store with --store or {STORE_VARIABLE}")
    return found


@contextmanager
def refusals_as_bad_input() -> "Iterator[None]":
    """Turn what stores, flows and definitions refuse into BadInput."""
    from redrive.errors import (
        DeserializationError,
        FlowFinishedError,
        FlowNotFoundError,
        InvalidStateError,
        KeyTakenError,
        RunNotFoundError,
        ScheduleError,
        ScheduleNotFoundError,
        SerializationError,
        StoreError,
        TypeHintError,
        UnknownDefinitionError,
    )

    try:
        yield
    except (
        *(StoreError, FlowNotFoundError, FlowFinishedError, InvalidStateError, KeyTakenError),
        *(
            UnknownDefinitionError,
            RunNotFoundError,
            ScheduleError,
            ScheduleNotFoundError,
            SerializationError,
            DeserializationError,
            TypeHintError,
        ),
    ) as error:
        raise BadInput(str(error)) from error


def store_option(store: str) -> str:
    """Return the option to append to a command that is proposed, so that it uses the same store."""
    from redrive.failures.redaction import redact

    if not store or store == os.environ.get(STORE_VARIABLE):
        return ""
    return f" --store {store if redact(store, 1000) == store else 'URL'}"


async def flow_id_of(app: "App", given: str) -> str:
    """Return the id of the flow that is meant: by its id, its key, or the first characters of its id."""
    from redrive.client.flow_lookup import find_flow

    return (await find_flow(app, given)).id


async def full_definition_name(app: "App", name: str) -> str | None:
    """Return a definition's name with its kind, as flows store it; None for an empty name."""
    from redrive.client import definition_names

    return await definition_names.full_name(app, name) if name else None
