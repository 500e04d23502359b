"""Who gets in: keys where there are any, else this machine only. And how often, and what every answer carries."""

import math
from typing import Any

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler
from litestar.types import Message, Receive, Send

from redrive.errors import StoreError
from redrive.server.keys import Caller, KeyRing
from redrive.server.loopback import is_loopback_host, is_own_origin
from redrive.server.operations import CALLER, Operation
from redrive.server.problems import MEDIA_TYPE, Refused, refusal
from redrive.server.rates import Rates
from redrive.server.settings import ServerSettings

NEVER_LIMITED = frozenset({"/healthz", "/readyz"})
WATCHED = NEVER_LIMITED | {"/metrics"}
"""What monitors ask for with HEAD."""
SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
_NO_KEY = (
    "send an API key as bearer token in the Authorization header; make one: redrive keys add --role operate --name NAME"
)
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Gate:
    """Around the API: says who asks, bounds how often, and puts safe headers on every answer."""

    def __init__(self, inner: Litestar, keys: KeyRing, settings: ServerSettings, *, on_loopback: bool) -> None:
        self._inner = inner
        self._keys = keys
        self._on_loopback = on_loopback
        self._rates = Rates(settings.rate, settings.burst)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SAFE_HEADERS]
            await send(message)

        try:
            await self._let_in(scope)
        except Refused as refused:
            await _send(refused, send_safely)
            return
        if scope["method"] == "HEAD" and scope["path"] in WATCHED:
            # In a copy: the server still knows that it was HEAD, and leaves the body out.
            scope = {**scope, "method": "GET"}
        await self._inner(scope, receive, send_safely)

    async def _let_in(self, scope: Any) -> None:
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            raise Refused(400, "a path or a query cannot hold the character NUL")
        if scope["path"] in NEVER_LIMITED:
            return
        caller: Caller | Refused
        try:
            caller = await self._caller(scope)
        except Refused as refused:
            caller = refused
        except StoreError as error:
            caller = refusal(error)
        # Kept for the guard: an endpoint that is open to all does not ask.
        scope[CALLER] = caller
        peer = scope["client"][0] if scope.get("client") else "?"
        known = isinstance(caller, Caller) and caller.id
        wait = self._rates.wait(f"key {known}" if known else f"peer {peer}")
        if wait > 0:
            raise Refused(429, "too many requests; slow down", headers={"Retry-After": str(math.ceil(wait))})

    async def _caller(self, scope: Any) -> Caller:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("authorization", "")
        if await self._keys.any():
            kind, _, token = given.partition(" ")
            if not given or kind.lower() != "bearer":
                raise Refused(401, _NO_KEY, parameter="Authorization", headers=_CHALLENGE)
            caller = await self._keys.holder(token.strip())
            if caller is None:
                raise Refused(
                    401, "this API key is unknown, or was revoked", parameter="Authorization", headers=_CHALLENGE
                )
            return caller
        if not self._on_loopback:
            raise Refused(401, _NO_KEY, parameter="Authorization", headers=_CHALLENGE)
        # A page of another site, opened in a browser here, must get no further than its own host.
        if not is_loopback_host(headers.get("host", "")):
            raise Refused(403, "without API keys only this machine may ask: use 127.0.0.1 or localhost as the host")
        if "origin" in headers and not is_own_origin(headers["origin"], headers["host"]):
            raise Refused(403, "without API keys pages of other sites may not ask", parameter="Origin")
        return Caller("admin")


def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """For Litestar: may the caller use this endpoint?"""
    # What Litestar adds by itself (OPTIONS) is for all who may ask anything.
    operation: Operation | None = handler.opt.get("operation")
    if operation is not None and operation.role is None:
        return
    scope: Any = connection.scope
    caller: Caller | Refused = scope[CALLER]
    if isinstance(caller, Refused):
        raise caller
    if operation is not None and operation.role is not None and not caller.may(operation.role):
        raise Refused(403, f"this needs a key with the role {operation.role}; yours has the role {caller.role}")


async def _send(refused: Refused, send: Any) -> None:
    body = refused.body
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **refused.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})
