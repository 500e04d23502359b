"""A transaction of the caller's own, in which a store can add flows."""

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from redrive.errors import WrongDatabaseError
from redrive.stores.records import FlowRecord

Database = Literal["PostgreSQL", "SQLite"]
Rows = Sequence[Sequence[Any]]
Parameters = tuple[Any, ...]
AddSteps = Generator[tuple[str, Parameters], Rows, list[FlowRecord | None]]
"""Yields statements with their parameters, and is sent the rows; the protocol is written once, sans-IO."""
Fetch = Callable[[str, Parameters], Rows | Awaitable[Rows]]

PARAMETER = "\x00"
"""Stands for a parameter in a statement. It occurs in no name."""


class CallerTransaction(NamedTuple):
    """What a store needs to know of the caller's transaction; redrive.integrations makes it of a connection."""

    database: Database
    is_open: bool
    """Whether the statements of `fetch` belong to a transaction, which the caller commits or rolls back."""
    how_to_open: str
    """What to write where it is not open."""
    fetch: Fetch
    """Runs a statement in the transaction and returns its rows."""
    needs_loop: bool = False
    """Whether `fetch` returns an awaitable, for the event loop that the connection belongs to."""


async def run_steps(steps: AddSteps, fetch: Fetch) -> list[FlowRecord | None]:
    """Run the statements and return what the store's `add_flows` returns."""
    try:
        statement, parameters = next(steps)
        while True:
            rows = fetch(statement, parameters)
            statement, parameters = steps.send(await rows if inspect.isawaitable(rows) else rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # what the generator returned


def wrong_database(theirs: str, address: str) -> WrongDatabaseError:
    return WrongDatabaseError(
        f"connection: it is connected to {theirs}, and the store is {address}; "
        "pass a connection to the store's own database, or start the flow without connection="
    )


# How drivers write parameters


@lru_cache
def with_dollars(statement: str) -> str:
    """Return the statement with $1, $2, ... as its parameters."""
    first, *others = statement.split(PARAMETER)
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))


@lru_cache
def with_percents(statement: str) -> str:
    """Return the statement with %s as its parameters, and %% for a percent sign."""
    return statement.replace("%", "%%").replace(PARAMETER, "%s")


@lru_cache
def with_question_marks(statement: str) -> str:
    """Return the statement with ? as its parameters."""
    return statement.replace(PARAMETER, "?")
