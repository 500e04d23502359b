"""Accepts the outcome of an attempt from the holder of its delivery token."""

import hmac
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.client.step_resolution import step_spec
from redrive.errors import InvalidOutcomeError, Permanent
from redrive.failures.failure import Failure
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemAdded, ItemCompleted, ItemStarted, Line
from redrive.flows.graphs.outputs import OutputError, outputs_of
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.history import fold
from redrive.flows.messages import Completion
from redrive.flows.registry import GRAPH
from redrive.flows.values.json_form import DEEPEST_JSON, is_too_deep
from redrive.runners.http.answers import Answer, outcome_of
from redrive.runners.http.errors import HttpStepError
from redrive.stores.records import FlowRecord
from redrive.worker.flow.attempt_failures import classify

OutcomeStatus = Literal["accepted", "duplicate", "stale", "unknown"]
"""accepted: the attempt is current. duplicate: the same was reported before. stale: the attempt is over.
unknown: no attempt has that token."""

PROBLEM = "application/problem+json"
_ANY_HANDLER = HttpHandler(endpoint="")
_LARGEST = 2**31
_NOT_REPORTED = ("timeout", "lost")
"""Kinds of failures that the engine records when no outcome arrives."""


class ReportedOutcomes:
    """Passes reported outcomes on to the flows."""

    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def report(self, token: str, body: bytes, content_type: str) -> OutcomeStatus:
        """Send the outcome to the flow and say whether it counts; InvalidOutcomeError when it cannot be read."""
        read = read_token(token)
        record = await self._flows.store.find_flow(read.flow_id) if read is not None else None
        if read is None or record is None:
            return "unknown"
        lines = await self._flows.log(read.flow_id)
        status = status_of(lines, read)
        if status == "unknown":
            return status
        outputs, failure = read_outcome(body, content_type, self._flows.now())
        if failure is None:
            _check_outputs(record, lines, read.item, outputs)
        status = status_of(lines, read, failure is None)
        if status != "duplicate":
            # A stale outcome is sent too: the flow's log records that it was refused.
            message = Completion(item=read.item, delivery=read.delivery, outputs=outputs, failure=failure)
            await self._flows.send(read.flow_id, message)
        return status


def _check_outputs(record: FlowRecord, lines: Sequence[Line], item: int, outputs: msgspec.Raw) -> None:
    if not record.definition.startswith(GRAPH):
        return
    added = next(line.event for line in lines if isinstance(line.event, ItemAdded) and line.event.item == item)
    try:
        outputs_of(step_spec(record, added.step), msgspec.json.decode(outputs))
    except OutputError as error:
        raise InvalidOutcomeError(str(error)) from None


class DeliveryToken(NamedTuple):
    flow_id: str
    item: int
    delivery: str


def read_token(text: str) -> DeliveryToken | None:
    """Parse "flow.item.delivery"; None when `text` is not a token."""
    parts = text.split(".")
    if len(parts) != 3 or not parts[1].isascii() or not parts[1].isdigit() or len(parts[1]) > 9:
        return None
    return DeliveryToken(parts[0], int(parts[1]), parts[2])


def status_of(lines: Sequence[Line], token: DeliveryToken, succeeded: bool | None = None) -> OutcomeStatus:
    """Say what an outcome with this token means to the flow with this log.

    succeeded: the reported outcome; None while it is not known, when any earlier report counts as the same.
    """
    attempt, number, reported = None, 0, dict[int, bool]()
    for _, _, event in lines:
        if getattr(event, "item", None) != token.item:
            continue
        if isinstance(event, ItemStarted | AttemptStarted):
            number = event.attempt if isinstance(event, AttemptStarted) else 1
            if hmac.compare_digest(event.delivery.encode(), token.delivery.encode()):
                attempt = number
        elif isinstance(event, ItemCompleted):
            reported[number] = True
        elif isinstance(event, AttemptFailed) and event.failure.kind not in _NOT_REPORTED:
            reported[number] = False
    if attempt is None:
        return "unknown"
    history = fold(list(lines))
    item = history.items.get(token.item)
    if history.ending is None and item is not None and item.state == "running" and item.attempt == attempt:
        return "accepted"
    return "duplicate" if attempt in reported and succeeded in (None, reported[attempt]) else "stale"


def read_outcome(body: bytes, content_type: str, wall_now: float) -> tuple[msgspec.Raw, Failure | None]:
    """Return the outputs, or the failure. The body has the form of a step's response, or of a problem document."""
    try:
        data: Any = msgspec.json.decode(body) if body.strip() else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidOutcomeError(f"the body is not JSON: {error}") from None
    if is_too_deep(body):
        raise InvalidOutcomeError(f"the body is nested deeper than the {DEEPEST_JSON} levels allowed")
    status = 200
    if content_type.partition(";")[0].strip().lower() == PROBLEM:
        given = data.get("status") if isinstance(data, dict) else None
        status = given if isinstance(given, int) and 400 <= given <= 599 else 500
    try:
        outputs = outcome_of(Answer(status=status, headers={}, body=body), _ANY_HANDLER, _LARGEST, wall_now)
    except HttpStepError as error:
        return msgspec.Raw(b"null"), msgspec.structs.replace(error.failure, error=None, lineage=())
    except Permanent as error:
        return msgspec.Raw(b"null"), msgspec.structs.replace(classify(error, wall_now), error=None, lineage=())
    return msgspec.Raw(str(outputs).encode()), None
