"""The retry protocol of one call, sans-IO: it yields "attempt now" and "sleep until", and is sent each outcome.

Thin loops drive it for plain functions, asyncio, trio, generators and `redrive.attempts()`. None of them decides.
"""

from collections.abc import Generator
from typing import Any, NoReturn

import msgspec

from redrive.calls.guarded_call import GuardedCall

OWN_MODULES = ("redrive.calls.", "redrive.determinism.", "redrive.testing.")


class AttemptNow(msgspec.Struct, frozen=True):
    """Make an attempt, and cancel it at `until` if that is set. `reread`: first refresh the state it builds on."""

    number: int
    until: float | None
    reread: bool


class SleepUntil(msgspec.Struct, frozen=True):
    """Wait until `when`."""

    when: float


class Succeeded(msgspec.Struct, frozen=True):
    """The attempt, or the whole call, returned `result`."""

    result: Any

    def unwrap(self) -> Any:
        return self.result


class Failed(msgspec.Struct, frozen=True):
    """The attempt, or the whole call, raised `error`."""

    error: Exception

    def unwrap(self) -> NoReturn:
        """Raise the error with the `__context__` it has; Python would replace it by what the caller is handling."""
        error, context = self.error, self.error.__context__
        try:
            raise error
        finally:
            if context is not None:
                # An exception class may define its own __setattr__.
                BaseException.__setattr__(error, "__context__", context)
            # The traceback refers to this frame: without this, the error would refer to itself.
            del self, error, context


Outcome = Succeeded | Failed
RetrySteps = Generator[AttemptNow | SleepUntil, Outcome | None, Outcome]


def failed(error: Exception) -> Failed:
    """Return the outcome of an attempt that raised `error`, with the driver's frames removed from its traceback.

    The guard raises the error again and adds its own frame: readers need to see redrive once, not once per attempt.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(OWN_MODULES):
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)
    return Failed(error)


def retry_steps(call: GuardedCall, first: Outcome | None = None) -> RetrySteps:
    """Drive with `next`, then `send` an Outcome after each AttemptNow and None after each SleepUntil, which may also
    come first: the dependency's limits had no room.

    Returns the outcome of the call. `first` is the outcome of a first attempt that has already been made. Closing the
    generator early (the caller was cancelled) releases what the running attempt holds.
    """
    outcome = first
    while True:
        if outcome is None:
            room = call.reserve_room()
            if isinstance(room, Exception):
                return Failed(room)
            if room is not None:
                try:
                    yield SleepUntil(room)
                except GeneratorExit:
                    call.abandon_attempt(began=False)
                    raise
            refusal = call.begin_attempt()
            if refusal is not None:
                call.report_missed_deadline(refusal)
                return Failed(refusal)
            try:
                outcome = yield AttemptNow(call.history.attempts, call.attempt_until, call.reread_first)
            except GeneratorExit:
                call.abandon_attempt()
                raise
        try:
            if isinstance(outcome, Succeeded):
                rejected = call.attempt_returned(outcome.result)
                if rejected is None:
                    return outcome
                outcome = Failed(rejected)
            assert isinstance(outcome, Failed), "an AttemptNow is answered with its Outcome"  # noqa: S101 - for mypy
            retry_at = call.attempt_failed(outcome.error)
        except Exception as broken:
            # One of the user's predicates raised: pass that on, with the failure it was asked about.
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
