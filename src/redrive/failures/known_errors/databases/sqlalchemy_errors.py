"""Errors of SQLAlchemy, around any driver."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Reader, Table, attribute, permanent, transient

_CONNECTION_LOST = transient("the connection to the database failed or was lost; a retry may get through")
_MISUSE = permanent("SQLAlchemy is used wrongly: the same call fails again")


def _statement(error: BaseException, lookup: Lookup) -> Verdict | None:
    """The driver's error is in `orig`; async dialects put one of their own there and keep the driver's as its cause."""
    if attribute(error, "connection_invalidated") is True:
        return _CONNECTION_LOST
    orig = attribute(error, "orig")
    if not isinstance(orig, BaseException):
        return None
    cause = orig.__cause__
    return (None if cause is None else lookup(cause)) or lookup(orig)


def _statement_or(otherwise: Verdict) -> Reader:
    """For drivers whose errors are not known, the class that SQLAlchemy picked says enough."""

    def read(error: BaseException, lookup: Lookup) -> Verdict:
        return _statement(error, lookup) or otherwise

    return read


SQLALCHEMY_ERRORS: Table = {
    "sqlalchemy.exc.StatementError": _statement,
    "sqlalchemy.exc.IntegrityError": _statement_or(permanent("validation: the data breaks a constraint")),
    "sqlalchemy.exc.DataError": _statement_or(permanent("validation: the data does not fit the database")),
    "sqlalchemy.exc.ProgrammingError": _statement_or(permanent("the statement does not fit the database's schema")),
    "sqlalchemy.exc.NotSupportedError": _statement_or(permanent("the database does not support this")),
    "sqlalchemy.exc.DisconnectionError": _CONNECTION_LOST,
    "sqlalchemy.exc.TimeoutError": transient("no pooled connection was free in time", not_sent=True),
    "sqlalchemy.orm.exc.StaleDataError": transient(
        "optimistic-lock conflict: another transaction changed the row; read it again in the next attempt"
    ),
    "sqlalchemy.exc.NoResultFound": permanent("missing data: the query found no row"),
    "sqlalchemy.exc.MultipleResultsFound": permanent("the query found more rows than expected"),
    "sqlalchemy.exc.ArgumentError": _MISUSE,
    "sqlalchemy.exc.CompileError": _MISUSE,
    "sqlalchemy.exc.InvalidRequestError": _MISUSE,
    "sqlalchemy.orm.exc.FlushError": _MISUSE,
    "sqlalchemy.orm.exc.DetachedInstanceError": _MISUSE,
}
