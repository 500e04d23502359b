"""Authenticate callers by API key, or by being on this machine, and authorize them by role."""

from collections.abc import Mapping
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from redrive.server.access.api_keys import ApiKeys, Caller
from redrive.server.access.loopback import is_loopback_host, is_own_origin
from redrive.server.access.sessions import Sessions, cookie_name
from redrive.server.contract.operations import Operation
from redrive.server.contract.problems import ProblemError

CALLER = "redrive.caller"
"""The key of the ASGI scope under which the middleware leaves the caller, or why there is none."""
_NO_KEY = (
    "send an API key as a bearer token in the Authorization header; create one: "
    "redrive keys add --role operate --name NAME"
)
_FORWARDED = ("X-Forwarded-For", "Forwarded", "Via", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP")
OWN_REQUEST = "X-Redrive-Request"
"""The header that the dashboard adds to requests that change something."""
SAFE_METHODS = ("GET", "HEAD")
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Authenticator:
    def __init__(self, keys: ApiKeys, sessions: Sessions, *, on_loopback: bool) -> None:
        self._keys = keys
        self._sessions = sessions
        self._on_loopback = on_loopback

    async def authenticate(self, scope: Any) -> Caller:
        """Return the caller; ProblemError 401 or 403 if the request is not allowed."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if await self._keys.are_required():
            if "authorization" not in headers and (value := cookie_of(headers, cookie_name(scope))):
                return await self._by_session(value, scope["method"], headers)
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

    async def _by_session(self, value: str, method: str, headers: dict[str, str]) -> Caller:
        caller = await self._sessions.caller(value)
        if caller is None:
            raise _unauthorized("your session has ended; sign in again")
        if method not in SAFE_METHODS:
            # A browser may send the cookie for a page of another site as well, but that cannot add a header.
            check_own_page(headers)
            if headers.get(OWN_REQUEST.lower()) != "1":
                raise ProblemError(403, f"with a session, send the header {OWN_REQUEST}: 1", parameter=OWN_REQUEST)
        return caller


def cookie_of(headers: Mapping[str, str], wanted: str) -> str:
    """Return the value of a cookie; empty if there is none."""
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return ""


def check_own_page(headers: Mapping[str, str]) -> None:
    """Refuse a request that a browser sends for a page of another site; ProblemError 403."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    # Pages cannot set either. Browsers leave out the first without TLS, except for this machine.
    if site is not None and site != "same-origin":
        raise ProblemError(403, "requests from pages of other sites are refused", parameter="Sec-Fetch-Site")
    if site is None and origin is not None and not is_own_origin(origin, headers.get("host", "")):
        raise ProblemError(403, "requests from pages of other sites are refused", parameter="Origin")


def caller_of(scope: Any) -> Caller:
    """Return the caller that the middleware authenticated; raises the ProblemError if it found none."""
    caller: Caller | ProblemError = scope[CALLER]
    if isinstance(caller, ProblemError):
        raise caller
    return caller


def known_caller(scope: Any) -> Caller | None:
    """Return the caller; None if the request has no valid key or session. Raises the ProblemError of other refusals."""
    caller: Caller | ProblemError = scope[CALLER]
    if isinstance(caller, ProblemError) and caller.problem.status == 401:
        return None
    return caller_of(scope)


def authorize(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """A Litestar guard: refuse callers who may not use the endpoint."""
    operation: Operation | None = handler.opt.get("operation")
    if operation is not None and connection.app.state.context.read_only and _changes(connection.scope, operation):
        raise ProblemError(403, "this server is read-only; redrive dashboard --operate allows changes")
    if operation is not None and operation.role is None:
        return
    caller = caller_of(connection.scope)
    # Handlers that Litestar adds by itself (OPTIONS) have no operation, and are open to every caller.
    if operation is not None and operation.role is not None and not caller.has_role(operation.role):
        raise ProblemError(403, f"this needs a key with the role {operation.role}; yours has the role {caller.role}")
    if caller.is_limited and not (operation is not None and operation.within_limits):
        raise ProblemError(403, "this needs an API key without limits to queues or definitions; yours has such limits")


def _changes(scope: Any, operation: Operation) -> bool:
    return scope["method"] not in SAFE_METHODS and not operation.changes_nothing


def operator_name(scope: Any, name: str) -> str:
    """Return who acts, for the log of a flow: the API key used, which is proven, and the name that was only given."""
    caller = caller_of(scope)
    if not caller.id:
        return name or "someone on this machine"
    key = f"key {caller.name}"
    return f"{key} (as {name})" if name else key


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, detail, parameter="Authorization", headers=_CHALLENGE)
