"""Verdicts on SQLSTATEs, the five-character codes by which PostgreSQL identifies errors."""

import re

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import attribute, permanent, transient, unknown

_SHAPE = r"[0-9A-Z]{5}"

_BY_STATE: dict[str, Verdict] = {
    "40001": transient("40001: a serialization failure; the transaction was rolled back and may be run again"),
    "40P01": transient("40P01: a deadlock; the transaction was rolled back and may be run again"),
    "40002": permanent("40002: the data breaks a constraint of the database"),
    "55P03": transient("55P03: lock contention; another transaction holds the lock"),
    "55006": transient("55006: the object is in use"),
    "25006": transient("25006: the server takes no writes, as a standby before or after a failover"),
    "72000": transient("72000: the snapshot is too old; the transaction may be run again"),
    "57P01": transient("57P01: the server is shutting down; it may be back soon"),
    "57P02": transient("57P02: the server crashed; it may be back soon"),
    "57P03": transient("57P03: the server does not accept connections yet"),
    "57P04": permanent("57P04: the database was dropped"),
    "57P05": transient("57P05: the connection was idle too long and was closed"),
    "25P03": transient("25P03: the transaction was idle too long and was ended"),
    "25P04": transient("25P04: the transaction took too long and was ended"),
}

_BY_CLASS: dict[str, tuple[str, str]] = {
    "08": ("transient", "the connection to the database failed; a retry may get through"),
    "40": ("transient", "the transaction was rolled back and may be run again"),
    "53": ("transient", "the database is temporarily out of a resource"),
    "0A": ("permanent", "the database does not support this"),
    "21": ("permanent", "the statement returns more rows or columns than allowed"),
    "22": ("permanent", "validation: the data does not fit the database"),
    "23": ("permanent", "validation: the data breaks a constraint of the database"),
    "25": ("permanent", "the transaction is not in a state that allows this"),
    "28": ("permanent", "the database refuses the user or the password"),
    "3D": ("permanent", "there is no such database"),
    "3F": ("permanent", "there is no such schema"),
    "42": ("permanent", "the statement does not fit the database's schema or the user's rights"),
    "44": ("permanent", "validation: the data breaks a check of the view"),
    "54": ("permanent", "the statement is too large or too complex"),
}

_QUERY_CANCELED = "57014"


def sqlstate_of(error: BaseException) -> str | None:
    """Return the error's SQLSTATE, under whichever name the driver uses; None when it has none."""
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str) and re.fullmatch(_SHAPE, state):
            return state
    return None


def sqlstate_verdict(state: str, message: str = "") -> Verdict | None:
    """Return the verdict; None for states that may be transient or permanent."""
    if (verdict := _BY_STATE.get(state)) is not None:
        return verdict
    if state == _QUERY_CANCELED:
        # The text may be in the server's language, and some wrappers keep only the state: mostly it is a timeout.
        if "user request" in message:
            return unknown("57014: the statement was cancelled by a user")
        return transient("57014: the statement exceeded its timeout; the next attempt may be faster")
    if (row := _BY_CLASS.get(state[:2])) is None:
        return None
    category, why = row
    return transient(f"{state}: {why}") if category == "transient" else permanent(f"{state}: {why}")
