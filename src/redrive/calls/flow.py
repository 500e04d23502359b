"""The retry protocol of one call, sans-IO: it says "attempt now" and "sleep until", and is told how attempts ended.

Thin loops drive it for plain functions, asyncio, trio, generators and the attempt iterator; none of them decides.
"""

from collections.abc import Generator
from typing import Any

import msgspec

from redrive.calls.guarded_call import GuardedCall


class AttemptNow(msgspec.Struct, frozen=True):
    """Make an attempt; cut it at `until` where that is set. `reread`: refresh the state it builds on first."""

    number: int
    until: float | None
    reread: bool


class SleepUntil(msgspec.Struct, frozen=True):
    """Wait; nothing is to be done before `when`."""

    when: float


class Succeeded(msgspec.Struct, frozen=True):
    """The attempt, or the whole call, returned `result`."""

    result: Any


class Failed(msgspec.Struct, frozen=True):
    """The attempt, or the whole call, raised `error`."""

    error: Exception


Outcome = Succeeded | Failed
Flow = Generator[AttemptNow | SleepUntil, Outcome | None, Outcome]


def retry_flow(call: GuardedCall, first: Outcome | None = None) -> Flow:
    """Drive with `next`, then `send` an Outcome after each AttemptNow and None after each SleepUntil.

    It returns how the call ends. `first` is the outcome of a first attempt that was made already. Closing the flow
    early (the caller was cancelled) gives back what the running attempt held.
    """
    outcome = first
    while True:
        if outcome is None:
            refusal = call.begin_attempt()
            if refusal is not None:
                call.tell_if_too_late(refusal)
                return Failed(refusal)
            try:
                outcome = yield AttemptNow(call.history.attempts, call.attempt_until, call.reread_first)
            except GeneratorExit:
                call.abandon_attempt()
                raise
        try:
            if isinstance(outcome, Succeeded):
                refused = call.attempt_returned(outcome.result)
                if refused is None:
                    return outcome
                outcome = Failed(refused)
            assert isinstance(outcome, Failed), "an AttemptNow is answered with its Outcome"  # noqa: S101 - for mypy
            retry_at = call.attempt_failed(outcome.error)
        except Exception as broken:
            # A predicate of the user's own is broken: that is raised, with the failure it was asked about.
            call.abandon_attempt()
            if isinstance(outcome, Failed) and broken is not outcome.error:
                broken.__context__ = outcome.error
            raise
        if retry_at is None:
            return outcome
        try:
            yield SleepUntil(retry_at)
        except GeneratorExit:
            call.abandon_attempt()
            raise
        outcome = None
