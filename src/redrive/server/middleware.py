"""ASGI middleware around the API: authentication, rate limit, security headers."""

import math
from typing import Any

from litestar import Litestar
from litestar.types import Message, Receive, Send

from redrive.errors import StoreError
from redrive.server.api_keys import Caller
from redrive.server.authentication import CALLER, Authenticator
from redrive.server.problems import MEDIA_TYPE, ProblemError, problem_for
from redrive.server.rate_limit import RateLimiter

UNLIMITED_PATHS = frozenset({"/healthz", "/readyz"})
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
    def __init__(self, inner: Litestar, authenticator: Authenticator, limiter: RateLimiter) -> None:
        self._inner = inner
        self._authenticator = authenticator
        self._limiter = limiter

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY_HEADERS]
            await send(message)

        try:
            await self._check(scope)
        except ProblemError as error:
            await _send_problem(error, send_with_headers)
            return
        if scope["method"] == "HEAD" and scope["path"] in MONITORED_PATHS:
            # In a copy: the server still knows that the method was HEAD, and sends no body.
            scope = {**scope, "method": "GET"}
        await self._inner(scope, receive, send_with_headers)

    async def _check(self, scope: Any) -> None:
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            raise ProblemError(400, "the path and the query must not contain NUL characters")
        if scope["path"] in UNLIMITED_PATHS:
            return
        caller: Caller | ProblemError
        try:
            caller = await self._authenticator.authenticate(scope)
        except ProblemError as error:
            caller = error
        except StoreError as error:
            caller = problem_for(error)
        # Not raised here: endpoints that are open to all do not need a caller.
        scope[CALLER] = caller
        address = scope["client"][0] if scope.get("client") else "?"
        key = caller.id if isinstance(caller, Caller) else ""
        wait = self._limiter.acquire(f"key {key}" if key else f"address {address}")
        if wait > 0:
            raise ProblemError(429, "too many requests; slow down", headers={"Retry-After": str(math.ceil(wait))})


async def _send_problem(error: ProblemError, send: Any) -> None:
    body = error.body
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **error.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})
