"""Authenticate callers by API key, or by being on this machine, and authorize them by role."""

from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from redrive.server.api_keys import ApiKeys, Caller
from redrive.server.loopback import is_loopback_host, is_own_origin
from redrive.server.operations import Operation
from redrive.server.problems import ProblemError

CALLER = "redrive.caller"
"""The key of the ASGI scope under which the middleware leaves the caller, or why there is none."""
_NO_KEY = (
    "send an API key as a bearer token in the Authorization header; create one: "
    "redrive keys add --role operate --name NAME"
)
_FORWARDED = ("X-Forwarded-For", "Forwarded", "Via", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP")
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Authenticator:
    def __init__(self, keys: ApiKeys, *, on_loopback: bool) -> None:
        self._keys = keys
        self._on_loopback = on_loopback

    async def authenticate(self, scope: Any) -> Caller:
        """Return the caller; ProblemError 401 or 403 if the request is not allowed."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if await self._keys.are_required():
            return await self._by_key(headers.get("authorization", ""))
        if not self._on_loopback:
            raise _unauthorized(_NO_KEY)
        # A proxy on this machine would pass on requests of the whole world, each as if it came from here.
        if forwarded := next((name for name in _FORWARDED if name.lower() in headers), None):
            detail = (
                "without API keys, requests that a proxy passes on are refused; create a key first: "
                "redrive keys add --role operate --name NAME"
            )
            raise ProblemError(403, detail, parameter=forwarded)
        # A page of another site, opened in a browser on this machine, must not reach the API.
        if not is_loopback_host(headers.get("host", "")):
            detail = (
                "without API keys, only requests to this machine are accepted; use 127.0.0.1 or localhost as the host"
            )
            raise ProblemError(403, detail)
        if "origin" in headers and not is_own_origin(headers["origin"], headers["host"]):
            detail = "without API keys, requests from pages of other sites are refused"
            raise ProblemError(403, detail, parameter="Origin")
        return Caller("admin")

    async def _by_key(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise _unauthorized(_NO_KEY)
        caller = await self._keys.caller(token.strip())
        if caller is None:
            raise _unauthorized("this API key is unknown, has expired or has been revoked")
        return caller


def caller_of(scope: Any) -> Caller:
    """Return the caller that the middleware authenticated; raises the ProblemError if it found none."""
    caller: Caller | ProblemError = scope[CALLER]
    if isinstance(caller, ProblemError):
        raise caller
    return caller


def authorize(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """A Litestar guard: refuse callers who may not use the endpoint."""
    operation: Operation | None = handler.opt.get("operation")
    if operation is not None and operation.role is None:
        return
    caller = caller_of(connection.scope)
    # Handlers that Litestar adds by itself (OPTIONS) have no operation, and are open to every caller.
    if operation is not None and operation.role is not None and not caller.has_role(operation.role):
        raise ProblemError(403, f"this needs a key with the role {operation.role}; yours has the role {caller.role}")
    if caller.is_limited and not (operation is not None and operation.within_limits):
        raise ProblemError(403, "this needs an API key without limits to queues or definitions; yours has such limits")


def operator_name(scope: Any, name: str) -> str:
    """Return who acts, for the log of a flow: the API key used, which is proven, and the name that was only given."""
    caller = caller_of(scope)
    if not caller.id:
        return name or "someone on this machine"
    key = f"key {caller.name}"
    return f"{key} (as {name})" if name else key


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, detail, parameter="Authorization", headers=_CHALLENGE)
