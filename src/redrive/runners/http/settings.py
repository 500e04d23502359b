"""Settings for calling HTTP steps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from redrive.resilience.seconds import check_seconds
from redrive.runners.http.addresses import check_allow_entry
from redrive.runners.http.signing import Signer

MIB = 1024 * 1024
MAX_COUNT = 2**40


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which hosts a worker may call, and the limits of its requests."""

    allow: tuple[str, ...] = ()
    """Private addresses that may be called: networks ("10.1.0.0/16"), addresses ("127.0.0.1") or host names
    ("svc.internal"); "private" allows all."""
    largest_request: int = 8 * MIB
    """The maximum size of an attempt's inputs, in bytes."""
    largest_answer: int = 8 * MIB
    """The maximum size of an answer after decompression, in bytes."""
    connections: int = 100
    """Concurrent connections to one host; further attempts wait for a connection."""
    connections_in_all: int = 500
    """Concurrent connections to all hosts."""
    connect_timeout: float | None = 10.0
    """Seconds to establish a connection."""
    answer_timeout: float | None = 300.0
    """Seconds until the answer is complete, for steps without a timeout of their own."""
    callback_base: str | None = None
    """The public URL of this server, with which the callback URLs of asynchronous steps begin."""
    signing: Mapping[str, str | Sequence[str]] = {}
    """The secrets with which requests are signed, by the beginning of the address: {"https://shop.example.com":
    "whsec_..."}. Several for one address, while one replaces the other: each signs. They are never stored or shown."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"HttpSettings({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        fields = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return [(name, dict.fromkeys(value, "...") if name == "signing" else value) for name, value in fields]

    def __post_init__(self) -> None:
        if not isinstance(self.signing, Mapping):
            raise ValueError("signing: use addresses and secrets, such as {'https://shop.example.com': 'whsec_...'}")
        Signer(self.signing)
        if isinstance(self.allow, str) or not isinstance(self.allow, Iterable):
            raise ValueError(f"allow: {self.allow!r} is not allowed; use a list, such as [{str(self.allow)!r}]")
        for entry in self.allow:
            check_allow_entry(entry)
        for field in ("largest_request", "largest_answer", "connections", "connections_in_all"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
                raise ValueError(f"{field}: {value!r:.40} is not allowed; write a whole number from 1 to {MAX_COUNT}")
        for field in ("connect_timeout", "answer_timeout"):
            if getattr(self, field) is not None:
                check_seconds(field, getattr(self, field))
        base = self.callback_base
        if base is not None and not (
            isinstance(base, str) and base.startswith(("http://", "https://")) and base.isprintable()
        ):
            raise ValueError("callback_base: use the public URL of the server, such as https://redrive.example.com")
