"""Creates the database file for its owner only, and notices when it, or its log, is moved, deleted or replaced."""

import contextlib
import os
import tempfile

from redrive.errors import StoreUnusableError
from redrive.stores.sqlite.worker_locks import WorkerLocks


class OpenedFile:
    """Identifies the file that was opened, and its log. SQLite itself keeps writing to files that are gone."""

    def __init__(self, path: str, where: str) -> None:
        """Call this after a first transaction, which opens the log."""
        self._path, self._log = os.path.abspath(path), _log_of(path)
        self._where = where
        self._opened, self._opened_log = _identity(self._path), _identity(self._log)

    def check(self) -> None:
        """Raise StoreUnusableError when the paths no longer lead to the files."""
        try:
            found, log = _identity(self._path), _identity(self._log)
        except OSError:
            # The statement that follows meets the same error and reports it.
            return
        if found != self._opened:
            raise StoreUnusableError(
                f"{self._where}: the file was deleted, moved or replaced while it was in use;"
                " put it back and open the store again"
            )
        # Whoever makes a database at the path while the file is away deletes its log.
        if log != self._opened_log:
            raise StoreUnusableError(
                f"{self._where}: its log {os.path.basename(self._log)} was deleted or replaced while it was in use;"
                " stop all processes that use the file, and open the store again"
            )


def create_private(path: str, where: str, locks: WorkerLocks) -> None:
    """Create the file, for its owner only, when there is none. SQLite gives its log the same permissions.

    StoreUnusableError when the file is missing though it is in use, or though its log has commits that it lacks: an
    empty database in its place would hide them, and SQLite would delete the log.
    """
    path, log = os.path.realpath(path), _log_of(path)
    if _size(path) > 0:
        return
    in_use, has_log = locks.any_running(), _size(log) > 0
    # Looked at once more, since another process may have created it meanwhile.
    if (in_use or has_log) and not _size(path):
        raise StoreUnusableError(
            f"{where}: the file is missing, but a worker has it open; put the file back"
            if in_use
            else f"{where}: the file is missing, but its log {os.path.basename(log)} is there: put the file back,"
            " or delete the log to begin with an empty store"
        )
    # Where the file cannot be created, SQLite reports why.
    with contextlib.suppress(OSError):
        descriptor, new = tempfile.mkstemp(prefix=f"{os.path.basename(path)}-", dir=os.path.dirname(path))
        try:
            # Closed before it gets its name: closing a file drops all locks that this process has on it.
            os.close(descriptor)
            os.link(new, path)
        finally:
            os.unlink(new)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _log_of(path: str) -> str:
    # Beside the file itself, where SQLite keeps it.
    return f"{os.path.realpath(path)}-wal"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_dev
