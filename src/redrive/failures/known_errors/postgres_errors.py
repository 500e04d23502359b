"""Errors of asyncpg, psycopg, psycopg2, and of SQLAlchemy around any driver."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Reader, Table, attribute, permanent, transient
from redrive.failures.known_errors.sqlstates import sqlstate_of, sqlstate_verdict

_CONNECTION_LOST = transient("the connection to the database failed or was lost; a retry may get through")
_MISUSE = permanent("the driver is used wrongly: the same call fails again")
_REFUSED_LOGIN = permanent("the database refuses the login")

# libpq reports why a login failed only as text.
_REFUSED_LOGIN_TEXTS = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied")


def _by_state(error: BaseException, _lookup: Lookup) -> Verdict | None:
    state = sqlstate_of(error)
    return None if state is None else sqlstate_verdict(state, str(error))


def _operational(error: BaseException, _lookup: Lookup) -> Verdict | None:
    if (state := sqlstate_of(error)) is not None:
        return sqlstate_verdict(state, str(error))
    text = str(error)
    if any(refusal in text for refusal in _REFUSED_LOGIN_TEXTS):
        return _REFUSED_LOGIN
    return _CONNECTION_LOST


def _interface(error: BaseException, _lookup: Lookup) -> Verdict:
    text = str(error)
    if "connection is closed" in text or "connection already closed" in text or "connection was closed" in text:
        return _CONNECTION_LOST
    return _MISUSE


def _sqlalchemy_statement(error: BaseException, lookup: Lookup) -> Verdict | None:
    """The driver's error is in `orig`, or in the cause of `orig` with some dialects."""
    if attribute(error, "connection_invalidated") is True:
        return _CONNECTION_LOST
    orig = attribute(error, "orig")
    if not isinstance(orig, BaseException):
        return None
    verdict = lookup(orig)
    if verdict is None and orig.__cause__ is not None:
        verdict = lookup(orig.__cause__)
    return verdict


def _by_state_or(otherwise: Verdict) -> Reader:
    def read(error: BaseException, lookup: Lookup) -> Verdict:
        return _by_state(error, lookup) or otherwise

    return read


_PSYCOPG: Table = {
    "OperationalError": _operational,
    "InterfaceError": _interface,
    "IntegrityError": _by_state_or(permanent("validation: the data breaks a constraint of the database")),
    "DataError": _by_state_or(permanent("validation: the data does not fit the database")),
    "ProgrammingError": _by_state_or(_MISUSE),
    "NotSupportedError": _by_state_or(permanent("the database does not support this")),
    "Error": _by_state,
}

POSTGRES_ERRORS: Table = {
    "asyncpg.exceptions._base.PostgresError": _by_state,
    "asyncpg.exceptions._base.InterfaceError": _interface,
    # Older releases define the classes in the module from which newer ones only export them.
    **{f"psycopg.{name}": entry for name, entry in _PSYCOPG.items()},
    **{f"psycopg.errors.{name}": entry for name, entry in _PSYCOPG.items()},
    **{f"psycopg2.{name}": entry for name, entry in _PSYCOPG.items()},
    "sqlalchemy.exc.StatementError": _sqlalchemy_statement,
    "sqlalchemy.exc.TimeoutError": transient("no pooled connection was free in time", not_sent=True),
    "sqlalchemy.exc.ArgumentError": _MISUSE,
    "sqlalchemy.exc.InvalidRequestError": _MISUSE,
}
