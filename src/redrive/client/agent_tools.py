"""What an agent may ask about flows and policies: each answer is a bounded text."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, get_args

import msgspec

from redrive.client.app import App
from redrive.client.definition_names import full_name
from redrive.client.flow_lookup import find_flow
from redrive.errors import AmbiguousFlowError, FlowNotFoundError
from redrive.explain.explanation import explain_text
from redrive.explain.hidden_payloads import hidden_text
from redrive.explain.parts import Wait
from redrive.flows.flow_end import DeadKind
from redrive.formatting.times import utc_datetime
from redrive.notation.formats.native import as_data
from redrive.notation.linting.linter import lint_text
from redrive.notation.read import read_policy
from redrive.policies.preview import preview, preview_all, read_failure
from redrive.stores.records import DeadLetter, DeadQuery, FlowQuery, FlowRecord, FlowStatus

MOST_FLOWS = 50
MOST_LETTERS = 200
MOST_ROWS = 100
UNFINISHED: tuple[FlowStatus, ...] = ("waiting", "ready", "running", "paused", "parked")

Audited = Callable[[str, Sequence[str], str], AbstractAsyncContextManager[None]]
"""Records an action, what it is done to and why, before it is done."""


class AgentTools:
    def __init__(self, app: App, *, payloads: bool, operator: str, audited: Audited) -> None:
        """payloads: show inputs, results and error messages instead of their sizes. operator: who redrives."""
        self._app = app
        self._payloads = payloads
        self._operator = operator
        self._audited = audited

    async def _find(self, flow: str) -> FlowRecord:
        try:
            return await find_flow(self._app, flow)
        except AmbiguousFlowError:
            raise
        except FlowNotFoundError as error:
            # Its own advice is a command, which an agent may have no shell for.
            found = str(error).rpartition(";")[0]
            raise LookupError(f"{found}; find flows with the tools list_waiting and list_dead_letters") from None

    async def explain_flow(self, flow: str) -> str:
        """Explain a flow: where it stands, why each attempt failed and what was decided, what it waits for, and what
        to do next. `flow` is its id, the first characters of its id, or the key it was started with."""
        record = await self._find(flow)
        return explain_text(await self._app.explain(record.id, payloads=self._payloads))

    async def list_waiting(
        self, status: str = "waiting", definition: str = "", queue: str = "", limit: int = 20, before: str = ""
    ) -> str:
        """List unfinished flows, newest first, each with why it waits. status: waiting (for its time, such as the next
        retry), ready (for a worker), running, paused, parked (someone has to act) or any. `before` is the id of the
        last flow of the previous page."""
        app = self._app
        statuses = UNFINISHED if status == "any" else (_among("status", status, UNFINISHED),)
        query = FlowQuery(
            status=statuses,
            definition=await full_name(app, definition) if definition else None,
            queue=queue or None,
            before=before or None,
            limit=_number("limit", limit, MOST_FLOWS) + 1,
        )
        found = await app.flows(query)
        flows = []
        for one in found[:limit]:
            explained = await app.explain(one.id, payloads=self._payloads)
            flows.append(
                {
                    "id": one.id,
                    "definition": one.definition,
                    "queue": one.queue,
                    "key": one.key,
                    "status": one.status,
                    "why": explained.headline,
                    "waits_for": [_wait(wait) for wait in explained.waits_for[:5]],
                }
            )
        return _text({"flows": flows, "more": len(found) > limit})

    async def list_dead_letters(
        self,
        state: str = "dead",
        definition: str = "",
        step: str = "",
        kind: str = "",
        queue: str = "",
        limit: int = 50,
    ) -> str:
        """List dead letters, oldest first: flows that failed for good, with the step, the error and why no other
        attempt was made. state: dead, redriven, discarded or any. kind: such as exhausted, permanent or poison."""
        query = DeadQuery(
            state=None if state == "any" else _among("state", state, ("dead", "redriven", "discarded")),
            definition=await full_name(self._app, definition) if definition else None,
            step=step or None,
            kind=_among("kind", kind, get_args(DeadKind)) if kind else None,
            queue=queue or None,
            limit=_number("limit", limit, MOST_LETTERS) + 1,
        )
        found = await self._app.dead_letters(query)
        return _text({"dead_letters": [self._letter(one) for one in found[:limit]], "more": len(found) > limit})

    async def redrive_dead_letters(self, flows: list[str], why: str) -> str:
        """Put dead flows back to work, each at the step that failed. Name each by its id, the first characters of its
        id, or its key; `why` is kept in the flow's log and in the audit log. Fix the cause first."""
        if not flows or len(flows) > MOST_LETTERS:
            raise ValueError(f"flows: name 1 to {MOST_LETTERS} flows")
        if not why.strip():
            raise ValueError("why: give a reason, for whoever reads the log later")
        ids = list(dict.fromkeys([(await self._find(one)).id for one in flows]))
        async with self._audited("dead.redrive", ids, why):
            redriven = await self._app.redrive(ids, by=self._operator, why=why)
        left = [one for one in ids if one not in redriven]
        return _text({"redriven": redriven, "not_dead_or_compensated": left})

    async def preview_policy(self, policy: str, notation: str = "auto", failure: str = "", rows: int = 20) -> str:
        """Preview a retry policy, given as text in any notation: each attempt, the waits between them, and the worst
        case. failure: only for this failure, such as status:503, timeout or a class name."""
        reading = read_policy(policy, notation, "policy")
        number = _number("rows", rows, MOST_ROWS)
        shown = (
            (preview(reading.policy, _failure(failure), number),) if failure else preview_all(reading.policy, number)
        )
        return _text(
            {
                "notation": reading.notation,
                "policy": as_data(reading.policy),
                "warnings": [one.text for one in reading.warnings],
                "previews": [msgspec.to_builtins(one) for one in shown],
            }
        )

    async def lint_policy(self, policy: str, notation: str = "auto") -> str:
        """Check a retry policy, given as text in any notation; each finding says what to write instead."""
        return _text({"findings": [msgspec.to_builtins(one) for one in lint_text(policy, notation, "policy", None)]})

    def _letter(self, letter: DeadLetter) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(letter)
        for name in ("at", "closed_at"):
            if data[name] is not None:
                data[name] = utc_datetime(data[name]).isoformat(timespec="seconds")
        return data if self._payloads else data | {name: hidden_text(data[name]) for name in ("message", "payload")}


def _wait(wait: Wait) -> str:
    return wait.what if wait.until is None else f"{wait.what}, {wait.until.at:%Y-%m-%d %H:%M:%S} UTC"


def _among(name: str, given: str, known: Sequence[str]) -> Any:
    if given not in known:
        raise ValueError(f"{name}: {given!r:.40} is not allowed; use one of {', '.join(known)}, or any")
    return given


def _number(name: str, given: int, most: int) -> int:
    if not 1 <= given <= most:
        raise ValueError(f"{name}: {given} is not allowed; use a whole number from 1 to {most}")
    return given


def _failure(text: str) -> Any:
    try:
        return read_failure(text)
    except (ValueError, TypeError):
        allowed = "use a class name, status:503, timeout or transient"
        raise ValueError(f"failure: {text!r:.60} is not a failure; {allowed}") from None


def _text(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)
