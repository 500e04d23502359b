"""Word of how an attempt ended, brought by whoever holds its token."""

import hmac
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from redrive.errors import InvalidOutcomeError, Permanent
from redrive.failures.failure import Failure
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemCompleted, ItemStarted
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.history import Line, fold
from redrive.flows.json_forms import DEEPEST_JSON, is_too_deep
from redrive.runners.http.answers import Answer, outcome_of
from redrive.runners.http.errors import HttpStepError
from redrive.worker.attempt_outcomes import failure_from

CompletionOutcome = Literal["accepted", "duplicate", "stale", "unknown"]
PROBLEM = "application/problem+json"
_ANY_HANDLER = HttpHandler(endpoint="")
_LARGEST = 2**31
_NOT_TOLD = ("timeout", "lost")
"""Kinds of failures that come of hearing nothing."""


class CompletionToken(NamedTuple):
    flow_id: str
    item: int
    delivery: str


def read_token(text: str) -> CompletionToken | None:
    """None when it is none: flow, item and delivery token, with dots between them."""
    parts = text.split(".")
    if len(parts) != 3 or not parts[1].isascii() or not parts[1].isdigit() or len(parts[1]) > 9:
        return None
    return CompletionToken(parts[0], int(parts[1]), parts[2])


def standing_of(lines: Sequence[Line], token: CompletionToken, succeeded: bool | None = None) -> CompletionOutcome:
    """What a completion with this token is to the flow with this log.

    `succeeded`: what it tells; None while that is not known, and the same may have been told before.
    """
    attempt, number, told = None, 0, dict[int, bool]()
    for _, _, event in lines:
        if getattr(event, "item", None) != token.item:
            continue
        if isinstance(event, ItemStarted | AttemptStarted):
            number = event.attempt if isinstance(event, AttemptStarted) else 1
            if hmac.compare_digest(event.delivery.encode(), token.delivery.encode()):
                attempt = number
        elif isinstance(event, ItemCompleted):
            told[number] = True
        elif isinstance(event, AttemptFailed) and event.failure.kind not in _NOT_TOLD:
            told[number] = False
    if attempt is None:
        return "unknown"
    history = fold(list(lines))
    item = history.items.get(token.item)
    if history.ending is None and item is not None and item.state == "running" and item.attempt == attempt:
        return "accepted"
    return "duplicate" if attempt in told and succeeded in (None, told[attempt]) else "stale"


def read_completion(body: bytes, content_type: str, wall_now: float) -> tuple[msgspec.Raw, Failure | None]:
    """The outputs, and the failure if it is one. Written as the answer of a step is, or as a problem."""
    try:
        data: Any = msgspec.json.decode(body) if body.strip() else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidOutcomeError(f"the body is not JSON: {error}") from None
    if is_too_deep(body):
        raise InvalidOutcomeError(f"the body is nested deeper than the {DEEPEST_JSON} levels allowed")
    status = 200
    if content_type.partition(";")[0].strip().lower() == PROBLEM:
        told = data.get("status") if isinstance(data, dict) else None
        status = told if isinstance(told, int) and 400 <= told <= 599 else 500
    try:
        outputs = outcome_of(Answer(status=status, headers={}, body=body), _ANY_HANDLER, _LARGEST, wall_now)
    except HttpStepError as error:
        return msgspec.Raw(b"null"), msgspec.structs.replace(error.failure, error=None, lineage=())
    except Permanent as error:
        return msgspec.Raw(b"null"), msgspec.structs.replace(failure_from(error, wall_now), error=None, lineage=())
    return msgspec.Raw(str(outputs).encode()), None
