"""The attempt that a request is, read from its headers."""

from collections.abc import Mapping
from contextvars import ContextVar
from urllib.parse import unquote

from redrive.determinism.clock import current_clock
from redrive.determinism.ids import new_id
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.http import request

_OWNED_ELSEWHERE = DURABLE_DEFAULT
_NOT_OWNED = DURABLE_DEFAULT.replace(attempts=1)
# Longer ones are no time that anybody waits for; it keeps a mistyped header from breaking the arithmetic.
_LONGEST_DEADLINE_MS = 10**12

CALLBACK: ContextVar[str | None] = ContextVar("redrive_callback", default=None)


def callback_url() -> str:
    """Where the step that this code serves is completed later; see `report_outcome`."""
    url = CALLBACK.get()
    if url is None:
        raise RuntimeError(
            "there is no callback address: callback_url() works inside a step that is served with serve_steps, and "
            "called in mode: async"
        )
    return url


def attempt_of(headers: Mapping[str, str], step: str) -> Attempt:
    """A request from anyone else (curl, say) is a first attempt of its own."""
    flow_id, item = _receipt(unquote(headers.get(request.RECEIPT_TOKEN, "")))
    timeout = _seconds(headers.get(request.DEADLINE, ""))
    number = headers.get(request.ATTEMPT, "")
    return Attempt(
        flow_id=flow_id,
        item=item,
        step=step,
        number=int(number) if _is_count(number) else 1,
        delivery_token=headers.get(request.DELIVERY_TOKEN, ""),
        policy=_OWNED_ELSEWHERE if headers.get(request.RETRY_OWNER) else _NOT_OWNED,
        timeout=timeout,
        timeout_at=None if timeout is None else current_clock().wall() + timeout,
        details=None,
        on_beat=_forget,
    )


def _receipt(token: str) -> tuple[str, int]:
    flow_id, _, item = token.rpartition(".")
    # Without a token each request is work of its own: two must not share their idempotency keys.
    return (flow_id, int(item)) if flow_id and _is_count(item) else (new_id(), 0)


def _seconds(milliseconds: str) -> float | None:
    return min(int(milliseconds), _LONGEST_DEADLINE_MS) / 1000 if _is_count(milliseconds) else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _forget(_flow_id: str, _item: int, _delivery: str, _details: str) -> None:
    """A heartbeat has no way back over HTTP."""
