"""Translates errors of sqlite3 into store errors: one line that says what is wrong, where, and what to do."""

import sqlite3
from collections.abc import Callable

from redrive.errors import CommitUnknownError, StoreError, StoreUnavailableError, StoreUnusableError

_Kind = Callable[[str], StoreError]

# The primary result code is in the lower byte; the upper bits of sqlite_errorcode refine it.
_PRIMARY = 0xFF
_BUSY = (
    StoreUnavailableError,
    "another connection, perhaps a transaction of your own in this process, held the write lock for too long; nothing "
    "was changed: commit it first, start the flow in it with connection=, or try again",
)
_BY_CODE: dict[int, tuple[_Kind, str]] = {
    3: (
        StoreUnusableError,
        "permission denied; allow this user to read and write the file and its folder",
    ),  # SQLITE_PERM
    5: _BUSY,  # SQLITE_BUSY
    6: _BUSY,  # SQLITE_LOCKED
    8: (
        StoreUnusableError,
        "the database is read-only for this user; allow writing file and folder",
    ),  # SQLITE_READONLY
    10: (StoreUnavailableError, "the disk failed to read or write; check the disk and the system log"),  # SQLITE_IOERR
    11: (
        StoreUnusableError,
        "the database is damaged; restore a backup, or try `.recover` in the sqlite3 shell",
    ),  # SQLITE_CORRUPT
    13: (StoreUnavailableError, "the disk is full; nothing was changed, so free some space"),  # SQLITE_FULL
    14: (StoreUnavailableError, "the file cannot be opened; check its path and permissions"),  # SQLITE_CANTOPEN
    15: _BUSY,  # SQLITE_PROTOCOL: lost a race for the write-ahead log's lock
    26: (StoreUnusableError, "the file is not an SQLite database; use another path"),  # SQLITE_NOTADB
}
# The log was written but may not have reached the disk.
_FLUSH_FAILED = (1034, 1290)  # SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC


def primary_code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def is_busy(error: sqlite3.Error) -> bool:
    return primary_code(error) in (5, 6, 15)


def as_store_error(error: sqlite3.Error, where: str, committing: bool = False) -> StoreError:
    if committing and getattr(error, "sqlite_errorcode", None) in _FLUSH_FAILED:
        return CommitUnknownError(
            f"{where}: the disk failed during a commit, which may or may not have succeeded ({error})"
        )
    if isinstance(error, sqlite3.IntegrityError):
        return StoreError(f"{where}: the write conflicts with a stored row; nothing was changed ({error})")
    kind, meaning = _BY_CODE.get(
        primary_code(error) or 0, (StoreError, "the database reported an error; nothing was changed")
    )
    return kind(f"{where}: {meaning} ({error})")
