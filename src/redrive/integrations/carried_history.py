"""The history of a task, carried in the message that asks for its next attempt. Bounded, and checked when read."""

import msgspec

from redrive.failures.failure import Category, Failure, Kind
from redrive.policies.decision import Because, Decision, GiveUp, RetryAt
from redrive.policies.history import Granted, History
from redrive.policies.report import AttemptRecord

KEPT_FIRST = 2
KEPT_LATEST = 8
"""Of more failed attempts, only the first and the latest ones are carried."""
LONGEST_MESSAGE = 300
"""Characters of an error's text that are carried."""
LARGEST = 64 * 1024
"""Longer texts are not read, and not written either: the counts are carried without the failed attempts."""
_VERSION = 1


class CarriedAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed attempt, as carried: without the parts of its failure that only one process can use."""

    number: int
    began: float
    ended: float
    category: Category
    reason: str
    kind: Kind = "exception"
    type: str = ""
    message: str = ""
    status: int | None = None
    decision: RetryAt | GiveUp


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the next attempt knows of the ones before it."""

    version: int = _VERSION
    started_at: float
    attempts: int
    timeouts: int = 0
    granted: tuple[Granted, ...] = ()
    failed: tuple[CarriedAttempt, ...] = ()
    left_out: int = 0

    @property
    def history(self) -> History:
        return History(self.started_at, self.attempts, self.timeouts, self.granted)

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        return tuple(_record(one) for one in self.failed)


_DECODER = msgspec.json.Decoder(Carried)


def write_carried(history: History, records: tuple[AttemptRecord, ...], left_out: int) -> str:
    """Return the history as JSON text. `history` counts the attempt that is asked for."""
    if len(records) > KEPT_FIRST + KEPT_LATEST:
        left_out += len(records) - KEPT_FIRST - KEPT_LATEST
        records = (*records[:KEPT_FIRST], *records[-KEPT_LATEST:])
    carried = Carried(
        started_at=history.started_at,
        attempts=history.attempts,
        timeouts=history.timeouts,
        granted=history.granted,
        failed=tuple(_carried(one) for one in records),
        left_out=left_out,
    )
    text = msgspec.json.encode(carried)
    if len(text) > LARGEST:
        left_out += len(records)
        text = msgspec.json.encode(msgspec.structs.replace(carried, failed=(), left_out=left_out))
    return text.decode()


def read_carried(text: object) -> Carried | None:
    """Return what `write_carried` wrote; None for anything else, since anyone may write to a broker."""
    if not isinstance(text, str) or len(text) > LARGEST:
        return None
    try:
        carried = _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    fits = carried.version == _VERSION and carried.attempts >= 1 and carried.timeouts >= 0 and carried.left_out >= 0
    return carried if fits else None


def _carried(record: AttemptRecord) -> CarriedAttempt:
    failure = record.failure
    return CarriedAttempt(
        number=record.number,
        began=round(record.began, 3),
        ended=round(record.ended, 3),
        category=failure.category,
        reason=failure.reason[:LONGEST_MESSAGE],
        kind=failure.kind,
        type=failure.type[:LONGEST_MESSAGE],
        message=failure.message[:LONGEST_MESSAGE],
        status=failure.status,
        decision=_shortened(record.decision),
    )


def _shortened(decision: Decision) -> Decision:
    because = msgspec.structs.replace(
        decision.because, reason="", detail=decision.because.detail[:LONGEST_MESSAGE], matched=""
    )
    return RetryAt(decision.when, because) if isinstance(decision, RetryAt) else GiveUp(decision.kind, because)


def _record(one: CarriedAttempt) -> AttemptRecord:
    failure = Failure(
        category=one.category,
        reason=one.reason,
        kind=one.kind,
        type=one.type,
        message=one.message,
        status=one.status,
    )
    # The reason is the failure's, and is carried once.
    because: Because = msgspec.structs.replace(one.decision.because, reason=one.reason)
    decision = msgspec.structs.replace(one.decision, because=because)
    return AttemptRecord(number=one.number, began=one.began, ended=one.ended, failure=failure, decision=decision)
