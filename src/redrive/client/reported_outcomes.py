"""Accepts the outcome of an attempt from the holder of its delivery token."""

import asyncio
import hmac
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.client.step_resolution import step_spec
from redrive.errors import InvalidOutcomeError, Permanent
from redrive.failures.failure import Failure
from redrive.flows.events import (
    AttemptClosed,
    AttemptFailed,
    AttemptStarted,
    CompletionRefused,
    ItemAdded,
    ItemCompleted,
    ItemStarted,
    Line,
)
from redrive.flows.graphs.outputs import OutputError, outputs_of
from redrive.flows.graphs.spec import HttpHandler, StepSpec
from redrive.flows.history import fold
from redrive.flows.messages import Completion
from redrive.flows.registry import GRAPH
from redrive.flows.values.json_limits import DEEPEST_JSON, MOST_VALUES, has_too_many_values, is_too_deep
from redrive.runners.http.answers import Answer, outcome_of
from redrive.runners.http.errors import HttpStepError
from redrive.stores.records import FlowRecord
from redrive.worker.event_rows import lines_of
from redrive.worker.flow.attempt_failures import classify

OutcomeStatus = Literal["accepted", "duplicate", "stale", "unknown", "pending"]
"""accepted: the outcome counts. duplicate: the same was reported before. stale: the attempt is over.
unknown: no asynchronous attempt has that token. pending: the attempt has just ended, and no worker has said yet whether
the outcome still counts; report it again."""

OPEN = ("accepted", "pending")
PROBLEM = "application/problem+json"
_ANY_HANDLER = HttpHandler(endpoint="")
_LARGEST = 2**31
_PAUSES = (0.005, 0.02, *(0.05,) * 100)
"""Seconds between looks at an attempt that is being judged."""
_ROWS_AT_ONCE = 1000
_NOT_REPORTED = ("timeout", "lost")
"""Kinds of failures that the engine records when no outcome arrives."""


class DeliveryToken(NamedTuple):
    flow_id: str
    item: int
    delivery: str


class ReportedOutcomes:
    """Passes reported outcomes on to the flows."""

    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def is_token(self, token: str) -> bool:
        """Whether an attempt has this token."""
        read = read_token(token)
        if read is None or await self._flows.store.find_flow(read.flow_id) is None:
            return False
        return status_of(await self._flows.log(read.flow_id), read) != "unknown"

    async def report(self, token: str, body: bytes, content_type: str) -> OutcomeStatus:
        """Send the outcome to the flow and say whether it counts; InvalidOutcomeError when it cannot be read."""
        read = read_token(token)
        record = await self._flows.store.find_flow(read.flow_id) if read is not None else None
        if read is None or record is None:
            return "unknown"
        lines = await self._flows.log(read.flow_id)
        status = status_of(lines, read)
        spec = None if status == "unknown" else _asynchronous_step(record, lines, read.item)
        if status == "unknown" or (spec is None and status in OPEN):
            return "unknown"
        outputs, failure = read_outcome(body, content_type, self._flows.now())
        if failure is None and spec is not None:
            _check_outputs(spec, outputs)
        status = status_of(lines, read, failure is None)
        if status in OPEN or (status == "stale" and await self._is_news(lines, read)):
            # The first stale outcome is sent too: the flow's log records once that it was refused.
            message = Completion(item=read.item, delivery=read.delivery, outputs=outputs, failure=failure)
            await self._flows.send(read.flow_id, message)
        if status in OPEN:
            status = await self._status_after_sending(lines, read, failure is None)
        return status

    async def _is_news(self, lines: Sequence[Line], token: DeliveryToken) -> bool:
        """Whether a stale outcome is the first: however often its token is sent, it writes one line."""
        if any(isinstance(line.event, CompletionRefused) and line.event.item == token.item for line in lines):
            return False
        return await self._flows.store.count_unread(token.flow_id) == 0

    async def _status_after_sending(self, lines: list[Line], token: DeliveryToken, succeeded: bool) -> OutcomeStatus:
        """Return whether the outcome, which is in the inbox now, counts.

        It does if the log does not have the attempt as closed by now: the flow's owner first stores that it is closed,
        then reads the inbox, and then judges the attempt. Otherwise wait until the owner has judged.
        """
        read = 0
        for pause in _PAUSES:
            while rows := await self._flows.store.read_events_after(token.flow_id, lines[-1].seq, _ROWS_AT_ONCE):
                lines += lines_of(rows)
            # Folding a long log takes a while, and holds the event loop: only when there is something new in it.
            if len(lines) > read:
                read = len(lines)
                status = status_of(lines, token, succeeded)
                if status == "duplicate" and not _is_closed(lines, token.item):
                    return "accepted"
                if status != "pending":
                    return status
            await asyncio.sleep(pause)  # noqa: TID251 - the worker judges in real time
        return "pending"


def _is_closed(lines: Sequence[Line], item: int) -> bool:
    """Whether the item's last attempt was closed: then its own answer may have been the same outcome."""
    for line in reversed(lines):
        if isinstance(line.event, AttemptClosed | AttemptStarted) and line.event.item == item:
            return isinstance(line.event, AttemptClosed)
    return False


def _asynchronous_step(record: FlowRecord, lines: Sequence[Line], item: int) -> StepSpec | None:
    """Return the step of an item whose outcome may be reported; None for one that is done when it answers."""
    if not record.definition.startswith(GRAPH):
        return None
    added = next(line.event for line in lines if isinstance(line.event, ItemAdded) and line.event.item == item)
    spec = step_spec(record, added.step)
    return spec if isinstance(spec.handler, HttpHandler) and spec.handler.mode == "async" else None


def _check_outputs(spec: StepSpec, outputs: msgspec.Raw) -> None:
    try:
        outputs_of(spec, msgspec.json.decode(outputs))
    except OutputError as error:
        raise InvalidOutcomeError(str(error)) from None


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
        return "pending" if item.closed else "accepted"
    return "duplicate" if attempt in reported and succeeded in (None, reported[attempt]) else "stale"


def read_outcome(body: bytes, content_type: str, wall_now: float) -> tuple[msgspec.Raw, Failure | None]:
    """Return the outputs, or the failure. The body has the form of a step's response, or of a problem document."""
    if has_too_many_values(body):
        raise InvalidOutcomeError(f"the body has more than the {MOST_VALUES:,} values allowed")
    try:
        data: Any = msgspec.json.decode(body) if body.strip() else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        refused = InvalidOutcomeError(f"the body is not JSON: {error}")
        refused.malformed = True
        raise refused from None
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
