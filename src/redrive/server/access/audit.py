"""Record changes made over the HTTP API in the audit log."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from litestar import Request

from redrive.client import audit_log
from redrive.server.access.authentication import caller_of
from redrive.server.context import app_of
from redrive.server.contract.problems import problem_for


def audited(
    request: Request[Any, Any, Any], action: str, target: str | Sequence[str], *, by: str = "", detail: str = ""
) -> AbstractAsyncContextManager[None]:
    """Record the action, then let the block carry it out; by: the name that the caller gave."""
    caller = caller_of(request.scope)
    key = f"key {caller.name} ({caller.id})" if caller.id else "someone on this machine"
    client = request.scope.get("client")
    return audit_log.audited(
        app_of(request),
        action,
        target,
        actor=key,
        by=by,
        origin=f"http from {client[0] if client else 'unknown'}",
        detail=detail,
        describe=_describe,
    )


def _describe(error: Exception) -> str:
    refusal = problem_for(error).problem
    return f"{refusal.status} {refusal.detail}"
