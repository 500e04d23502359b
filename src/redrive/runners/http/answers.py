"""Interpret a handler's answer: outputs, accepted for later, or a failure."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Category
from redrive.failures.redaction import redact
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.values.json_limits import DEEPEST_JSON, MOST_VALUES, has_too_many_values, is_too_deep
from redrive.runners.http.errors import BadAnswer, HttpStepError, WorkFailed

ACCEPTED_STATUS = 202
NO_OUTPUTS = "null"
_MAX_TEXT = 300
_ANSWER_HINT = 'answer with JSON: the outputs, or {"success": true, "outputs": {...}}'
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_UNREADABLE: Any = object()


class Accepted(msgspec.Struct, frozen=True):
    """The handler accepted the work, and reports the outcome later."""

    accepted: Literal[True] = True


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True
    """False if the body is larger than allowed, and only part of it was read."""


def classifier_of(handler: HttpHandler) -> Classifier:
    """Return a classifier with the statuses that the step declares."""
    if not handler.statuses and not handler.conflict_is_lock:
        return DEFAULT_CLASSIFIER
    statuses: dict[int, Category] = {int(status): category for status, category in handler.statuses.items()}
    return Classifier(statuses=statuses, conflict_is_lock=handler.conflict_is_lock)


def outcome_of(answer: Answer, handler: HttpHandler, largest: int, wall_now: float) -> str | Accepted:
    """Return the outputs as JSON, or Accepted if they come later; raise the failure otherwise."""
    data = _decoded(answer)
    if isinstance(data, dict) and data.get("success") is False:
        raise WorkFailed(_error_message(data) or "the handler answered success: false without an error", answer.status)
    if not 200 <= answer.status <= 299 or str(answer.status) in handler.statuses:
        raise _failure_by_status(answer, handler, data, wall_now)
    if not answer.whole:
        raise BadAnswer(
            f"the answer is larger than the {largest:,} bytes allowed; store it elsewhere and answer with a reference",
            answer.status,
        )
    is_envelope = isinstance(data, dict) and data.get("success") is True
    is_empty = not answer.body.strip() or data == {"accepted": True}
    accepts = is_empty or (answer.status == ACCEPTED_STATUS and not is_envelope)
    if handler.mode == "async" and accepts:
        return Accepted()
    if is_empty and answer.status == ACCEPTED_STATUS:
        raise BadAnswer(
            "the handler answered 202 Accepted, but the step is not asynchronous: declare mode: async, or answer with "
            "the outputs",
            answer.status,
        )
    if not answer.body.strip():
        return NO_OUTPUTS
    if has_too_many_values(answer.body):
        raise BadAnswer(f"the answer has more than the {MOST_VALUES:,} values allowed", answer.status)
    if data is _UNREADABLE:
        raise BadAnswer(
            f"the handler answered {answer.status} with a body that is not JSON; {_ANSWER_HINT}", answer.status
        )
    if is_too_deep(answer.body):
        raise BadAnswer(
            f"the answer is nested deeper than the {DEEPEST_JSON} levels allowed; answer with a flat list, or text",
            answer.status,
        )
    return _outputs(answer.body) if is_envelope else answer.body.decode()


def _decoded(answer: Answer) -> Any:
    if not answer.whole or has_too_many_values(answer.body):
        return _UNREADABLE
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _UNREADABLE


def _outputs(body: bytes) -> str:
    """Return the outputs of an envelope: its `outputs`, or else all its other members."""
    members = _MEMBERS.decode(body)
    if "outputs" in members:
        return bytes(members["outputs"]).decode()
    rest = {name: value for name, value in members.items() if name not in ("success", "error")}
    return msgspec.json.encode(rest).decode() if rest else NO_OUTPUTS


def _failure_by_status(answer: Answer, handler: HttpHandler, data: Any, wall_now: float) -> Exception:
    if 300 <= answer.status <= 399 and str(answer.status) not in handler.statuses:
        return BadAnswer(
            f"the handler answered {answer.status}, a redirect, and redirects are not followed; use "
            "its target as the endpoint",
            answer.status,
        )
    failure = classifier_of(handler).failure_of_status(answer.status, answer.headers, wall_now)
    detail = _error_message(data) if isinstance(data, dict) else _plain_text(answer)
    message = redact(f"{failure.message}: {detail}" if detail else failure.message)
    return HttpStepError(message, msgspec.structs.replace(failure, message=message))


def _error_message(data: dict[str, Any]) -> str:
    """Return the answer's own error message: its `error`, or the title and detail of a problem document."""
    error = data.get("error")
    if isinstance(error, dict):
        error = error.get("message") or msgspec.json.encode(error).decode()
    parts = [error] if error else [data.get("title"), data.get("detail") or data.get("message")]
    return redact(": ".join(str(part) for part in parts if part), _MAX_TEXT)


def _plain_text(answer: Answer) -> str:
    """Return a plain-text body; other types, such as HTML pages, add nothing to the status."""
    kind = next((value for name, value in answer.headers.items() if name.lower() == "content-type"), "")
    if not kind.lower().startswith("text/plain"):
        return ""
    return redact(answer.body[: 4 * _MAX_TEXT].decode(errors="replace").strip(), _MAX_TEXT)
