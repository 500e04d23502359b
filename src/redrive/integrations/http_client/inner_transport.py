"""Check the transport inside a retrying transport of httpx or httpx2, and say in one line what to write instead."""

from typing import Any, NoReturn

import msgspec

_LIBRARIES = ("httpx", "httpx2")
_CLIENTS = {"Client", "AsyncClient"}


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Synchronous or asynchronous: what belongs together there, by name."""

    retries: str
    client: str
    base: str
    transport: str
    handles: str


SYNC = Side(
    retries="RetryTransport",
    client="Client",
    base="BaseTransport",
    transport="HTTPTransport",
    handles="handle_request",
)
ASYNC = Side(
    retries="AsyncRetryTransport",
    client="AsyncClient",
    base="AsyncBaseTransport",
    transport="AsyncHTTPTransport",
    handles="handle_async_request",
)


def inner_transport(library: Any, side: Side, given: Any, policy: object) -> Any:
    """Return the transport that sends each attempt: the given one, or a new one; refuse what cannot send.

    `policy` is the argument before it, for which a transport is easily mistaken.
    """
    name = library.__name__
    if isinstance(policy, (library.BaseTransport, library.AsyncBaseTransport)):
        raise TypeError(
            f"policy: {_named(policy)} is a transport, not a policy; write {side.retries}(transport=...) with its name"
        )
    if given is None:
        return getattr(library, side.transport)()
    if isinstance(given, type):
        raise TypeError(
            f"transport: {_named(given)} is a class, not a transport; write transport={_named(given)}() instead"
        )
    made_for = _libraries_of(given)
    if made_for.keys() & _CLIENTS:
        raise TypeError(
            f"transport: {_named(given)} is a client, not a transport; {side.retries} goes inside a client: "
            f"{name}.{side.client}(transport={side.retries}())"
        )
    if made_for and name not in made_for.values():
        foreign = next(iter(made_for.values()))
        raise TypeError(
            f"transport: {_named(given)} does not work with {name}; import {side.retries} from "
            f"redrive.integrations.{foreign}, or use {name}.{side.transport}()"
        )
    other = ASYNC if side is SYNC else SYNC
    if isinstance(given, getattr(library, other.base)) and not isinstance(given, getattr(library, side.base)):
        raise TypeError(
            f"transport: {_named(given)} is for {name}.{other.client}, and {side.retries} for {name}.{side.client}; "
            f"use {name}.{side.transport}(), or {other.retries}"
        )
    if not hasattr(given, side.handles):
        raise TypeError(
            f"transport: {_named(given)} is not a transport of {name}.{side.client}, which has {side.handles}(); "
            f"use {name}.{side.transport}() or one of your own"
        )
    if getattr(getattr(given, "_pool", None), "_retries", 0):
        raise ValueError(f"the inner transport retries too; build it with retries=0, since {side.retries} does")
    return given


def refuse_client(library: Any, side: Side) -> NoReturn:
    """Refuse to serve a client of the other side."""
    name, other = library.__name__, ASYNC if side is SYNC else SYNC
    raise TypeError(
        f"transport: {side.retries} is for {name}.{side.client}; with {name}.{other.client}, write {other.retries}()"
    )


def _named(given: object) -> str:
    kind = given if isinstance(given, type) else type(given)
    package = kind.__module__.partition(".")[0]
    return f"{package}.{kind.__qualname__}" if package in _LIBRARIES else kind.__qualname__


def _libraries_of(given: object) -> dict[str, str]:
    """Return the classes of httpx and httpx2 that the given object derives from, each with its library."""
    kinds = {kind.__qualname__: kind.__module__.partition(".")[0] for kind in type(given).__mro__}
    return {name: package for name, package in kinds.items() if package in _LIBRARIES}
