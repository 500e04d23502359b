"""Translates errors of PostgreSQL and its driver into store errors: one line, without secrets."""

from redrive.errors import CommitUnknownError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.failures.redaction import redact

try:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations

    DRIVER_FAULTS: tuple[type[Exception], ...] = (
        OSError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    )
    REFUSED_STATEMENT: tuple[type[Exception], ...] = (asyncpg.PostgresError,)
    # A connection that is cut at the wrong moment leaves the driver's protocol state out of sync.
    OUT_OF_SYNC: tuple[type[Exception], ...] = (OSError, asyncpg.InternalClientError)
except ImportError:
    DRIVER_FAULTS = OUT_OF_SYNC = (OSError,)
    REFUSED_STATEMENT = ()
"""What the driver raises when the database or the network is at fault."""
CLOSED_MIDWAY = AttributeError
"""What the driver raises when the connection is closed in the middle of a statement, since its own parts are gone."""
CONNECTING_FAULTS: tuple[type[Exception], ...] = (*DRIVER_FAULTS, ValueError)
"""What the driver raises when connecting fails; ValueError when the address is invalid."""

USE_SESSION_MODE = "connect to the server itself, or to a pooler in session mode"

# By SQLSTATE or its class (two characters): errors that waiting does not cure, and what to do.
_UNUSABLE = {
    "26000": USE_SESSION_MODE,
    "42P05": USE_SESSION_MODE,
    "28": "check the user and the password",
    "3D": "create the database, or correct its name",
    "3F": "if the schema was dropped, open the store again to create it",
    "42501": "grant the user the privilege, or use another user",
    "42P01": "if the schema was changed or dropped, open the store again to migrate it",
    "42": "the schema does not fit this version of redrive; revert changes made by hand, or use another schema",
    "0A": "this server lacks a feature that redrive needs",
}

# The driver sends settings in the address that it does not know to the server.
_WHEN_CONNECTING = {"42704": "remove that setting from the address"}

# Division by zero: how a commit statement aborts itself.
_ABORTED_ITSELF = "22012"

# Transient: connections, resources, operator intervention, locks, lost races, a standby that cannot write yet.
_TRANSIENT = ("08", "53", "57", "55", "40", "25", "58", "XX")


def connecting_failed(address: str, error: Exception, connected: bool = False) -> StoreError:
    """connected: the fault came while the session was set up, so that the address is right."""
    state = _state_of(error)
    if state.startswith(_TRANSIENT) or (not state and (connected or isinstance(error, OUT_OF_SYNC))):
        return StoreUnavailableError(
            f"{address}: cannot connect ({_message(error)}); check that PostgreSQL is running and reachable there"
        )
    advice = _WHEN_CONNECTING.get(state) or _advice(state) or "check the address"
    return StoreUnusableError(f"{address}: cannot connect ({_message(error)}); {advice}")


def statement_failed(address: str, error: Exception, lost: bool, writes: bool) -> StoreError:
    if lost:
        if writes:
            return CommitUnknownError(
                f"{address}: the connection was lost before the server answered ({_message(error)})"
            )
        return StoreUnavailableError(f"{address}: the connection was lost ({_message(error)})")
    state = _state_of(error)
    if state.startswith(_TRANSIENT):
        return StoreUnavailableError(f"{address}: temporarily unavailable ({_message(error)}); nothing was changed")
    if advice := _advice(state):
        return StoreUnusableError(f"{address}: {_message(error)}; {advice}")
    if state == _ABORTED_ITSELF:
        return StoreError(
            f"{address}: the worker does not own a flow that it changes, or adds a flow to a queue with a limit,"
            " whose flows must be claimed; nothing was written"
        )
    return StoreError(f"{address}: {_message(error)}; nothing was changed")


def is_read_only(error: Exception) -> bool:
    """Return whether the server refused a write because it is read-only."""
    return _state_of(error) == "25006"


def is_lock_timeout(error: Exception) -> bool:
    """Return whether the statement could not get a lock in time."""
    return _state_of(error) == "55P03"


def _state_of(error: Exception) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _advice(state: str) -> str | None:
    return _UNUSABLE.get(state) or _UNUSABLE.get(state[:2])


def _message(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    # Only the first line: details repeat values, which may be secrets. Of a duplicate key they repeat only ids.
    message = (str(error) or type(error).__name__).splitlines()[0]
    if _state_of(error) == "23505" and (detail := getattr(error, "detail", None)):
        message = f"{message}: {detail}"
    return redact(message, 300)
