"""`redrive.attempts()`: a loop whose body is the attempt.

for attempt in redrive.attempts(attempts=5):
    with attempt:
        ...
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Unpack

from redrive.calls.flow import AttemptNow, Failed, Flow, Outcome, SleepUntil, Succeeded, retry_flow
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, OWNER, Scope, owner_after
from redrive.calls.settings import LoopSettings
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.raising import raise_as_it_is
from redrive.determinism.thread_cut import CutShort
from redrive.policies.policy import Policy


def attempts(policy: Policy | None = None, /, **settings: Unpack[LoopSettings]) -> "Attempts":
    """Loop over attempts with `for` or `async for`; the body of `with attempt:` is the attempt.

    When the body succeeds the loop ends. When it fails, the loop waits and goes round again, or the error is raised
    out of the `with`. In `async for` the body is cut at `attempt_timeout` and at the deadline; in `for` nothing can
    cut it, so `attempt_timeout` is refused there.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"attempts takes a Policy, not {type(policy).__name__}; of a Retrier, use retrier.attempts()")
    return Attempts(Retrier(policy, **settings))


class _Loop:
    """Where a loop over attempts stands: the flow's next step, or its end."""

    def __init__(self, guard: Retrier) -> None:
        self.call = GuardedCall(guard, guard.operation or "attempts", current_clock(), current_dice(), CURRENT.get())
        self.owner = self.call.scope[OWNER]
        self._flow: Flow = retry_flow(self.call)
        self.step: AttemptNow | SleepUntil | None = None
        self.ending: Outcome | None = None
        self.advance(None)

    def advance(self, outcome: Outcome | None) -> None:
        try:
            self.step = self._flow.send(outcome)
        except StopIteration as stop:
            # Of a loop that was closed, an attempt that goes on alone is the ending.
            self.step, self.ending = None, stop.value or outcome

    def next_attempt(self) -> AttemptNow | None:
        """The attempt to make, or None when the loop is over; an ending that no `with` could raise is raised here."""
        if isinstance(self.ending, Failed):
            raise_as_it_is(self.ending.error)
        return self.step if isinstance(self.step, AttemptNow) else None

    def close(self) -> None:
        self._flow.close()


class Attempt:
    """One attempt: `with attempt:` around the work."""

    def __init__(self, loop: _Loop, step: AttemptNow, cut: AbstractContextManager[None] | None) -> None:
        self.number = step.number
        """From 1."""
        self.reread = step.reread
        """True after an optimistic-lock conflict: read the state again first."""
        self.entered = False
        self._loop = loop
        self._cut = cut
        self._outer: Scope | None = None

    @property
    def time_left(self) -> float | None:
        """Seconds until this attempt should be over; None: no limit."""
        call = self._loop.call
        return None if call.attempt_until is None else max(0.0, call.attempt_until - call.clock.monotonic())

    def __enter__(self) -> "Attempt":
        call = self._loop.call
        if self.entered:
            raise RuntimeError("an attempt is made once: put all its work into one `with attempt:`")
        self.entered = True
        outer = CURRENT.get()
        try:
            if call.scope is not outer:
                self._outer = outer
                call.scope[OWNER] = self._loop.owner
                CURRENT.set(call.scope)
            if self._cut is not None:
                self._cut.__enter__()
        except BaseException:
            self._leave()
            raise
        return self

    def _leave(self) -> None:
        if self._outer is not None:
            self._loop.call.scope[OWNER] = owner_after(self._loop.call.clock)
            CURRENT.set(self._outer)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        loop = self._loop
        try:
            failed = self._uncut(kind, error, trace)
        finally:
            self._leave()
        raised: BaseException | None = None
        if failed is None or isinstance(failed, Exception):
            loop.advance(Succeeded(None) if failed is None else Failed(failed))
            if isinstance(loop.ending, Failed):
                raised = loop.ending.error
        else:
            loop.close()
            raised = failed
        try:
            if raised is None or raised is error:
                return raised is None
            raise_as_it_is(raised)
        finally:
            # The frames of a traceback keep their variables.
            del error, failed, raised

    def _uncut(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> BaseException | None:
        """What the body ended with, once nothing cuts it any more."""
        if self._cut is None:
            return error
        try:
            self._cut.__exit__(kind, error, trace)
        except CutShort:
            return self._loop.call.cut_error()
        except BaseException as changed:  # noqa: BLE001 - what trio leaves of the errors of a group that it cancelled
            return changed
        return error

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self._loop.call.operation}>"


class Attempts:
    """The loop over attempts; each `for` or `async for` over it is a call of its own."""

    def __init__(self, guard: Retrier) -> None:
        if guard.fallback is not None or guard.retry_result is not None:
            raise TypeError("a loop has no result: fallback and retry_result are for guarded functions")
        self._guard = guard

    def __iter__(self) -> Iterator[Attempt]:
        if self._guard.policy.attempt_timeout is not None:
            raise TypeError(
                "attempt_timeout cannot cut the body of a plain `for`; use `async for`, or guard a function"
            )
        loop = _Loop(self._guard)
        try:
            while (step := loop.next_attempt()) is not None:
                attempt = Attempt(loop, step, None)
                yield attempt
                _check_entered(attempt)
                if isinstance(loop.step, SleepUntil):
                    loop.call.clock.sleep_until(loop.step.when)
                    loop.advance(None)
        finally:
            loop.close()

    def __aiter__(self) -> "AsyncAttempts":
        return AsyncAttempts(_Loop(self._guard))


class AsyncAttempts:
    """One `async for`. Not an async generator: those outlive a loop that is left early."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop
        self._attempt: Attempt | None = None

    def __aiter__(self) -> "AsyncAttempts":
        return self

    def __del__(self) -> None:
        # The loop was left, maybe before `with attempt:`; the attempt, which holds a probe, may still have a name.
        self._loop.close()

    async def __anext__(self) -> Attempt:
        try:
            return await self._next_attempt()
        except BaseException:
            # The error's traceback may keep the loop for long: what was reserved for the next attempt goes back now.
            self._loop.close()
            raise

    async def _next_attempt(self) -> Attempt:
        loop = self._loop
        if self._attempt is not None:
            _check_entered(self._attempt)
        if isinstance(loop.step, SleepUntil):
            await loop.call.clock.asleep_until(loop.step.when)
            loop.advance(None)
        step = loop.next_attempt()
        if step is None:
            raise StopAsyncIteration
        cut = None if step.until is None else loop.call.clock.cut_at(step.until)
        self._attempt = Attempt(loop, step, cut)
        return self._attempt


def _check_entered(attempt: Attempt) -> None:
    if not attempt.entered:
        raise RuntimeError("the loop went round without `with attempt:`; put the work inside it")
