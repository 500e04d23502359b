"""Whether a worker of this machine is alive: it holds a lock on a file beside the database, until it ends.

The kernel lets the lock go when the process dies, however it dies. All but `let_go`, `drop` and `is_running` is called
inside a write transaction, so that one process at a time does it; `is_running` is asked of workers whose rows can be
seen, so that it never comes between a new worker and its lock.
"""

import contextlib
import os
import weakref
from collections.abc import Collection
from io import FileIO
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there only the expiry of leases counts
    fcntl = None  # type: ignore[assignment]  # asked for below

_SUFFIX = ".lock"


class WorkerLocks:
    """The locks that one store holds, and a look at those of others."""

    def __init__(self, database: str) -> None:
        # Where the file itself lies: those who come to it through links must find the same locks.
        self._folder = Path(f"{os.path.realpath(database)}-workers")
        self._held: dict[int, FileIO] = {}
        """Epoch -> the file that is locked for as long as it is open."""
        _EVERYWHERE.add(self)

    def hold(self, epoch: int) -> FileIO | None:
        """Where that is not possible, the worker does without: only its lease's expiry counts then."""
        if fcntl is None:
            return None
        # The number may have been given before, to a worker that then could not join.
        self.forget(epoch)
        try:
            self._folder.mkdir(exist_ok=True)
            lock = self._file(epoch).open("ab", buffering=0)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            # A file that nobody holds would say that the worker is gone.
            self.forget(epoch)
            return None
        self._held[epoch] = lock
        return lock

    def drop(self, lock: FileIO) -> None:
        """Its worker could not join. The file stays: the number, and with it the file, may be another's by now."""
        lock.close()
        for epoch, held in list(self._held.items()):
            if held is lock:
                del self._held[epoch]

    def is_running(self, epoch: int) -> bool | None:
        """Whether the process of the holder is there, frozen or not; None where there is no lock to tell by."""
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

    def forget(self, epoch: int) -> None:
        """The worker has ended: remove its file."""
        lock = self._held.pop(epoch, None)
        if lock is not None:
            lock.close()
        with contextlib.suppress(OSError):
            self._file(epoch).unlink()

    def tidy(self, epochs: Collection[int]) -> None:
        """Remove what is left of workers other than these."""
        with contextlib.suppress(OSError):
            for file in self._folder.glob(f"*{_SUFFIX}"):
                if file.stem.isdecimal() and int(file.stem) not in epochs:
                    self.forget(int(file.stem))
            if not epochs:
                self._folder.rmdir()

    def let_go(self) -> None:
        """Hold nothing any more; the files stay, for others to see that their holder is gone."""
        while self._held:
            self._held.popitem()[1].close()

    def _file(self, epoch: int) -> Path:
        return self._folder / f"{epoch}{_SUFFIX}"


_EVERYWHERE: "weakref.WeakSet[WorkerLocks]" = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child would hold its parent's locks beyond the parent's death."""
    for locks in _EVERYWHERE:
        locks.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
