"""The headers of an attempt's request: the flow, the step, the tokens and the deadline."""

import string
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import quote

from redrive.calls.ownership_headers import ATTEMPT, DEADLINE, DELIVERY_TOKEN, RETRY_OWNER, seconds_text
from redrive.determinism.clock import current_clock
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt
from redrive.runners.http.settings import HttpSettings

FLOW = "Redrive-Flow"
STEP = "Redrive-Step"
RECEIPT_TOKEN = "Redrive-Receipt-Token"  # noqa: S105 - the name of a header
CALLBACK = "Redrive-Callback"
TRACEPARENT = "traceparent"
IDEMPOTENCY_KEY = "Idempotency-Key"

OWNER = "redrive"
MIN_TIMEOUT = 0.001

try:
    USER_AGENT = f"redrive/{version('redrive')}"
except PackageNotFoundError:
    # Run from its source, without being installed.
    USER_AGENT = "redrive"

# Characters that a header value may hold; all others are percent-encoded, so that no name can inject a header.
_PLAIN = "".join(set(string.printable) - set(string.whitespace) - {"%"}) + " "


def headers_of(handler: HttpHandler, attempt: Attempt, settings: HttpSettings) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, application/problem+json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": USER_AGENT,
        FLOW: quote(attempt.flow_id, _PLAIN),
        STEP: quote(attempt.step, _PLAIN),
        ATTEMPT: str(attempt.number),
        RECEIPT_TOKEN: quote(attempt.receipt_token, _PLAIN),
        DELIVERY_TOKEN: attempt.delivery_token,
        IDEMPOTENCY_KEY: quote(attempt.receipt_token, _PLAIN),
    }
    timeout = timeout_of(attempt, settings)
    if timeout is not None and (handler.mode == "sync" or attempt.timeout is not None):
        headers[DEADLINE] = seconds_text(_seconds_left(attempt, timeout))
    if attempt.traceparent is not None:
        headers[TRACEPARENT] = attempt.traceparent
    if attempt.policy.attempts != 1:
        headers[RETRY_OWNER] = OWNER
    if handler.mode == "async" and settings.callback_base is not None:
        headers[CALLBACK] = f"{settings.callback_base.rstrip('/')}/v1/completions/{quote(completion_token(attempt))}"
    return headers


def timeout_of(attempt: Attempt, settings: HttpSettings) -> float | None:
    """Return the seconds until the answer must be complete; never 0, which means no limit to aiohttp."""
    return settings.answer_timeout if attempt.timeout is None else max(attempt.timeout, MIN_TIMEOUT)


def completion_token(attempt: Attempt) -> str:
    """Return the token with which a callback completes this attempt only."""
    return f"{attempt.receipt_token}.{attempt.delivery_token}"


def _seconds_left(attempt: Attempt, timeout: float) -> float:
    # The attempt may have waited for a connection or a worker since its timeout was set.
    return timeout if attempt.timeout_at is None else min(timeout, attempt.timeout_at - current_clock().wall())
