"""Errors of sqlite3 as errors of a store: one line that says what, where and what to do."""

import sqlite3
from collections.abc import Callable

from redrive.errors import CommitUnknownError, StoreError, StoreUnavailableError, StoreUnusableError

_Kind = Callable[[str], StoreError]

# Primary result codes; the upper bits of sqlite_errorcode only refine them.
_PRIMARY = 0xFF
_BUSY = (StoreUnavailableError, "another process has held the database for too long; nothing was changed, try again")
_BY_CODE: dict[int, tuple[_Kind, str]] = {
    3: (
        StoreUnusableError,
        "this user may not use it; allow reading and writing the file and its folder",
    ),  # SQLITE_PERM
    5: _BUSY,  # SQLITE_BUSY
    6: _BUSY,  # SQLITE_LOCKED
    8: (StoreUnusableError, "it is read-only for this user; allow writing the file and its folder"),  # SQLITE_READONLY
    10: (
        StoreUnavailableError,
        "the disk failed to read or write; look at the disk and the system's log",
    ),  # SQLITE_IOERR
    11: (StoreUnusableError, "the database is damaged; restore a copy, or try sqlite3's `.recover`"),  # SQLITE_CORRUPT
    13: (StoreUnavailableError, "the disk is full; nothing was changed, make room"),  # SQLITE_FULL
    14: (StoreUnavailableError, "the file cannot be opened; look at its path and who may use it"),  # SQLITE_CANTOPEN
    15: _BUSY,  # SQLITE_PROTOCOL: a race for the write-ahead log's lock
    26: (StoreUnusableError, "the file is not an SQLite database; use another path"),  # SQLITE_NOTADB
}
# The log was written but perhaps did not reach the disk.
_FLUSH_FAILED = (1034, 1290)  # SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC


def primary_code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def is_busy(error: sqlite3.Error) -> bool:
    return primary_code(error) in (5, 6, 15)


def as_store_error(error: sqlite3.Error, where: str, committing: bool = False) -> StoreError:
    if committing and getattr(error, "sqlite_errorcode", None) in _FLUSH_FAILED:
        return CommitUnknownError(
            f"{where}: the disk failed during a commit, which may or may not have happened ({error})"
        )
    if isinstance(error, sqlite3.IntegrityError):
        return StoreError(f"{where}: it contradicts what is stored, and nothing was changed ({error})")
    kind, meaning = _BY_CODE.get(primary_code(error) or 0, (StoreError, "the database refused; nothing was changed"))
    return kind(f"{where}: {meaning} ({error})")
