"""Tells whether a worker of this machine is alive: it locks a file beside the database until its process ends.

The kernel releases the lock when the process dies, however it dies. All methods but `close_all`, `drop` and
`is_running` are called inside a write transaction, so by one process at a time. `is_running` is called for workers
whose rows are visible, and a row becomes visible only after its worker has locked its file.
"""

import contextlib
import os
import stat
import weakref
from collections.abc import Collection
from io import FileIO
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: only the expiry of leases counts there
    fcntl = None  # type: ignore[assignment]  # checked below

_SUFFIX = ".lock"


class WorkerLocks:
    """The locks that one store holds; it can also check those of other stores."""

    def __init__(self, database: str) -> None:
        # Beside the file itself, so that stores which open it through a link use the same locks.
        self._database = Path(os.path.realpath(database))
        self._folder = Path(f"{self._database}-workers")
        self._held: dict[int, FileIO] = {}
        """Epoch -> the open file, which is locked until it is closed."""
        _ALL.add(self)

    def hold(self, epoch: int) -> FileIO | None:
        """Lock the worker's file; None where that is not possible, so that only the lease's expiry counts."""
        if fcntl is None:
            return None
        # The epoch may have been issued before, in a transaction that failed.
        self.remove(epoch)
        try:
            # Whoever may use the database may see who has it open.
            shared = stat.S_IMODE(self._database.stat().st_mode) & 0o666
            if not self._folder.is_dir():
                self._folder.mkdir(0o700)
                self._folder.chmod(shared | (shared & 0o444) >> 2)
            lock = self._file(epoch).open("ab", buffering=0)
            os.fchmod(lock.fileno(), shared)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            # An unlocked file would mean that the worker is dead.
            self.remove(epoch)
            return None
        self._held[epoch] = lock
        return lock

    def drop(self, lock: FileIO) -> None:
        """Release the lock of a worker that got no lease; the file stays, since its epoch may be reused by now."""
        lock.close()
        for epoch, held in list(self._held.items()):
            if held is lock:
                del self._held[epoch]

    def is_running(self, epoch: int) -> bool | None:
        """Return whether the worker's process exists, frozen or not; None where there is no lock to tell."""
        if fcntl is None:
            return None
        if epoch in self._held:
            return True
        try:
            descriptor = os.open(self._file(epoch), os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return False

    def any_running(self) -> bool:
        """Return whether a worker's process has the database open."""
        return any(self.is_running(int(file.stem)) for file in self._files())

    def remove(self, epoch: int) -> None:
        """Remove the file of a worker that has ended."""
        lock = self._held.pop(epoch, None)
        if lock is not None:
            lock.close()
        with contextlib.suppress(OSError):
            self._file(epoch).unlink()

    def remove_stale(self, epochs: Collection[int]) -> None:
        """Remove the files of all workers but these."""
        with contextlib.suppress(OSError):
            for file in self._files():
                if int(file.stem) not in epochs:
                    self.remove(int(file.stem))
            if not epochs:
                self._folder.rmdir()

    def close_all(self) -> None:
        """Release all locks; the files stay and tell others that the workers are dead."""
        while self._held:
            self._held.popitem()[1].close()

    def _files(self) -> list[Path]:
        return [file for file in self._folder.glob(f"*{_SUFFIX}") if file.stem.isdecimal()]

    def _file(self, epoch: int) -> Path:
        return self._folder / f"{epoch}{_SUFFIX}"


_ALL: "weakref.WeakSet[WorkerLocks]" = weakref.WeakSet()


def _release_in_child() -> None:
    """Release the locks in a forked child, which would otherwise hold them after its parent's death."""
    for locks in _ALL:
        locks.close_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
