"""Read the attempt from the headers of its request."""

from collections.abc import Mapping
from contextvars import ContextVar, copy_context
from urllib.parse import unquote

from redrive.calls.ownership_headers import DELIVERY_TOKEN, read_ownership
from redrive.determinism.clock import current_clock
from redrive.determinism.ids import new_id
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.http import request

_OWNED_ELSEWHERE = DURABLE_DEFAULT
_NOT_OWNED = DURABLE_DEFAULT.replace(attempts=1)

CALLBACK: ContextVar[str | None] = ContextVar("redrive_callback", default=None)


def callback_url() -> str:
    """Return the URL to which the outcome of this asynchronous step is reported; pass it to `report_outcome`."""
    url = CALLBACK.get()
    if url is None:
        if CALLBACK not in copy_context():
            raise RuntimeError("there is no callback URL here: call callback_url() in a step served with serve_steps")
        raise RuntimeError(
            "this request has no callback URL: declare the step with mode: async, and give the server and every worker "
            "the server's public URL with --callback-base URL, or redrive.HttpSettings(callback_base=...)"
        )
    return url


def attempt_of(headers: Mapping[str, str], step: str) -> Attempt:
    """Return the attempt; a request without redrive's headers (from curl, say) is the first attempt of new work."""
    flow_id, item = _receipt(unquote(headers.get(request.RECEIPT_TOKEN, "")))
    ownership = read_ownership(headers)
    timeout = ownership.seconds_left
    return Attempt(
        flow_id=flow_id,
        item=item,
        step=step,
        number=ownership.attempt or 1,
        delivery_token=headers.get(DELIVERY_TOKEN, ""),
        policy=_OWNED_ELSEWHERE if ownership.retries else _NOT_OWNED,
        timeout=timeout,
        timeout_at=None if timeout is None else current_clock().wall() + timeout,
        details=None,
        on_beat=_ignore_heartbeat,
    )


def _receipt(token: str) -> tuple[str, int]:
    flow_id, _, item = token.rpartition(".")
    # Without a token, each request is new work: two must not share their idempotency keys.
    return (flow_id, int(item)) if flow_id and _is_count(item) else (new_id(), 0)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _ignore_heartbeat(_flow_id: str, _item: int, _delivery: str, _details: str) -> None:
    """Drop a heartbeat: HTTP has no way to send it to the engine."""
