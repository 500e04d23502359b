"""How durable commands reach their store, and the options that all of them share."""

import getpass
import os
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from redrive.cli.bad_input import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.client.app import App
    from redrive.stores.interface import Store

T = TypeVar("T")

VARIABLE = "REDRIVE_STORE"
DEFAULT = "sqlite:///redrive.db"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"Where flows are kept: sqlite:///file.db, postgresql://...; by default {VARIABLE}, or {DEFAULT}.",
    ),
]
FlowArgument = Annotated[str, typer.Argument(metavar="FLOW", help="The id of a flow.")]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="Who does it; by default your login name.")]
WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why, for whoever reads it later.")]


def ask(store: str, question: "Callable[[App], Coroutine[Any, Any, T]]", *, creates: bool = False) -> T:
    """Open the store without a worker and have the question answered. `creates`: the store may be a new one."""
    import asyncio  # loaded here, so that `redrive --help` is quick

    from redrive.assembly import open as open_app
    from redrive.cli.waits import waits_told

    with one_line_errors(), waits_told():
        kept = usable(store, creates)

        async def answer() -> T:
            async with open_app(kept, worker=False) as app:
                return await question(app)

        return asyncio.run(answer())


def usable(store: str, creates: bool, memory: bool = False) -> "Store":
    """The store at the address, if a command can use it. `memory`: one that ends with the command is good enough."""
    from redrive.assembly import store_at

    address = store or os.environ.get(VARIABLE) or DEFAULT
    if address.startswith("memory:") and not memory:
        raise BadInput(f"--store {address}: what is kept in memory is gone with this command; use sqlite:///file.db")
    found = store_at(address)
    path = address.removeprefix("sqlite:///")
    if not creates and path != address and not os.path.exists(path):
        raise BadInput(f"{found.address}: there is no such file; name the store with --store or {VARIABLE}")
    return found


@contextmanager
def one_line_errors() -> "Iterator[None]":
    """What stores, flows and their definitions refuse is bad input."""
    from redrive.errors import (
        DeserializationError,
        FlowFinishedError,
        FlowNotFoundError,
        InvalidStateError,
        KeyTakenError,
        SerializationError,
        StoreError,
        TypeHintError,
        UnknownDefinitionError,
    )

    try:
        yield
    except (
        *(StoreError, FlowNotFoundError, FlowFinishedError, InvalidStateError, KeyTakenError),
        *(UnknownDefinitionError, SerializationError, DeserializationError, TypeHintError),
    ) as error:
        raise BadInput(str(error)) from error


def who(by: str) -> str:
    if by:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may have no name for its user.
        return "unknown"


def reason(why: str) -> str:
    if not why.strip():
        raise BadInput("--why is missing: say why, for whoever reads it later")
    return why


def store_words(store: str) -> str:
    """What to put behind a command that is proposed, so that it means the same store."""
    from redrive.failures.redaction import redact

    if not store or store == os.environ.get(VARIABLE):
        return ""
    return f" --store {store if redact(store, 1000) == store else 'URL'}"
