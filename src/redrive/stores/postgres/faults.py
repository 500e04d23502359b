"""What PostgreSQL and its driver say when something is wrong, in the store's own errors: one line, without secrets."""

from redrive.errors import CommitUnknownError, LeaseLostError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.failures.redaction import redact
from redrive.stores.records import Lease

try:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations

    DRIVER_FAULTS: tuple[type[Exception], ...] = (
        OSError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    )
    # A connection that is cut at the wrong moment confuses the driver itself.
    LOST_TRACK: tuple[type[Exception], ...] = (OSError, asyncpg.InternalClientError)
except ImportError:
    DRIVER_FAULTS = LOST_TRACK = (OSError,)
"""All that the driver raises when the database or the way to it is at fault."""
CLOSED_BETWEEN = AttributeError
"""And when the connection is closed between two steps of a statement: it has let go of its own parts by then."""
CONNECTING_FAULTS: tuple[type[Exception], ...] = (*DRIVER_FAULTS, ValueError)
"""And when the address is at fault."""

USE_SESSION_MODE = "connect to the server itself, or to a pool in session mode"

# By SQLSTATE, or its first two characters: what waiting cannot mend, and what to do about it.
_UNUSABLE = {
    "26000": USE_SESSION_MODE,
    "42P05": USE_SESSION_MODE,
    "28": "check the user and the password",
    "3D": "create the database, or correct its name",
    "3F": "was the schema dropped? open the store again to create it",
    "42501": "give the user the right, or use one that has it",
    "42P01": "was the schema changed or dropped? open the store again to bring it up to date",
    "42": "was the schema changed by hand? it does not fit this version of redrive",
    "0A": "this server cannot do what redrive needs",
}

# What the same means of an address: what the driver does not know in it, it sends to the server.
_UNCONNECTED = {"42704": "take that setting out of the address"}

# Division by zero: what a commit does on purpose.
_REFUSED_ITSELF = "22012"

# What passes: connections, resources, the operator's doing, locks and lost races, a standby that cannot write yet.
_PASSING = ("08", "53", "57", "55", "40", "25", "58", "XX")


def connecting_failed(address: str, error: Exception) -> StoreError:
    state = _state_of(error)
    if state.startswith(_PASSING) or (not state and isinstance(error, LOST_TRACK)):
        return StoreUnavailableError(
            f"{address}: cannot connect ({_said(error)}); check that PostgreSQL runs there and can be reached"
        )
    advice = _UNCONNECTED.get(state) or _advice(state) or "check the address"
    return StoreUnusableError(f"{address}: cannot connect ({_said(error)}); {advice}")


def statement_failed(address: str, error: Exception, lost: bool, writes: bool) -> StoreError:
    if lost:
        if writes:
            return CommitUnknownError(f"{address}: the connection was lost before the answer came ({_said(error)})")
        return StoreUnavailableError(f"{address}: the connection was lost ({_said(error)})")
    state = _state_of(error)
    if state.startswith(_PASSING):
        return StoreUnavailableError(
            f"{address}: it cannot be done at the moment ({_said(error)}); nothing was changed"
        )
    if advice := _advice(state):
        return StoreUnusableError(f"{address}: {_said(error)}; {advice}")
    if state == _REFUSED_ITSELF:
        return StoreError(
            f"{address}: a worker does not own all flows of its commit, or adds some that must be claimed; "
            "nothing was written"
        )
    return StoreError(f"{address}: {_said(error)}; nothing was changed")


def may_only_read(error: Exception) -> bool:
    """Whether the statement was refused since it writes."""
    return _state_of(error) == "25006"


def must_wait(error: Exception) -> bool:
    """Whether the statement was refused since others hold what it needs."""
    return _state_of(error) == "55P03"


def lease_lost(lease: Lease) -> LeaseLostError:
    return LeaseLostError(f"the lease of {lease.worker} (epoch {lease.epoch}) ran out or was taken away")


def _state_of(error: Exception) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _advice(state: str) -> str | None:
    return _UNUSABLE.get(state) or _UNUSABLE.get(state[:2])


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    # Only the first line: details repeat the values, which may be secrets; the ids that a key repeats are none.
    said = (str(error) or type(error).__name__).splitlines()[0]
    if _state_of(error) == "23505" and (detail := getattr(error, "detail", None)):
        said = f"{said}: {detail}"
    return redact(said, 300)
