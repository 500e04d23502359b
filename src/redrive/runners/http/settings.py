"""How steps are called over HTTP, as data."""

from collections.abc import Iterable

import msgspec

from redrive.resilience.seconds import check_seconds
from redrive.runners.http.addresses import check_allowed

MIB = 1024 * 1024
MOST = 2**40


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker may call, and how much of it at once."""

    allow: tuple[str, ...] = ()
    """What may be called though it is not public: networks ("10.1.0.0/16"), addresses ("127.0.0.1"), host names
    ("svc.internal"); "private" allows everything."""
    largest_request: int = 8 * MIB
    """Bytes that the inputs of one attempt may take."""
    largest_answer: int = 8 * MIB
    """Bytes that one answer may take, unpacked."""
    connections: int = 100
    """Connections to one host at once; attempts beyond it wait for one."""
    connections_in_all: int = 500
    connect_timeout: float | None = 10.0
    """Seconds until a connection stands."""
    answer_timeout: float | None = 300.0
    """Seconds until the answer is there, where the step has no timeout of its own."""
    callback_base: str | None = None
    """Where the outside reaches this server: what the callback addresses of asynchronous steps begin with."""

    def __post_init__(self) -> None:
        if isinstance(self.allow, str) or not isinstance(self.allow, Iterable):
            raise ValueError(f"allow: {self.allow!r} is not allowed; use a list, such as [{str(self.allow)!r}]")
        for entry in self.allow:
            check_allowed(entry)
        for field in ("largest_request", "largest_answer", "connections", "connections_in_all"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ValueError(f"{field}: {value!r:.40} is not allowed; write a whole number from 1 to {MOST}")
        for field in ("connect_timeout", "answer_timeout"):
            if getattr(self, field) is not None:
                check_seconds(field, getattr(self, field))
        base = self.callback_base
        if base is not None and not (
            isinstance(base, str) and base.startswith(("http://", "https://")) and base.isprintable()
        ):
            raise ValueError("callback_base: write the public address of the server, as in https://redrive.example.com")
