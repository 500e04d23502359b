"""Errors of sqlite3, by result code."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient, unknown

_LOCKED = transient("lock contention: another connection has locked the database")
_SCHEMA = permanent("the statement does not fit the database's schema")

# Primary result codes; the upper bits of sqlite_errorcode only refine them.
_BY_CODE: dict[int, Verdict] = {
    1: _SCHEMA,  # SQLITE_ERROR
    3: permanent("permission is missing; a retry does not grant it"),  # SQLITE_PERM
    5: _LOCKED,  # SQLITE_BUSY
    6: _LOCKED,  # SQLITE_LOCKED
    8: permanent("the database is read-only"),  # SQLITE_READONLY
    11: permanent("the database file is damaged"),  # SQLITE_CORRUPT
    15: _LOCKED,  # SQLITE_PROTOCOL: a race for the write-ahead log's lock
    26: permanent("the file is not a database"),  # SQLITE_NOTADB
}
_PRIMARY = 0xFF

# For errors without a code: raised by hand, or by a driver that copies only the text.
_LOCKED_TEXTS = ("database is locked", "table is locked", "schema is locked")
_SCHEMA_TEXTS = ("no such table", "no such column", "no such function", "syntax error", "has no column named")


def _sqlite_verdict(error: BaseException, _lookup: Lookup) -> Verdict | None:
    code = attribute(error, "sqlite_errorcode")
    if isinstance(code, int):
        if (verdict := _BY_CODE.get(code & _PRIMARY)) is not None:
            return verdict
        name = attribute(error, "sqlite_errorname") or code
        return unknown(f"SQLite failed with {name}, which may be transient or permanent")
    text = str(error)
    if any(locked in text for locked in _LOCKED_TEXTS):
        return _LOCKED
    if any(mismatch in text for mismatch in _SCHEMA_TEXTS):
        return _SCHEMA
    return None


SQLITE_ERRORS: Table = {
    "sqlite3.IntegrityError": permanent("validation: the data breaks a constraint of the database"),
    "sqlite3.ProgrammingError": permanent("the database is used wrongly: the same call fails again"),
    "sqlite3.NotSupportedError": permanent("the database does not support this"),
    "sqlite3.InterfaceError": permanent("the database is used wrongly: the same call fails again"),
    "sqlite3.DataError": permanent("validation: the data does not fit the database"),
    "sqlite3.DatabaseError": _sqlite_verdict,
}
