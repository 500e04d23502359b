"""How a worker works."""

import os

import msgspec

from redrive.runners.http.settings import HttpSettings

# More would bring a machine down before it brought anything else.
_MOST = {"concurrency": 1_000_000, "threads": 10_000, "processes": 1000, "flows": 1_000_000}


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    queues: tuple[str, ...] | None = None
    """The queues whose flows it takes; None: all."""
    concurrency: int = 1000
    """Coroutine actions that run at once."""
    threads: int = 32
    """Plain functions that run at once."""
    processes: int = max(1, os.cpu_count() or 1)
    """Actions in processes of their own that run at once."""
    flows: int = 1000
    """Flows in memory at once, those that wait for a little included."""
    lease: float = 10.0
    """Seconds without a sign of life after which another worker takes over."""
    poll: float = 1.0
    """Seconds after which it looks for work though nobody called."""
    grace: float = 10.0
    """Seconds that running attempts get when it is told to stop."""
    keep_finished: float | None = None
    """Seconds after which finished flows are removed; None: never."""
    http: HttpSettings = HttpSettings()
    """How steps are called over HTTP, and which addresses they may have."""

    def __post_init__(self) -> None:
        for field, most in _MOST.items():
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"{field}: {value!r} is not allowed; use a whole number from 1 to {most}")
        for field in ("lease", "poll"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"{field}: {value!r} is not allowed; use seconds above 0")
