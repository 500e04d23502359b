"""Errors of the PostgreSQL drivers asyncpg, psycopg and psycopg2, and of their pools."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.databases.sqlstates import sqlstate_of, sqlstate_verdict
from redrive.failures.known_errors.entries import Lookup, Reader, Table, permanent, transient
from redrive.failures.known_errors.system.stdlib_errors import CERTIFICATE_REFUSED

_CONNECTION_LOST = transient("the connection to the database failed or was lost; a retry may get through")
_MISUSE = permanent("the driver is used wrongly: the same call fails again")
_NOT_CONNECTED = transient("no connection to the database could be made; a retry may get through", not_sent=True)
_REFUSED_LOGIN = permanent("the database refuses the login")
_NO_FREE_CONNECTION = transient("no pooled connection was free in time", not_sent=True)
_STALE_PLAN = transient(
    "the schema changed under a cached statement; the next attempt prepares it again", not_sent=True
)
_NOT_THE_PRIMARY = transient("no server has the role that was asked for, as during a failover", not_sent=True)

# libpq reports why a login failed only as text.
_REFUSED_LOGIN_TEXTS = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied")
_REFUSED_TLS_TEXTS = ("certificate verify failed", "does not support SSL", "not match host name")
_NOT_CONNECTED_TEXTS = ("Connection refused", "could not translate host name", "failed to resolve host")
_LOST_TEXTS = (
    "connection is closed",
    "connection already closed",
    "connection was closed",
    "closed the connection",
    "SSL SYSCALL error",
    "no message from the libpq",
    "could not receive data",
    "could not send data",
)


def _by_state(error: BaseException, _lookup: Lookup) -> Verdict | None:
    state = sqlstate_of(error)
    return None if state is None else sqlstate_verdict(state, str(error))


def _operational(error: BaseException, _lookup: Lookup) -> Verdict | None:
    if (state := sqlstate_of(error)) is not None:
        return sqlstate_verdict(state, str(error))
    text = str(error)
    if any(refusal in text for refusal in _REFUSED_LOGIN_TEXTS):
        return _REFUSED_LOGIN
    if any(refusal in text for refusal in _REFUSED_TLS_TEXTS):
        return CERTIFICATE_REFUSED
    return _NOT_CONNECTED if any(away in text for away in _NOT_CONNECTED_TEXTS) else _CONNECTION_LOST


def _interface(error: BaseException, _lookup: Lookup) -> Verdict:
    return _CONNECTION_LOST if _says_lost(error) else _MISUSE


def _any_other(error: BaseException, lookup: Lookup) -> Verdict | None:
    """psycopg2 reports some lost connections with the base class."""
    return _by_state(error, lookup) or (_CONNECTION_LOST if _says_lost(error) else None)


def _says_lost(error: BaseException) -> bool:
    text = str(error)
    return any(lost in text for lost in _LOST_TEXTS)


def _not_supported(error: BaseException, lookup: Lookup) -> Verdict:
    if "cached plan" in str(error):
        return _STALE_PLAN
    return _by_state(error, lookup) or permanent("the database does not support this")


def _psycopg2_pool(error: BaseException, _lookup: Lookup) -> Verdict:
    return _NO_FREE_CONNECTION if "exhausted" in str(error) else _MISUSE


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
    "NotSupportedError": _not_supported,
    "Error": _any_other,
}

POSTGRES_ERRORS: Table = {
    "asyncpg.exceptions._base.PostgresError": _by_state,
    "asyncpg.exceptions._base.InterfaceError": _interface,
    "asyncpg.exceptions.InvalidCachedStatementError": _STALE_PLAN,
    "asyncpg.exceptions._base.OutdatedSchemaCacheError": _STALE_PLAN,
    "asyncpg.exceptions._base.TargetServerAttributeNotMatched": _NOT_THE_PRIMARY,
    "asyncpg.exceptions._base.ProtocolError": transient("the answer was not valid PostgreSQL protocol"),
    # Older releases define the classes in the module from which newer ones only export them.
    **{f"psycopg.{name}": entry for name, entry in _PSYCOPG.items()},
    **{f"psycopg.errors.{name}": entry for name, entry in _PSYCOPG.items()},
    **{f"psycopg2.{name}": entry for name, entry in _PSYCOPG.items()},
    "psycopg_pool.PoolTimeout": _NO_FREE_CONNECTION,
    "psycopg_pool.TooManyRequests": _NO_FREE_CONNECTION,
    "psycopg_pool.PoolClosed": _MISUSE,
    "psycopg2.pool.PoolError": _psycopg2_pool,
}
