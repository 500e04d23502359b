"""ASGI middleware around the API: authentication, limits, security headers."""

import math
from typing import Any
from urllib.parse import unquote

from litestar import Litestar
from litestar.types import Message, Receive, Send

from redrive.errors import StoreError
from redrive.server.access.api_keys import Caller
from redrive.server.access.authentication import CALLER, Authenticator
from redrive.server.context import BODY_CLAIM, CLIENT
from redrive.server.contract.problems import MEDIA_TYPE, ProblemError, problem_for
from redrive.server.dashboard_files import DashboardFiles, send_file
from redrive.server.requests.parsing import SLASH_IN_NAME
from redrive.server.transport.body_budget import BodyBudget, BodyClaim
from redrive.server.transport.connections import peer_of
from redrive.server.transport.http_protocol import RESERVED
from redrive.server.transport.rate_limit import RateLimiter

UNLIMITED_PATHS = frozenset({"/healthz", "/readyz"})
HTTP_VERSIONS = ("1.1", "1.0")
LARGEST_HEADERS = 32 * 1024
CLOSE = {"Connection": "close"}
CLOSING = [(b"connection", b"close")]
MONITORED_PATHS = UNLIMITED_PATHS | {"/metrics"}
"""Paths that monitors request with HEAD."""
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


class Middleware:
    def __init__(
        self,
        inner: Litestar,
        authenticator: Authenticator,
        limiter: RateLimiter,
        bodies: BodyBudget,
        page: DashboardFiles,
    ) -> None:
        self._inner = inner
        self._authenticator = authenticator
        self._limiter = limiter
        self._bodies = bodies
        self._page = page

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        is_reserved = scope.get("state", {}).get(RESERVED, False)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY_HEADERS, *(CLOSING if is_reserved else ())]
            await send(message)

        try:
            _check_form(scope)
            if not _is_health_check(scope):
                if is_reserved:
                    detail = "too many connections are open; try again later"
                    raise ProblemError(503, detail, headers={"Retry-After": "1"})
                if (file := self._page.find(scope)) is not None:
                    # The page holds no secrets: it needs no key, and no store.
                    self._limit(f"address {_address(scope)}")
                    await send_file(file, scope, send)
                    return
                await self._check_caller(scope)
        except ProblemError as error:
            await _send_problem(error, send_with_headers)
            return
        scope = _with_slashes_in_names(scope)
        if scope["method"] == "HEAD" and scope["path"] in MONITORED_PATHS:
            # In a copy: the server still knows that the method was HEAD, and sends no body.
            scope = {**scope, "method": "GET"}
        claim = scope[BODY_CLAIM] = BodyClaim(self._bodies, scope.get(CLIENT, ""))
        try:
            await self._inner(scope, receive, send_with_headers)
        finally:
            claim.release()

    async def _check_caller(self, scope: Any) -> None:
        caller: Caller | ProblemError
        try:
            caller = await self._authenticator.authenticate(scope)
        except ProblemError as error:
            caller = error
        except StoreError as error:
            caller = problem_for(error)
        # Not raised here: endpoints that are open to all do not need a caller.
        scope[CALLER] = caller
        key = caller.id if isinstance(caller, Caller) else ""
        scope[CLIENT] = f"key {key}" if key else f"address {_address(scope)}"
        self._limit(scope[CLIENT])

    def _limit(self, client: str) -> None:
        wait = self._limiter.acquire(client)
        if wait > 0:
            raise ProblemError(429, "too many requests; slow down", headers={"Retry-After": str(math.ceil(wait))})


def _address(scope: Any) -> str:
    # As connections are counted: one host may own many addresses.
    return peer_of(scope.get("client")) or "?"


def _with_slashes_in_names(scope: Any) -> Any:
    """Tell a slash that a name contains, sent as %2F, from those that part the path: servers decode both alike."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    parts = [unquote(part).replace("/", SLASH_IN_NAME) for part in raw.partition(b"?")[0].decode("latin-1").split("/")]
    return {**scope, "path": "/".join(parts)}


def _is_health_check(scope: Any) -> bool:
    return scope["path"] in UNLIMITED_PATHS and scope["method"] in ("GET", "HEAD")


def _check_form(scope: Any) -> None:
    """Refuse what no endpoint should see."""
    if scope["http_version"] not in HTTP_VERSIONS:
        raise ProblemError(505, f"HTTP/{scope['http_version']} is not spoken here; use HTTP/1.1", headers=CLOSE)
    if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
        raise ProblemError(400, "the path and the query must not contain NUL characters")
    # The parser limits only headers that are still incomplete.
    if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEADERS:
        raise ProblemError(431, f"the headers must not exceed {LARGEST_HEADERS:,} bytes in all", headers=CLOSE)


async def _send_problem(error: ProblemError, send: Any) -> None:
    body = error.body
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **error.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})
