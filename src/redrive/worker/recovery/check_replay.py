"""Replay a recorded flow against the code at hand, without a worker: nothing is written, and no attempt begins."""

from typing import Literal

import msgspec

from redrive.errors import (
    CrashLoopError,
    DeserializationError,
    NondeterminismError,
    TypeHintError,
    UnknownDefinitionError,
)
from redrive.failures.matching import lineage
from redrive.failures.redaction import redact
from redrive.flows.action import unknown_actions
from redrive.flows.chunks import run_to_completion
from redrive.flows.driver import Driver
from redrive.flows.drivers import driver_for
from redrive.flows.events import CancelRequested, FlowCancelled, FlowFailed, Line
from redrive.flows.history import FlowHistory, fold
from redrive.flows.replay import began_at, has_begun, replay
from redrive.stores.records import FINISHED, FlowRecord

WhatBreaks = Literal["code", "input", "definition", "log"]

_ADVICE: dict[WhatBreaks, str] = {
    "code": "Put the change behind `if workflow.patched(...)`, or deploy it once these flows have ended",
    "input": "Read what was stored: give new parameters defaults, and keep the types of the old ones",
    "definition": "Name the module that registers it, or keep it until these flows have ended",
    "log": "Export the flow again, with the version of redrive that runs it",
}


class BrokenReplay(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recorded flow that the code at hand cannot go on with, and what to do."""

    flow_id: str
    definition: str
    status: str
    """The status that the flow had when it was recorded."""
    breaks: WhatBreaks
    """What does not fit the flow: "code" that makes other calls than its log has; "input" that can no longer be read;
    a "definition" or action that no module has; a "log" that redrive did not write."""
    problem: str
    """The difference, in the words that a parked flow has."""
    advice: str
    line: int | None = None
    """The line of the log where the code differs."""
    logged: str = ""
    """The call that the log has there."""
    now: str = ""
    """The call that the code makes."""
    where: str = ""
    """The line of the code that makes it, where that is known."""

    def __str__(self) -> str:
        return f"{self.definition} {self.flow_id} ({self.status}): {self.problem}. {self.advice}"


def check_replay(record: FlowRecord, lines: list[Line]) -> BrokenReplay | None:
    """Replay the log as a worker would; None when the code still makes the calls that the log has."""
    driver: Driver | None = None
    try:
        driver = driver_for(record.definition, record.id, record.input, record.run_from)
        missing = unknown_actions(driver.required_actions())
        if missing:
            return _broken(record, "definition", f"no module has the actions {', '.join(missing)}")
        _replay([line for line in lines if line.seq > record.run_from], driver, record)
    except NondeterminismError as error:
        at = f" ({error.where})" if error.where else ""
        problem = f"line {error.seq} of the log says: {error.logged}; the code now says: {error.now}{at}"
        return _broken(record, "code", problem, error)
    except DeserializationError as error:
        return _broken(record, "input", str(error))
    except UnknownDefinitionError as error:
        return _broken(record, "definition", str(error))
    except TypeHintError as error:
        return _broken(record, "input", str(error))
    except Exception as error:  # noqa: BLE001 - a log that was edited must not hide what is wrong with the others
        return _broken(record, "log", f"its log cannot be replayed: {redact(repr(error), 200)}")
    finally:
        if driver is not None:
            driver.discard()
    return None


def _replay(lines: list[Line], driver: Driver, record: FlowRecord) -> None:
    lines = _run_by_code(lines)
    if has_begun(lines):
        run_to_completion(replay(lines, driver, FlowHistory(), began_at(lines)))
    elif record.status not in FINISHED:
        # It has yet to begin: its input must fit.
        driver.start(record.start_at)


def _run_by_code(lines: list[Line]) -> list[Line]:
    """The log without an end that the engine gave the flow, without its code."""
    last = lines[-1].event if lines else None
    if isinstance(last, FlowFailed) and last.error.type in _ENDED_WITHOUT_CODE:
        return []
    if isinstance(last, FlowCancelled):
        cancel = next((n for n in range(len(lines) - 1, -1, -1) if isinstance(lines[n].event, CancelRequested)), None)
        if cancel is not None:
            before, request = lines[:cancel], lines[cancel].event
            if fold(before).parked is not None:
                # It could not be replayed then, and need not be now.
                return []
            if not has_begun(before) or (isinstance(request, CancelRequested) and request.force):
                return before
    return lines


_ENDED_WITHOUT_CODE = {lineage(kind)[0] for kind in (CrashLoopError, DeserializationError)}


def _broken(
    record: FlowRecord, breaks: WhatBreaks, problem: str, differs: NondeterminismError | None = None
) -> BrokenReplay:
    broken = BrokenReplay(
        flow_id=record.id,
        definition=record.definition,
        status=record.status,
        breaks=breaks,
        problem=problem.rstrip("."),
        advice=_ADVICE[breaks],
    )
    if differs is None:
        return broken
    return msgspec.structs.replace(
        broken, line=differs.seq, logged=differs.logged, now=differs.now, where=differs.where
    )
